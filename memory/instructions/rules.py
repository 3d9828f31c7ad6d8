"""Rules that apply to some files only: the `paths` of their frontmatter, and whether a file is one of them."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pathspec import GitIgnoreSpec

from memory.metadata import parse

MAX_EXPANDED = 1000
MAX_EXPANDED_CHARACTERS = 4 * 1024 * 1024
"""How much the braces of a rule may come to; a pattern that would go beyond is kept as it is written."""

_EVERYTHING = frozenset({"", "**"})
_MOST_WAYS = 4
_LONGEST_PATH = 512
_DEEPEST_PATH = 64
_ODD_SET = re.compile(r"\[[!^]?\]?[^\]]*(?:\[|--|&&|~~|\|\|)")
"""A set of characters of which `re` warns that it may mean something else one day."""
_HEAD = re.compile(r"\A(---[ \t]*\n)(.*?\n)(?=---[ \t]*(?:\n|\Z))", re.DOTALL)
_VALUE = re.compile(r"^([ \t]*+(?:-|paths:)[ \t]++)([^\"'\s].*+)$", re.MULTILINE)


def with_plain_globs(text: str) -> str:
    """Quote the globs in a rule's frontmatter if YAML can't read it: most begin with a sign of YAML's own."""
    head = _HEAD.match(text)
    if head is None or parse(text)[1] != text:
        return text
    quoted = f"{head[1]}{_VALUE.sub(_quoted, head[2])}{text[head.end() :]}"
    return quoted if parse(quoted)[0] else text


def patterns(metadata: dict[str, object]) -> tuple[str, ...]:
    """Return the patterns that a file has to match for the rule to apply; none if it always does."""
    value = metadata.get("paths")
    listed = value if isinstance(value, list) else [_braced(value) if isinstance(value, dict) else value]
    written = [_bare(part) for item in listed if item is not None for part in _split(str(item))]
    found = [pattern.removesuffix("/**") for pattern in _expanded(written)]
    return () if _EVERYTHING.issuperset(found) else tuple(pattern for pattern in found if pattern)


def matches(globs: Sequence[str], touched: Path, *, base: Path) -> bool:
    """Return whether a file is one that the patterns mean, read as a .gitignore in `base` would be.

    A pattern that can't be read, or that could take very long to match, matches nothing; nor does a file
    outside `base`.
    """
    if not touched.is_relative_to(base):
        return False
    relative = touched.relative_to(base)
    if len(str(relative)) > _LONGEST_PATH or len(relative.parts) > _DEEPEST_PATH:
        return False
    return GitIgnoreSpec.from_lines(filter(_usable, globs), backend="simple").match_file(relative.as_posix())


def _quoted(match: re.Match[str]) -> str:
    value = match[2].rstrip(" \t")
    if value.startswith("[") and value.endswith("]"):
        value = value[1:-1]
    value = value.replace("'", "''")
    return f"{match[1]}'{value}'"


def _braced(value: dict[object, object]) -> str:
    """Write again what YAML took for a mapping."""
    return "{" + ",".join(map(str, value)) + "}"


def _bare(part: str) -> str:
    return part.strip().strip("\"'").strip()


def _split(text: str) -> Iterator[str]:
    """Yield what is between the commas that stand in no braces."""
    start = depth = 0
    for place, char in enumerate(text):
        if char == "{":
            depth += 1
        elif char == "}":
            depth = max(depth - 1, 0)
        elif char == "," and not depth:
            yield text[start:place]
            start = place + 1
    yield text[start:]


def _expanded(written: Iterable[str]) -> list[str]:
    out: dict[str, None] = {}
    characters = 0
    for pattern in written:
        found = _alternatives(pattern, count=MAX_EXPANDED - len(out), characters=MAX_EXPANDED_CHARACTERS - characters)
        characters += sum(map(len, found))
        out.update(dict.fromkeys(found))
    return list(out)


def _alternatives(pattern: str, *, count: int, characters: int) -> list[str]:
    """Return a pattern for each choice in its braces, or the pattern alone if that would be too much."""
    waiting, done, size = [pattern], list[str](), len(pattern)
    while waiting:
        text = waiting.pop()
        group = _outer_braces(text)
        if group is None:
            done.append(text)
            continue
        start, end = group
        made = [f"{text[:start]}{choice}{text[end + 1 :]}" for choice in _split(text[start + 1 : end])]
        waiting += reversed(made)
        size += sum(map(len, made)) - len(text)
        if len(waiting) + len(done) > count or size > characters:
            return [pattern]
    return done


def _outer_braces(text: str) -> tuple[int, int] | None:
    """Return where the first pair of braces that is in no other one begins and ends."""
    open_at, first, escaped = list[int](), None, False
    for place, char in enumerate(text):
        if escaped or char == "\\":
            escaped = not escaped
        elif char == "{":
            open_at.append(place)
        elif char == "}" and open_at:
            start = open_at.pop()
            first = (start, place) if first is None or start < first[0] else first
    return first


def _usable(glob: str) -> bool:
    """Tell whether it can be read and matched soon: each further star has its place to be searched for."""
    parts = glob.split("/")
    ways = sum(1 if part == "**" else max(part.count("*") - 1, 0) for part in parts)
    if ways > _MOST_WAYS or _ODD_SET.search(glob):
        return False
    try:
        GitIgnoreSpec.from_lines([glob], backend="simple")
    except (ValueError, re.error):
        return False
    return True
