"""Files that belong to a conversation: stored once, under their content's hash, and put into requests when they go out.

A transcript holds only a source of type `kept` that names the file, so that neither the database nor a session that is
read back carries megabytes; requests stay the same bytes as long as the files are there.
"""

import base64
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

FOLDER = "attachments"
"""Below the principal's home."""

_KEPT = "kept"
_IN_MEMORY = 16  # files; those of the conversations that are spoken in


def keep(folder: Path, content: bytes, *, kind: str, media_type: str) -> dict[str, Any]:
    """Store a file, whole or not at all, and return the block that stands for it: an `image` or a `document`.

    Raises `OSError`; then nothing of it stays.
    """
    path = folder / hashlib.sha256(content).hexdigest()
    if not path.exists():
        _store(content, path)
    os.utime(path)
    name = f"{folder.parent.name}/{folder.name}/{path.name}"
    return {"type": kind, "source": {"type": _KEPT, "file": name, "media_type": media_type}}


def _store(content: bytes, path: Path) -> None:
    handle, fresh = tempfile.mkstemp(prefix=".part-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(fresh).replace(path)
    except OSError:
        Path(fresh).unlink(missing_ok=True)
        raise


def holds_files(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a file stands for something in these messages."""
    return any(_has_kept(message["content"]) for message in messages)


def unused(homes: Path, *, before: float) -> Iterator[Path]:
    """Yield what no request has needed since `before` (Unix seconds), and what a crash has left unfinished."""
    for path in homes.glob(f"*/{FOLDER}/*"):
        with suppress(OSError):
            if path.lstat().st_mtime < before:
                yield path


def discard(path: Path) -> None:
    """Delete a stored file, or the folder of one that was never stored whole. Raises `OSError`."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


class KeptFiles:
    """Puts the files into requests. `homes` is the folder of all homes; `most_bytes` of base64 go into one request."""

    def __init__(self, homes: Path, *, most_bytes: int) -> None:
        self._homes, self._most_bytes = homes, most_bytes
        self._read = lru_cache(maxsize=_IN_MEMORY)(_base64)

    def filled(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return messages with files in the place of the sources that name them, the newest first as long as they fit.

        In the place of the others, and of files that are gone, a sentence says so.
        """
        left, result = self._most_bytes, []
        for message in reversed(messages):
            blocks, left = self._blocks(message["content"], left)
            result.append({**message, "content": blocks})
        return result[::-1]

    def _blocks(self, content: Any, left: int) -> tuple[Any, int]:
        if not _has_kept(content):
            return content, left
        blocks = []
        for block in reversed(content):
            data = self._data(block, left) if _is_kept(block) else None
            left -= len(data or "")
            blocks.append(_with(block, data) if _is_kept(block) else block)
        return blocks[::-1], left

    def _data(self, block: Mapping[str, Any], left: int) -> str | None:
        path = self._homes / block["source"]["file"]
        try:
            os.utime(path)  # it is still in use
            data = self._read(path)
        except OSError:
            return None
        return data if len(data) <= left else None


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def _has_kept(content: Any) -> bool:
    return isinstance(content, list) and any(_is_kept(block) for block in content)


def _is_kept(block: Mapping[str, Any]) -> bool:
    source = block.get("source")
    return isinstance(source, Mapping) and source.get("type") == _KEPT


def _with(block: Mapping[str, Any], data: str | None) -> dict[str, Any]:
    if data is not None:
        source = {"type": "base64", "media_type": block["source"]["media_type"], "data": data}
        return {**block, "source": source}
    what = "picture" if block["type"] == "image" else "document"
    mark = {name: value for name, value in block.items() if name == "cache_control"}
    return {"type": "text", "text": f"[A {what} stood here; it is not kept any more.]", **mark}
