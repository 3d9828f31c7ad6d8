"""What travels between a team memory's client and server, and how each checks the keys of what it is given.

`GET …?repo=owner/repo` gives a `TeamMemory`, with `&view=hashes` only its `Hashes`; `PUT` takes a `Put` and
gives a `PutAnswer`. Fields that plain clients and servers lack (`deleted`, `deletedChecksums`, `entryVersions`) are
optional.
"""

import json
import posixpath
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from memory.errors import PathRefused

PATH = "/api/claude_code/team_memory"
ENTRY_BYTES = 250_000
"""The largest entry, in bytes of UTF-8."""
BODY_BYTES = 200_000
"""The largest body of a PUT with more than one entry; a bigger entry goes alone."""
TOO_MANY_ENTRIES = "team_memory_too_many_entries"

_FIXED = len('{"entries":{}}')
_FIXED_DELETED = len('{"entries":{},"deleted":[]}')
_LONGEST_PATH = 2000
"""Bytes; PostgreSQL's index takes no much longer ones."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_TAG = re.compile(r"[!#-~]{1,256}")


class _Wire(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")


class Content(_Wire):
    """The texts of a repo; `deleted_checksums` has the hash of each deleted entry's last text.

    `entry_versions` tells since which version of the repo each text is as it is, so that whoever knew another text at
    that version or a later one sees that the server was put back.
    """

    entries: dict[str, str] = {}
    entry_checksums: dict[str, str] | None = None
    entry_versions: dict[str, int] | None = None
    deleted_checksums: dict[str, str] | None = None


class TeamMemory(_Wire):
    """The whole team memory of a repo."""

    organization_id: str | None = None
    repo: str = ""
    version: int | str = 0
    last_modified: str = ""
    checksum: str | None = None
    content: Content


class Hashes(_Wire):
    """The answer to `view=hashes`."""

    checksum: str | None = None
    version: int | str = 0
    entry_checksums: dict[str, str] | None = None
    content: Content | None = None
    """Where some servers put the map instead."""

    def by_key(self) -> dict[str, str]:
        """Return the hash of each key, wherever the server put it."""
        if self.entry_checksums is not None:
            return self.entry_checksums
        return (self.content.entry_checksums if self.content else None) or {}


class Put(_Wire):
    """What a client writes: keys that it leaves out are kept as they are."""

    entries: dict[str, str]
    deleted: list[str] = []


class PutAnswer(_Wire):
    """The state after a write; a `deleted` that is there says that the server keeps deletions."""

    checksum: str | None = None
    deleted: list[str] | None = None
    version: int | str = 0
    last_modified: str = ""


def state_checksum(live: Mapping[str, str], deleted: Mapping[str, str]) -> str:
    """Return one checksum of a whole repo from the hashes of its entries and of what was deleted."""
    state = [sorted(live.items()), sorted(deleted.items())]
    return f"sha256:{sha256(json.dumps(state).encode()).hexdigest()}"


def check_key(key: str) -> str:
    """Return the key as a plain path relative to the team directory; raises `PathRefused` if it is none.

    Lexical only: whoever writes the file also has to look at links on the way. Refuses some harmless keys
    too, such as one with an escaped blank in a folder, since no name of a note needs them. The error does not quote
    the key: it is shown to people, and a key is whatever a server likes to say.
    """
    if "\0" in key:
        raise PathRefused("its name holds a NUL")
    _check_disguise(key, unquote(key), forbidden=("..", "/"), what="percent escapes")
    _check_disguise(key, unicodedata.normalize("NFKC", key), forbidden=("..", "/", "\\", "\0"), what="look-alikes")
    if "\\" in key or key.startswith("/"):
        raise PathRefused("its name is no relative path with forward slashes")
    plain = posixpath.normpath(key) if key else "."
    if plain in {".", ".."} or plain.startswith("../"):
        raise PathRefused("its name leaves the team directory")
    return plain


def check_path(key: str) -> None:
    """Raise `PathRefused` if a key could be a relative path on no system; what a server keeps needs no more.

    Whether a file may have that name is for whoever writes one to say: `check_key` is that of our own copies, and
    refuses keys that are in good order elsewhere.
    """
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise PathRefused("a key is not valid Unicode text") from None
    if size > _LONGEST_PATH:
        raise PathRefused(f"a key is longer than {_LONGEST_PATH} bytes")
    if "\\" in key or _CONTROL.search(key):
        raise PathRefused(f"the key {key!r} holds a backslash or a control character")
    if {"", ".", ".."} & set(key.split("/")):
        raise PathRefused(f"the key {key!r} is no plain relative path: one of its parts is empty, `.` or `..`")


def _check_disguise(key: str, decoded: str, *, forbidden: Sequence[str], what: str) -> None:
    if decoded != key and any(part in decoded for part in forbidden):
        raise PathRefused(f"its name might hide a path in {what}, so it needs a plainer one")


def encode(body: Mapping[str, Any]) -> bytes:
    """Encode a body without blanks and escapes, so that its size is what `batches` counted."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def batches(entries: Mapping[str, str], *, limit: int = BODY_BYTES) -> Iterator[dict[str, str]]:
    """Cut entries into bodies of at most `limit` bytes, by key; a bigger entry goes alone."""
    batch: dict[str, str] = {}
    size = _FIXED
    for key in sorted(entries):
        cost = len(encode_text(key)) + len(encode_text(entries[key])) + 2
        if batch and size + cost > limit:
            yield batch
            batch, size = {}, _FIXED
        batch[key] = entries[key]
        size += cost
    if batch:
        yield batch


def name_batches(keys: Iterable[str], *, limit: int = BODY_BYTES) -> Iterator[list[str]]:
    """Cut the keys of deletions into bodies of at most `limit` bytes, in order."""
    batch: list[str] = []
    size = _FIXED_DELETED
    for key in sorted(keys):
        cost = len(encode_text(key)) + 1
        if batch and size + cost > limit:
            yield batch
            batch, size = [], _FIXED_DELETED
        batch.append(key)
        size += cost
    if batch:
        yield batch


def encode_text(text: str) -> bytes:
    """Encode one text as it stands inside a body."""
    return json.dumps(text, ensure_ascii=False).encode()


def entity_tag(checksum: str | None, header: str | None) -> str | None:
    """Return the state's tag without quotes: the body's checksum first, else the `ETag` header."""
    return plain_tag(checksum) or plain_tag((header or "").strip().removeprefix("W/").strip('"'))


def plain_tag(tag: object) -> str | None:
    """Return a tag that can be sent back in a header, at most 256 visible ASCII characters; any other is none."""
    return tag if isinstance(tag, str) and _TAG.fullmatch(tag) else None


def names_tag(header: str, checksum: str) -> bool:
    """Return whether an `If-Match` or `If-None-Match` header names the state; empty is no state."""
    tags = {tag.strip().removeprefix("W/").strip('"') for tag in header.split(",")}
    return bool(checksum) and bool({"*", checksum} & tags)
