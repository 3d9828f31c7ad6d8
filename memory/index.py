"""Pointer lines: the entries of an index file, `- [Title](file.md) — hook`."""

import re
from collections.abc import Callable, Collection
from itertools import groupby
from urllib.parse import unquote

INDEX = "MEMORY.md"
_LONGEST = 150
_LINK = re.compile(
    r"[ \t]{0,12}[-*+][ \t]+[^\n]{0,200}?\[[^\]\n]{0,400}\]\((?:<([^<>\n]{1,1000})>|([^()\s]{1,1000}))\)"
)
_ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|[/#]")


def is_index(name: str) -> bool:
    """Return whether a file of this name, be it that of a path, is an index."""
    return name.rpartition("/")[2] == INDEX


def pointer(title: str, file: str, hook: str) -> str:
    """Return the index line of a note, on one line and at most 150 characters long.

    The hook is cut first, then the title; the target never, so a file with a very long name makes a longer
    line.
    """
    target = _written(file)
    title = _one_line(title).translate(str.maketrans("[]", "()")) or file
    hook = _one_line(hook)
    title = _cut(title, max(1, _LONGEST - len(f"- []({target})")))
    line = f"- [{title}]({target})"
    room = _LONGEST - len(line) - len(" — ")
    return f"{line} — {_cut(hook, room)}" if hook and room > 1 else line


def pointers(index_text: str) -> list[tuple[str, str]]:
    """Return each pointer line with the file it names, decoded and relative to the index, in their order."""
    return [(line, target) for line in lines_of(index_text) if (target := _target(line))]


def lines_of(index_text: str) -> list[str]:
    """Return the lines of an index; they end with a line feed, after a carriage return maybe, and with nothing else."""
    return [line.rstrip("\r") for line in index_text.split("\n")]


def merged(present: str, written: str, *, seen: Collection[str], exists: Callable[[str], bool]) -> str:
    """Return the index that a writer wants, without losing what others did since the writer looked.

    `seen` holds the pointer lines that the writer knew of. A present line that is new to the writer is kept
    where its file exists; a line that others took out together with its file does not come back.
    """
    there = pointers(present)
    still = {line for line, _ in there}
    text = without(written, lambda line, target: line in seen and line not in still and not exists(target))
    wanted = {target for _, target in pointers(text)}
    missed = [line for line, target in there if line not in seen and target not in wanted and exists(target)]
    return "\n".join([text.rstrip("\n"), *missed, ""]).lstrip("\n") if missed else text


def rewritten(index_text: str, change: Callable[[str, str], str | None]) -> str:
    """Return the index with what `change(line, target)` makes of each line; with None the line goes.

    The target of a line that is no pointer is "".
    """
    lines = ((raw, raw.rstrip("\r")) for raw in index_text.split("\n"))
    changed = ((change(line, _target(line)), raw[len(line) :]) for raw, line in lines)
    return "\n".join(line + end for line, end in changed if line is not None)


def around(line: str) -> str:
    """Return a pointer line without its target."""
    return aimed_at(line, "")


def aimed_at(line: str, file: str) -> str:
    """Return a pointer line with another target."""
    match = _LINK.match(line)
    if match is None:
        return line
    start, end = match.span(1 if match[1] else 2)
    if match[1]:
        start, end = start - 1, end + 1
    return line[:start] + _written(file) + line[end:]


def without(index_text: str, drop: Callable[[str, str], bool]) -> str:
    """Return the index without the pointer lines that `drop(line, target)` says yes to."""
    return rewritten(index_text, lambda line, target: None if target and drop(line, target) else line)


def without_pointers(index_text: str) -> list[str]:
    """Return the runs of lines between the pointer lines."""
    runs = groupby(index_text.split("\n"), key=lambda line: bool(_target(line.rstrip("\r"))))
    return ["\n".join(lines) for pointing, lines in runs if not pointing]


def with_pointer(index_text: str, line: str, file: str) -> str:
    """Return the index with this line in place of those for `file`, at the end if there was none."""
    lines = index_text.removesuffix("\n").split("\n") if index_text else []
    places = [place for place, old in enumerate(lines) if _target(old) == file]
    if places:
        lines[places[0]] = line
    else:
        lines.append(line)
    return "\n".join(old for place, old in enumerate(lines) if place not in places[1:]) + "\n"


def _target(line: str) -> str:
    match = _LINK.match(line)
    if match is None:
        return ""
    target = unquote(match[1] or match[2])
    return "" if _ELSEWHERE.match(target) else target.removeprefix("./")


def _written(file: str) -> str:
    target = re.sub("[%<>]", lambda sign: f"%{ord(sign[0]):02X}", file)
    return f"<{target}>" if re.search(r"[\s()]", file) else target


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1].rstrip() + "…"
