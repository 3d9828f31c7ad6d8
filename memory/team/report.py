"""What an exchange of team memory has done."""

from dataclasses import dataclass, field

from memory.team.errors import SyncFailed
from memory.team.local import Skip
from memory.team.remote import Answer


@dataclass(kw_only=True)
class SyncReport:
    """What one exchange did, by key. `failure` is set when it did not come to its end; what is listed stays done."""

    written: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    shrunk: list[str] = field(default_factory=list)
    """The notes of which a fact, or the line of an index, went with what was pulled."""
    conflicts: list[str] = field(default_factory=list)
    """The copies that were kept beside texts that won."""
    pushed: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    skipped: list[Skip] = field(default_factory=list)
    failure: SyncFailed | None = None
    found: Answer | None = None
    """What a pull has found, if one came to its end."""
    retries: int = 0
    """How often a push was sent again because somebody else had written."""
    batches: int = 0
    capped: int = 0
    """How many texts stayed because the server takes no more."""

    @property
    def lost(self) -> list[str]:
        """The notes that went or lost something, each once."""
        return list(dict.fromkeys((*self.removed, *self.shrunk)))

    def summary(self) -> str:
        """Return the counts in one line."""
        counts = {
            "pulled": len(self.written) + len(self.removed),
            "pushed": len(self.pushed) + len(self.deleted),
            "conflict" if len(self.conflicts) == 1 else "conflicts": len(self.conflicts),
            "skipped": len(self.skipped),
        }
        return ", ".join(f"{count} {what}" for what, count in counts.items() if count) or "nothing to do"
