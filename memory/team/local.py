"""The copy of a team's memory on disk: what it holds, what may travel, and who has to give way."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from memory import secret_scan
from memory.disk import DEEPEST, Folder
from memory.errors import PathRefused
from memory.notes import content_hash
from memory.team.wire import ENTRY_BYTES, check_key

_CONFLICT_COPY = re.compile(r"\.conflict-[0-9a-f]{8}\.md\Z")
_SUFFIX = ".md"


@dataclass(frozen=True, kw_only=True, slots=True)
class Skip:
    """A key that did not travel, and why; a secret is named by its kind, never by its text."""

    key: str
    reason: str
    rules: tuple[str, ...] = ()
    """The kinds of secrets because of which it stayed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalCopy:
    """What lies in the team directory: the texts that may be compared, and every name that there is."""

    texts: Mapping[str, str]
    names: frozenset[str]
    skipped: tuple[Skip, ...]
    stored: Mapping[str, str] = field(default_factory=dict)
    """The hashes of those files that hold more than their text here tells."""

    def hash(self, key: str) -> str | None:
        """Return the hash of a text; None if there is none."""
        return content_hash(self.texts[key]) if key in self.texts else None

    def on_disk(self, key: str) -> str:
        """Return the hash of what a writer finds under the key; empty if that is no file."""
        return self.stored.get(key) or self.hash(key) or ""

    def to_compare(self) -> "LocalCopy":
        """Return the copy without its conflict copies, which never travel."""
        return replace(
            self,
            texts={key: text for key, text in self.texts.items() if not is_conflict_copy(key)},
            names=frozenset(key for key in self.names if not is_conflict_copy(key)),
            skipped=tuple(skip for skip in self.skipped if not is_conflict_copy(skip.key)),
        )

    def showing(self, left: Mapping[str, str | None]) -> "LocalCopy":
        """Return the copy with these texts in place of its own, and as if those that are None were not there.

        The files stay as they are.
        """
        texts = {**self.texts, **left}
        return replace(
            self,
            texts={key: text for key, text in texts.items() if text is not None},
            names=self.names - {key for key, text in left.items() if text is None},
            stored={key: content_hash(self.texts[key]) for key in left},
        )


def read_copy(directory: Path) -> LocalCopy:
    """Read every note below the directory, following no link; blocking.

    Hidden files (a write that is under way) and what is no Markdown stay here and are not looked at. What is too
    large or no UTF-8 text is skipped, but its name counts as present.
    """
    texts: dict[str, str] = {}
    names: set[str] = set()
    skipped: list[Skip] = []
    for place, folders, files in os.walk(directory):
        deep = len(Path(place).relative_to(directory).parts) >= DEEPEST
        folders[:] = [] if deep else sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            key = (Path(place) / name).relative_to(directory).as_posix()
            if name.startswith(".") or not name.endswith(_SUFFIX):
                continue
            names.add(key)
            try:
                texts[key] = _read(Path(place), name, root=directory)
            except (PathRefused, OSError, UnicodeError) as error:
                skipped.append(Skip(key=key, reason=f"it can't be read: {type(error).__name__}"))
    return LocalCopy(texts=texts, names=frozenset(names), skipped=tuple(skipped))


def _read(folder: Path, name: str, *, root: Path) -> str:
    with Folder.opened(folder, root=root) as at:
        stored = at.read(name, limit=ENTRY_BYTES)
    if stored is None:
        raise FileNotFoundError(name)
    if len(stored.data) > ENTRY_BYTES:
        raise PathRefused(f"larger than {ENTRY_BYTES} bytes")
    return stored.data.decode("utf-8-sig")


def is_conflict_copy(name: str) -> bool:
    """Return whether a name is that of a text which lost a conflict; such a file never leaves its home."""
    return _CONFLICT_COPY.search(name) is not None


def conflict_copy(key: str, text: str) -> str:
    """Return the key under which a text that lost is kept beside the one that won; the same for the same text."""
    digest = content_hash(text).removeprefix("sha256:")[:8]
    return f"{key.removesuffix(_SUFFIX)}.conflict-{digest}{_SUFFIX}"


def why_not_sent(key: str, text: str) -> Skip | None:
    """Return why a text may not be sent; None if it may."""
    try:
        if check_key(key) != key:
            return Skip(key=key, reason="its name is no plain path")
    except PathRefused as error:
        return Skip(key=key, reason=str(error))
    found = secret_scan.scan(text)
    if not found:
        return None
    kinds = ", ".join(f"{finding.rule} ({finding.label})" for finding in found)
    return Skip(key=key, reason=f"it holds a secret: {kinds}", rules=tuple(finding.rule for finding in found))


class Verdict(StrEnum):
    """What becomes of a key on which the two sides may differ."""

    AGREED = "agreed"
    TAKE = "take"
    """Only the server changed it."""
    KEEP = "keep"
    """Only this side changed or deleted it; a push will tell the server."""
    CONFLICT = "conflict"
    """Both changed it: the server's state stays under the name, the local text beside it."""


def judge(*, local: str | None, server: str | None, base: str | None) -> Verdict:
    """Compare the hashes of a key here, there, and when both last agreed; None: there is no text."""
    if local == server:
        return Verdict.AGREED
    if local == base or (local is None and server != base):
        return Verdict.TAKE
    if server == base:
        return Verdict.KEEP
    return Verdict.CONFLICT
