"""Searching files for a pattern that a model wrote, bounded in time.

The SDK's own `grep` runs Python's `re` on the event loop, where one unlucky pattern would hold up every chat.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import regex

from memory.decoding import encoding_of
from memory.disk import DEEPEST

_LINE_SECONDS = 0.05
_MARK_BYTES = 4
_SECONDS = 5.0  # for the whole search
_MAX_PATTERN = 1000
_MAX_HITS = 200
_MAX_FILES = 20_000
_MAX_LINE = 500
_TOO_SLOW = "the regular expression takes too long; use a simpler one, or look in fewer files"


async def grep(pattern: str, where: Path, *, allowed: Callable[[str], bool]) -> str:
    """Return matching lines as `path:line:text`; raises `ValueError` on a pattern that is wrong or takes too long."""
    if len(pattern) > _MAX_PATTERN:
        raise ValueError(f"the regular expression is longer than {_MAX_PATTERN} characters")
    hits = await asyncio.to_thread(lambda: list(_hits(_compiled(pattern), where, allowed)))
    return "\n".join(hits) or "no matches"


def _compiled(pattern: str) -> "regex.Pattern[str]":
    try:
        return regex.compile(pattern)
    except (regex.error, RecursionError) as error:
        raise ValueError(f"the regular expression is wrong: {error}") from error


def _hits(compiled: "regex.Pattern[str]", where: Path, allowed: Callable[[str], bool]) -> Iterator[str]:
    count, deadline = 0, time.monotonic() + _SECONDS
    for file in _files(where):
        if not allowed(str(file)):
            continue
        for number, line in enumerate(_lines(file), start=1):
            if time.monotonic() > deadline:
                raise ValueError(_TOO_SLOW)
            try:
                found = compiled.search(line, timeout=_LINE_SECONDS, concurrent=True)
            except TimeoutError:
                raise ValueError(_TOO_SLOW) from None
            if found:
                yield f"{file}:{number}:{line[:_MAX_LINE]}"
                count += 1
                if count == _MAX_HITS:
                    yield f"(only the first {_MAX_HITS} matches; narrow the pattern)"
                    return


def _files(where: Path) -> Iterator[Path]:
    if where.is_file():
        yield where
        return
    seen = 0
    for folder, folders, names in os.walk(where):
        deep = len(Path(folder).relative_to(where).parts) >= DEEPEST
        folders[:] = [] if deep else sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(folder) / name
            if path.is_symlink() or not path.is_file():
                continue
            seen += 1
            if seen > _MAX_FILES:
                return
            yield path


def _lines(file: Path) -> Iterator[str]:
    try:
        with file.open("rb") as head:
            encoding = encoding_of(head.read(_MARK_BYTES))
        with file.open(encoding=encoding, errors="replace") as stream:
            for line in stream:
                yield line.rstrip("\r\n")[:10_000]
    except OSError:
        return
