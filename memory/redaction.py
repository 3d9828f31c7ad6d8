"""Texts and names without what tells something that was forgotten: notes, their headers, file names and indexes.

`betrays` says of a piece of text whether it tells what is forgotten, or has a word that only that has.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, count, groupby
from pathlib import PurePosixPath

import yaml

from memory.blocks import without_telling
from memory.facts import described, facts, pruned
from memory.index import aimed_at, around, pointer, pointers, rewritten
from memory.metadata import head_of, parse
from memory.paths import TEAM
from memory.scan import TYPES

Betrays = Callable[[str], bool]

_DESCRIPTION = 100
_SUFFIX = re.compile(r"(?:\.conflict-[0-9a-f]{8})?\.md\Z")  # team sync must still see that it is a conflict copy
_NEUTRAL = re.compile(rf"note-[0-9a-f]{{8}}(?:-\d+)?{_SUFFIX.pattern}")
_FIXED = re.compile(rf"\A(?:name|description|type):(?: *(?:{'|'.join(TYPES)})\b)?")
"""What stands in the header of most notes, and so tells nothing."""
_GONE = object()


def redacted(
    text: str, same: Betrays, betrays: Betrays, *, title: str, stays: Betrays = lambda description: False
) -> str:
    """Return a note without the facts that are the `same`, and without what betrays them around the facts that stay.

    Those stay word for word. Returns "" if no fact is left, nor a description that `stays` says yes to. `title` stands
    in for a name that tells too much.
    """
    head, (metadata, rest) = head_of(text), parse(text)
    body = text[len(head) :]
    left = pruned(body, same, betrays=betrays)
    if head and rest == body:
        head = _header(head, metadata, betrays, {"name": title, "description": _about(left, betrays)})
    else:
        head = "".join(without_telling(head.splitlines(keepends=True), betrays))
        left = left if head or parse(left)[1] == left else f"\n{left}"  # a rule would begin a header there
    if head + left == text:
        return text
    alive = facts(head + left) or any(not facts(text) or stays(about) for about in described(head))
    return head + left if alive else ""


def title_of(note: str) -> str:
    """Return the title that a note has by its file name."""
    return PurePosixPath(note).stem.replace("-", " ").replace("_", " ")


def neutral(note: str, betrays: Betrays) -> Iterator[str]:
    """Yield a note's name if it tells nothing, else the names that it may get instead, without end.

    They are the same each time. Folders stay as far as their names tell nothing; `team/` always does.
    """
    parts = PurePosixPath(note).parts
    fixed = parts[: 1 if parts[0] == TEAM else 0]
    free = parts[len(fixed) :]
    clean = tuple(_until_told(free, betrays))
    if clean == free and (len(free) == 1 or _NEUTRAL.fullmatch(free[-1]) or not betrays(" ".join(map(title_of, free)))):
        yield note
        return
    suffix = _SUFFIX.search(note)
    stem = f"note-{hashlib.sha256(note.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    for number in count(1):
        name = f"{stem}{f'-{number}' if number > 1 else ''}{suffix[0] if suffix else '.md'}"
        yield "/".join((*fixed, *clean[: len(free) - 1], name))


def index_without(
    text: str,
    betrays: Betrays,
    *,
    names: Callable[[str], str | None],
    folder: str = "",
    drop: Betrays | None = None,
) -> str:
    """Return an index without what betrays; a pointer line that does so keeps only its target.

    With `drop`, which is asked of the facts that stand between the pointers, those that stay do so whole.
    `names` gives a note's name from now on, None for one that is gone and loses its line. `folder` is where the index
    is, "" or ending in `/`. All names are relative to the memory directory.
    """

    def change(line: str, target: str) -> str | None:
        if not target:
            return line
        name = names(folder + target)
        if name is None or not name.startswith(folder):
            return None
        if name != folder + target:
            target = name.removeprefix(folder)
            line = aimed_at(line, target)
        return pointer(title_of(target), target, "") if betrays(around(line)) else line

    left = rewritten(text, change).split("\n")
    if drop is None:
        runs = groupby(left, key=lambda line: bool(line.strip()) and not pointers(line))
        kept = (without_telling([*lines], betrays) if plain else [*lines] for plain, lines in runs)
        return "\n".join(chain.from_iterable(kept))
    between = groupby((f"{line}\n" for line in left), key=lambda line: not pointers(line))
    parts = (pruned("".join(lines), drop, betrays=betrays) if plain else "".join(lines) for plain, lines in between)
    return "".join(parts).removesuffix("\n")


def _until_told(parts: Sequence[str], betrays: Betrays) -> Iterator[str]:
    for part in parts:
        if betrays(_SUFFIX.sub("", part)) and not _NEUTRAL.fullmatch(part):
            return
        yield part


def _about(body: str, betrays: Betrays) -> str:
    found = facts(f"\n{body}")  # what begins with a rule is no header here
    return next((fact[:_DESCRIPTION] for fact in found if not betrays(fact)), "")


def _header(head: str, metadata: Mapping[str, object], betrays: Betrays, instead: Mapping[str, str]) -> str:
    """Return a header that could be read, anew if anything in it betrays, be it a comment."""
    kept: dict[str, object] = {}
    for key, value in metadata.items():
        left = _cleared(value, betrays) if key in instead else _entry(key, value, betrays)
        if key in instead and left != value:
            left = instead[key]
        if left is not _GONE:
            kept[key] = left
    if kept == metadata and not any(betrays(_FIXED.sub("", line)) for line in head.splitlines()):
        return head
    return f"---\n{yaml.safe_dump(kept, allow_unicode=True, sort_keys=False) if kept else ''}---\n"


def _entry(key: str, value: object, betrays: Betrays) -> object:
    if key == "type" and value in TYPES:
        return value
    left = _cleared(value, betrays)
    single = left is not _GONE and not isinstance(left, dict | list)
    return _GONE if betrays(key) or (single and betrays(f"{key} {left}")) else left


def _cleared(value: object, betrays: Betrays) -> object:
    """Return a value of a header without what betrays in it, `_GONE` if that is all of it."""
    if isinstance(value, str):
        return _GONE if betrays(value) else value
    if isinstance(value, dict):
        entries = ((key, _entry(str(key), each, betrays)) for key, each in value.items())
        return _unless_told({key: left for key, left in entries if left is not _GONE}, value, betrays)
    if isinstance(value, list):
        items = (_cleared(each, betrays) for each in value)
        return _unless_told([left for left in items if left is not _GONE], value, betrays)
    return value


def _unless_told(left: dict[object, object] | list[object], value: object, betrays: Betrays) -> object:
    """Return what is left of a collection, unless that is nothing or its parts betray together."""
    return _GONE if (value and not left) or betrays(" ".join(_words(left))) else left


def _words(value: object) -> Iterator[str]:
    if isinstance(value, dict | list):
        for each in chain.from_iterable(value.items()) if isinstance(value, dict) else value:
            yield from _words(each)
    else:
        yield str(value)
