"""The names of the leases that memory asks for: each guards one memory directory against others of its kind."""

from memory.scope import Scope

EXTRACTING = "extract"
"""The kind of `extracting`, which stands before the colon."""


def writing(scope: Scope) -> str:
    """Return the lease under which a file of the directory is replaced."""
    return f"memory:{scope.memory_dir}"


def extracting(scope: Scope) -> str:
    """Return the lease of whoever saves what was said, or forgets it."""
    return f"{EXTRACTING}:{scope.memory_dir}"


def dreaming(scope: Scope) -> str:
    """Return the lease of whoever rewrites the whole directory."""
    return f"dream:{scope.memory_dir}"


def exchanging(scope: Scope) -> str:
    """Return the lease of whoever exchanges the team's notes with their server."""
    return f"team-sync:{scope.memory_dir}"
