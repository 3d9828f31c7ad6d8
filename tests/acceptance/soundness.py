"""Whether the files of a memory are whole: what a crash, a partition or a race must never leave behind."""

from collections.abc import Iterator
from pathlib import Path

from memory.index import INDEX, pointers
from memory.metadata import parse
from memory.team.mark import MARK

_OURS = frozenset({".consolidate-lock", ".processed", MARK})


def unsound(memory: Path) -> list[str]:
    """Return what is wrong below a folder, one line each: files left over, half-written notes, dangling index lines.

    A whole note of these tests ends with what its description says, as `whole.note` makes them.
    """
    return [f"{path.relative_to(memory)}: {what}" for path in _files(memory) for what in _faults(path)]


def _files(memory: Path) -> Iterator[Path]:
    return (path for path in sorted(memory.rglob("*")) if path.is_file())


def _faults(path: Path) -> Iterator[str]:
    if path.name.startswith(".") and path.name not in _OURS:
        yield "is left over"
        return
    if path.suffix != ".md":
        return
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError:
        yield "is no text"
        return
    if path.name == INDEX:
        yield from (f"points to {to}" for _, to in pointers(text) if not (path.parent / to).is_file())
        files = [to for _, to in pointers(text)]
        yield from (f"names {to} {files.count(to)} times" for to in sorted(set(files)) if files.count(to) > 1)
    elif text.startswith("---"):
        head, body = parse(text)
        if not head.get("description") or not body.strip().endswith(str(head["description"])):
            yield f"is not whole: {text[:200]!r}"
    elif not is_copy_of_an_index(path) and not is_log(path):
        yield f"has no head: {text[:60]!r}"


def is_copy_of_an_index(path: Path) -> bool:
    """Whether a file is an index that gave way to another; it points to what was there then."""
    return path.name.startswith("MEMORY.conflict-")


def is_log(path: Path) -> bool:
    """Whether a file is a day log."""
    return "logs" in path.parts
