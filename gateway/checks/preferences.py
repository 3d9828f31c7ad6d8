"""What people have said of their own memory in files: those that can't be understood, and so switch it off."""

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from gateway.checks.finding import Finding, ok, warn
from gateway.settings import Settings
from gateway.settings_faults import nearest
from memory.preferences import PRINCIPAL_FILE, PROJECT_FILE, Preferences
from memory.scope import OptOut, Part

_UNDECIDED = "switch_neither_on_nor_off"
_SWITCHES = ", ".join(Part)
_CURES = {
    "TOMLDecodeError": "Mend that line, or take the file away.",
    _UNDECIDED: "Write true or false there, or take the line out.",
    "unknown": f"Write one of {_SWITCHES}, or take the line out.",
}
_CURE = "Put a plain file of TOML there, UTF-8 and below 64 KiB, that the gateway may read, or take it away."
_CAUSES = {
    "link_or_no_plain_file": "is a link, or no plain file",
    "too_long": "is longer than 64 KiB",
    "UnicodeDecodeError": "is no UTF-8",
    "memory_is_no_table": "has a memory that is no table (write [memory] above its switches)",
}


def check_preferences(settings: Settings) -> list[Finding]:
    """Read the files of all homes and projects, as far as they are there; each fault in one sentence."""
    return list(_faults(settings)) or [ok("preferences", "no file of a home or project is at fault")]


def _faults(settings: Settings) -> Iterator[Finding]:
    preferences = Preferences(settings.memory)
    homes = sorted((settings.memory_base / "homes").glob(f"*/{PRINCIPAL_FILE}"))
    for file in homes:
        yield from _found(file, preferences.opted_out(home=file.parent, project_root=None))
    for root in dict.fromkeys(project.root for project in settings.projects.values() if project.root is not None):
        file = root / PROJECT_FILE
        yield from _found(file, preferences.opted_out(home=file, project_root=root))  # no folder, so nobody's home


def _found(file: Path, wishes: Sequence[OptOut]) -> Iterator[Finding]:
    for wish in wishes:
        if wish.fault:
            off = "all of its memory is" if wish.part is Part.MEMORY else f"{wish.part} counts as"
            said = f"{file} {_cause(file, wish)}, so {off} off"
            yield warn("preferences", said, _CURES.get(wish.fault, _CURE))
    if {wish.fault for wish in wishes} - {"", _UNDECIDED}:
        return  # it was not read to its end, or is not even where it seems to be
    for key in _unknown(file):
        said = f"{file} sets memory.{key}, which may not stand there and does nothing{nearest(key, list(Part))}"
        yield warn("preferences", said, _CURES["unknown"])


def _cause(file: Path, wish: OptOut) -> str:
    if wish.fault == _UNDECIDED:
        return f"has a {wish.part} that is neither true nor false"
    if wish.fault == "TOMLDecodeError":
        try:
            _memory(file)
        except (OSError, ValueError) as error:
            return f"is not valid TOML ({error})"
    return _CAUSES.get(wish.fault, f"can't be read ({wish.fault})")


def _unknown(file: Path) -> list[str]:
    try:
        given = _memory(file)
    except (OSError, ValueError, RecursionError):  # it has just changed, or gone
        return []
    return [key for key in given if key not in list(Part)] if isinstance(given, dict) else []


def _memory(file: Path) -> object:
    return tomllib.loads(file.read_text(encoding="utf-8-sig")).get("memory", {})
