"""Which note or log is meant: by its file's name, with or without the ending, its title, words of them, or a day."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from pathlib import Path, PurePosixPath

from anyio import to_thread

from memory.errors import PathRefused
from memory.metadata import parse
from memory.paths import readable_path
from memory.prompt import read_text
from memory.scan import LOGS, NoteHeader, Scans
from memory.scope import Scope

_HEAD_BYTES = 16_384
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}(\.\d+)?\Z", re.ASCII)


def title(text: str) -> str:
    """Return the title that a note gives itself, "" if none."""
    return str(parse(text)[0].get("name") or "")


def named(names: Iterable[str], wanted: str, title_of: Callable[[str], str]) -> list[str]:
    """Return the notes that have this name: the one file exactly so, else all with it as a file's name or title.

    `names` are relative to the memory directory; a file in a folder is meant by its last part too. Letter case,
    Unicode form, and whether words are joined by hyphens, underscores or blanks do not count.
    """
    known = list(names)
    for exactly in (wanted, f"{wanted}.md"):
        if exactly in known:
            return [exactly]
    meant = _folded(wanted)
    by_file = [name for name in known if meant in _file_names(name)]
    return by_file or [name for name in known if meant and meant == _folded(title_of(name))]


def holding(names: Iterable[str], wanted: str, title_of: Callable[[str], str]) -> list[str]:
    """Return the notes whose file's name or title has words that begin as all of these do, else those that hold them.

    The same rules go for letter case and the like.
    """
    words = _folded(wanted).split()
    if not words:
        return []
    own = {name: "".join(f" {each}" for each in (*_file_names(name), _folded(title_of(name)))) for name in names}
    begun = [name for name, said in own.items() if all(f" {word}" in said for word in words)]
    return begun or [name for name, said in own.items() if all(word in said for word in words)]


def day_logs(scope: Scope) -> list[Path]:
    """Return the day logs below A, by day and part; blocking."""
    found = (scope.memory_dir / LOGS).glob("[0-9]*/[0-9]*/*.md")
    return sorted(
        (path for path in found if _DAY.match(path.stem)), key=lambda path: (path.stem[:10], len(path.stem), path.stem)
    )


async def look_up(scope: Scope, scanner: Scans, wanted: str) -> list[Path]:
    """Return the files below A that somebody may mean: the one at this path, those of this name, else of these words.

    A day, such as 2026-11-30, means its log, with all of its parts.

    By its path an index or a day log is found as well, and whatever else is there: why it is no note, its reader says.
    """
    return await to_thread.run_sync(partial(_found, scope, await scanner.scan(scope), wanted))


def _found(scope: Scope, headers: Sequence[NoteHeader], wanted: str) -> list[Path]:
    there = [path for given in (wanted, f"{wanted}.md") if (path := _file(scope, given)) is not None]
    if there:
        return there[:1]
    paths = {header.name: header.path for header in headers}

    @cache
    def title_of(name: str) -> str:
        return title(read_text(scope.memory_dir, paths[name], limit=_HEAD_BYTES))

    if found := named(paths, wanted, title_of):
        return [paths[name] for name in found]
    day = wanted.strip().removesuffix(".md")
    logs = (
        [path for path in day_logs(scope) if path.stem == day or path.stem.startswith(f"{day}.")]
        if _DAY.match(day)
        else []
    )
    return logs or [paths[name] for name in holding(paths, wanted, title_of)]


def _file(scope: Scope, given: str) -> Path | None:
    try:
        path = readable_path(scope, given)
        there = path.is_relative_to(scope.memory_dir) and path.exists()  # a project's files are no memory
    except (PathRefused, OSError):  # such as a name that is too long for any file
        return None
    return path if there and path != scope.memory_dir else None


def _file_names(name: str) -> tuple[str, str]:
    return _folded(name), _folded(PurePosixPath(name).name)


def _folded(name: str) -> str:
    plain = unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
    return " ".join(plain.removesuffix(".md").replace("-", " ").replace("_", " ").split())
