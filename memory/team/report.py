"""What an exchange of team memory has done."""

from collections.abc import Iterable
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
    refused: list[Skip] = field(default_factory=list)
    """Those of the skipped that the server has, and this side does not take."""
    failure: SyncFailed | None = None
    rests: SyncFailed | None = None
    """The failure because of which nothing was pushed this time, as it would only be repeated."""
    found: Answer | None = None
    """What a pull has found, if one came to its end."""
    retries: int = 0
    """How often a push was sent again because somebody else had written."""
    batches: int = 0
    capped: int = 0
    """How many texts stayed because the server takes no more."""

    def skip(self, key: str, reason: str) -> None:
        """Note that a key did not travel, once for each reason."""
        self.still([Skip(key=key, reason=reason)])

    def refuse(self, skip: Skip) -> None:
        """Note that what the server has under a key was not taken."""
        self.still([skip])
        self.refused.append(skip)

    def still(self, skips: Iterable[Skip]) -> None:
        """Note what did not travel, this time or before, each once."""
        self.skipped += [skip for skip in dict.fromkeys(skips) if skip not in self.skipped]

    @property
    def lost(self) -> list[str]:
        """The notes that went or lost something, each once."""
        return list(dict.fromkeys((*self.removed, *self.shrunk)))

    def counts(self) -> str:
        """Return what travelled, and what did not, in one line."""
        counts = {
            "pulled": len(self.written) + len(self.removed),
            "pushed": len(self.pushed) + len(self.deleted),
            "conflict" if len(self.conflicts) == 1 else "conflicts": len(self.conflicts),
            "skipped": len(self.skipped),
        }
        return ", ".join(f"{count} {what}" for what, count in counts.items() if count) or "nothing to do"

    def summary(self) -> str:
        """Return the counts, and why nothing is pushed if so, in one line."""
        return self.counts() + (f"; nothing is pushed for now: {self.rests}" if self.rests is not None else "")
