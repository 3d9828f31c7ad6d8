"""The calls to a server of team memory: one request each, and what its answer means."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from memory.team.errors import NoToken, SyncFailed
from memory.team.wire import PATH, TOO_MANY_ENTRIES, Content, Hashes, PutAnswer, TeamMemory, encode, entity_tag

Token = Callable[[], Awaitable[str]]
"""Gives the bearer token; asked before each call, so that it may change."""

M = TypeVar("M", bound=BaseModel)


class Answer(StrEnum):
    """What a GET found."""

    CHANGED = "changed"
    UNCHANGED = "unchanged"
    EMPTY = "empty"


@dataclass(frozen=True, kw_only=True, slots=True)
class Fetched:
    """The answer to a GET; content and checksum only where it `CHANGED`."""

    answer: Answer
    checksum: str | None = None
    content: Content | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """The answer to a PUT: the new checksum, and whether the server keeps deletions."""

    checksum: str
    tombstones: bool


class Remote:
    """A server that speaks the contract. Every call raises only `SyncFailed`; without a token, before any request."""

    def __init__(self, base_url: str, *, token: Token, http: httpx.AsyncClient, timeout: float) -> None:
        self._url = f"{base_url.rstrip('/')}{PATH}"
        self.token = token
        self._http = http
        self._timeout = timeout

    async def fetch(self, repo: str, *, known: str | None) -> Fetched:
        """Get everything, unless the state is still the known one."""
        headers = {"if-none-match": f'"{known}"'} if known else {}
        response = await self._send("GET", repo, headers=headers)
        if response.status_code == 304 and known:
            return Fetched(answer=Answer.UNCHANGED)
        if response.status_code == 404:
            return Fetched(answer=Answer.EMPTY)
        memory = _parsed(TeamMemory, _succeeded(response))
        tag = entity_tag(memory.checksum, response.headers.get("etag"))
        return Fetched(answer=Answer.CHANGED, checksum=tag, content=memory.content)

    async def hashes(self, repo: str) -> tuple[str | None, Mapping[str, str]]:
        """Get the checksum and the hash of each key; None and nothing for a repo without data."""
        response = await self._send("GET", repo, view="hashes")
        if response.status_code == 404:
            return None, {}
        hashes = _parsed(Hashes, _succeeded(response))
        return entity_tag(hashes.checksum, response.headers.get("etag")), hashes.by_key()

    async def put(self, repo: str, body: Mapping[str, Any], *, expected: str | None) -> Written:
        """Write, if the state is still the expected one (None: no data yet)."""
        # "If-None-Match: *" is no part of the contract; a server that doesn't know it takes the write as it is.
        condition = {"if-match": f'"{expected}"'} if expected else {"if-none-match": "*"}
        headers = {"content-type": "application/json", **condition}
        response = _succeeded(await self._send("PUT", repo, headers=headers, content=encode(body)))
        answer = _parsed(PutAnswer, response)
        tag = entity_tag(answer.checksum, response.headers.get("etag"))
        if tag is None:
            raise SyncFailed("the server took the write and named no new checksum", malformed=True)
        return Written(checksum=tag, tombstones=answer.deleted is not None)

    async def _send(
        self,
        method: str,
        repo: str,
        *,
        view: str | None = None,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> httpx.Response:
        params = {"repo": repo, **({"view": view} if view else {})}
        token = await self.token()
        if not token:
            raise NoToken
        sent = {"authorization": f"Bearer {token}", "user-agent": "reverie", **(headers or {})}
        try:
            return await self._http.request(
                method, self._url, params=params, headers=sent, content=content, timeout=self._timeout
            )
        except httpx.HTTPError as error:
            raise SyncFailed(f"the team server can't be reached: {type(error).__name__} {error}") from error


def _succeeded(response: httpx.Response) -> httpx.Response:
    if response.status_code == 200:
        return response
    status = response.status_code
    maximum, received = _too_many(response)
    raise SyncFailed(f"the team server answered {status}", status=status, maximum=maximum, received=received)


def _too_many(response: httpx.Response) -> tuple[int | None, int | None]:
    """Read how many entries the server takes and was given from a structured 413; a gateway's HTML page gives none."""
    if response.status_code != 413:
        return None, None
    try:
        details = response.json()["error"]["details"]
        if details["error_code"] != TOO_MANY_ENTRIES:
            return None, None
        maximum, received = details["max_entries"], details.get("received_entries")
    except (ValueError, KeyError, TypeError, AttributeError):
        return None, None
    return _positive(maximum), _positive(received)


def _positive(number: object) -> int | None:
    return number if isinstance(number, int) and number > 0 else None


def _parsed(model: type[M], response: httpx.Response) -> M:
    try:
        return model.model_validate_json(response.content)
    except ValidationError as error:
        faults = ", ".join(".".join(map(str, fault["loc"])) for fault in error.errors()[:3])
        raise SyncFailed(f"the team server's answer is not of the contract's form: {faults}", malformed=True) from error
