"""The copy of a team's memory on disk: what it holds, what may travel, and who has to give way."""

import os
import re
import stat
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path, PurePosixPath

from memory import secret_scan
from memory.disk import DEEPEST, Folder
from memory.errors import PathRefused
from memory.index import is_index
from memory.notes import content_hash
from memory.secret_scan import secrets_in
from memory.team.wire import ENTRY_BYTES, check_key

_CONFLICT_COPY = re.compile(r"\.conflict-[0-9a-f]{8}\.md\Z")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""What no list of notes shows on one line, so that nothing there would ever find such a note."""
_SUFFIX = ".md"
_LONGEST_KEY = 1000  # bytes: the way to the team directory comes before it
_LONGEST_NAME = 255 - len(".conflict-01234567")  # bytes: a text that loses is kept under a longer one


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
        """Return the copy without what never travels; of a name in another Unicode form, its own form is taken too."""
        kept = frozenset(key for key in self.names if why_not_kept(key) is None)
        other = sorted(key for key in self.names - kept if not is_conflict_copy(key))
        plain = [unicodedata.normalize("NFC", key) for key in other]
        left_out = [
            Skip(key=key if each in kept else each, reason=why_not_kept(key) or "")
            for key, each in zip(other, plain, strict=True)
        ]
        return replace(
            self,
            texts={key: text for key, text in self.texts.items() if key in kept},
            names=kept.union(plain),
            skipped=(*(skip for skip in self.skipped if skip.key in kept), *left_out),
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
        folders[:] = [] if deep else sorted(name for name in folders if not _is_hidden(name))
        for name in sorted(files):
            key = (Path(place) / name).relative_to(directory).as_posix()
            if _is_hidden(name) or not name.endswith(_SUFFIX):
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


def why_not_kept(key: str) -> str | None:
    """Return why a copy has no text under this key; None if it may have one.

    What is not kept is neither taken from the server nor sent to it: so that it isn't there never means that somebody
    has deleted it. `read_copy` finds every text under a key that is kept.
    """
    try:
        if check_key(key) != key:
            return "its name is no plain path"
        too_long = len(key.encode()) > _LONGEST_KEY or any(
            len(part.encode()) > _LONGEST_NAME for part in key.split("/")
        )
    except PathRefused as error:
        return str(error)
    except UnicodeEncodeError:
        return "its name is not valid Unicode text"
    folders = PurePosixPath(key).parts[:-1]
    reasons = {
        "its name is that of a conflict copy": is_conflict_copy(key),
        "its name does not end in .md, as a note's does": not key.endswith(_SUFFIX),
        "it is hidden: a name on its path begins with a dot": any(map(_is_hidden, key.split("/"))),
        f"it lies deeper than {DEEPEST} folders": len(folders) > DEEPEST,
        "its name is too long": too_long,
        "its name holds control characters": _CONTROL.search(key) is not None,
        "a folder on its path has the name of an index": any(map(is_index, folders)),
        "its accents are characters of their own (NFD): renamed to the usual Unicode form, NFC, it travels": (
            unicodedata.normalize("NFC", key) != key
        ),
    }
    return next((reason for reason, applies in reasons.items() if applies), None)


def _is_hidden(name: str) -> bool:
    return name.startswith(".")


def out_of_sight(directory: Path, key: str) -> bool:
    """Return whether it can't be told if there is a file: a name on the way is a link or can't be looked at."""
    place = directory
    try:
        for part in PurePosixPath(key).parts:
            place /= part
            if stat.S_ISLNK(place.lstat().st_mode):
                return True
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return False


def look_of(directory: Path, key: str) -> tuple[str, bool]:
    """Return how the way to a file looks, and whether something on it can be seen to bar it."""
    place, marks, barred = directory, list[str](), False
    parts = PurePosixPath(key).parts
    for number, part in enumerate(parts, start=1):
        place /= part
        try:
            found = place.lstat()
        except OSError as error:
            return " ".join([*marks, str(error.errno)]), barred
        last, mode = number == len(parts), found.st_mode
        marks.append(f"{mode}:{found.st_ino}" + (f":{found.st_mtime_ns}:{found.st_size}" if last else ""))
        barred |= not (stat.S_ISREG(mode) and mode & stat.S_IWUSR) if last else not stat.S_ISDIR(mode)
    return " ".join(marks), barred


def make_room(place: Path) -> None:
    """Remove folders that hold nothing from where a file is to be; blocking. Anything else stays."""
    if place.is_symlink() or not place.is_dir():
        return
    for folder, _, _ in os.walk(place, topdown=False):
        with suppress(OSError):
            Path(folder).rmdir()


def is_conflict_copy(name: str) -> bool:
    """Return whether a name is that of a text which lost a conflict; such a file never leaves its home."""
    return _CONFLICT_COPY.search(name) is not None


def conflict_copy(key: str, text: str) -> str:
    """Return the key under which a text that lost is kept beside the one that won; the same for the same text."""
    digest = content_hash(text).removeprefix("sha256:")[:8]
    return f"{key.removesuffix(_SUFFIX)}.conflict-{digest}{_SUFFIX}"


def why_not_sent(key: str, text: str) -> Skip | None:
    """Return why a text may not be sent; None if it may."""
    if reason := why_not_kept(key):
        return Skip(key=key, reason=reason)
    return secret_in(key, text)


def secret_in(key: str, text: str) -> Skip | None:
    """Return which kinds of secret keep a text, or its key, from travelling, whichever way; None if none does."""
    found = secrets_in(key, text)
    if not found:
        return None
    kinds = ", ".join(f"{finding.rule} ({finding.label})" for finding in found)
    rules = tuple(finding.rule for finding in found)
    return Skip(key=secret_scan.redact(key), reason=f"it holds a secret: {kinds}", rules=rules)


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
