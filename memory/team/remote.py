"""The calls to a server of team memory: one request each, and what its answer means."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType
from typing import Any, TypeVar

import anyio
import httpx
from pydantic import BaseModel, ValidationError

from memory.team.errors import NoToken, SyncFailed
from memory.team.wire import PATH, TOO_MANY_ENTRIES, Content, Hashes, PutAnswer, TeamMemory, encode, entity_tag

Token = Callable[[], Awaitable[str]]
"""Gives the bearer token; asked before each call, so that it may change."""

M = TypeVar("M", bound=BaseModel)

ANSWER_BYTES = 32 * 1024 * 1024
"""The largest answer that is read, in bytes after decompression: of a thousand notes, 32 KiB for each."""
_FAULTS = 100
_ENCODINGS = frozenset({"", "identity", "gzip", "deflate"})
"""What an answer may be packed in: once, by what swells a thousandfold at most."""
_HIGHEST = 2**53  # of a version: what JSON carries whole everywhere


def _user_agent() -> str:
    try:
        return f"reverie/{version('reverie')}"
    except PackageNotFoundError:  # run from its source tree
        return "reverie"


USER_AGENT = _user_agent()
"""Who asks, in every request."""


class Answer(StrEnum):
    """What a GET found."""

    CHANGED = "changed"
    UNCHANGED = "unchanged"
    EMPTY = "empty"


@dataclass(frozen=True, kw_only=True, slots=True)
class Fetched:
    """The answer to a GET; content, checksum and version only where it `CHANGED`."""

    answer: Answer
    checksum: str | None = None
    content: Content | None = None
    version: int = 0
    """Counts the server's states; 0: it does not say."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """The answer to a GET for hashes: no checksum and nothing for a repo without data."""

    checksum: str | None = None
    hashes: Mapping[str, str] = field(default_factory=dict)
    version: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """The answer to a PUT: the new checksum, and whether the server keeps deletions."""

    checksum: str
    tombstones: bool
    version: int = 0


class Remote:
    """A server that speaks the contract. Every call raises only `SyncFailed`; without a token, before any request.

    A failure is named by its kind: what the libraries say of it may quote the token, and what the server sent may
    quote anything.
    """

    def __init__(
        self,
        base_url: str,
        *,
        token: Token,
        http: httpx.AsyncClient,
        timeout: float,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Take the parts; `headers` go with each request, and may say in place of ours who asks (`user-agent`).

        A request, from the first byte sent to the last one read, may take `timeout` seconds.
        """
        self.address = base_url.rstrip("/")
        self._url = f"{self.address}{PATH}"
        self.token = token
        self._http = http
        self._timeout = timeout
        self._headers = {"user-agent": USER_AGENT, **{name.lower(): value for name, value in headers.items()}}

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
        version = _version(memory.version)
        return Fetched(answer=Answer.CHANGED, checksum=tag, content=memory.content, version=version)

    async def hashes(self, repo: str) -> Listed:
        """Get the checksum and the hash of each key."""
        response = await self._send("GET", repo, view="hashes")
        if response.status_code == 404:
            return Listed()
        hashes = _parsed(Hashes, _succeeded(response))
        tag = entity_tag(hashes.checksum, response.headers.get("etag"))
        return Listed(checksum=tag, hashes=hashes.by_key(), version=_version(hashes.version))

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
        return Written(checksum=tag, tombstones=answer.deleted is not None, version=_version(answer.version))

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
        packed = {"accept-encoding": "gzip, deflate"}
        sent = {**packed, **self._headers, "authorization": f"Bearer {token}", **(headers or {})}
        try:
            with anyio.fail_after(self._timeout):
                return await self._answered(method, params=params, headers=sent, content=content)
        except TimeoutError:
            raise SyncFailed(f"the team server did not answer in full within {self._timeout:g} seconds") from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, ValueError, OSError) as error:
            raise SyncFailed(f"the team server can't be reached: {type(error).__name__}") from None

    async def _answered(self, method: str, **request: Any) -> httpx.Response:
        """Return the answer, read whole; of one that is too large no more is read than that."""
        async with self._http.stream(method, self._url, timeout=self._timeout, **request) as response:
            if response.headers.get("content-encoding", "").strip().lower() not in _ENCODINGS:
                raise SyncFailed("the team server's answer is packed in a way that was not asked for", malformed=True)
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > ANSWER_BYTES:
                    most = ANSWER_BYTES // 1024**2
                    raise SyncFailed(f"the team server's answer is larger than {most} MiB", malformed=True)
        headers = {name: value for name, value in response.headers.items() if name != "content-encoding"}
        return httpx.Response(response.status_code, headers=headers, content=bytes(body))


def _version(said: int | str) -> int:
    number = int(said) if isinstance(said, int) or (said.isascii() and said.isdecimal() and len(said) < 17) else 0
    return number if 0 < number < _HIGHEST else 0


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
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None, None
    return _positive(maximum), _positive(received)


def _positive(number: object) -> int | None:
    return number if isinstance(number, int) and number > 0 else None


def _parsed(model: type[M], response: httpx.Response) -> M:
    try:
        return model.model_validate_json(response.content)
    except ValidationError as error:
        found = error.errors(include_input=False) if error.error_count() <= _FAULTS else []
        faults = ", ".join(dict.fromkeys(_fault(each["loc"]) for each in found)) or "in many places"
        raise SyncFailed(f"the team server's answer is not of the contract's form: {faults}", malformed=True) from None


def _fault(place: tuple[int | str, ...]) -> str:
    """Return where in an answer something is wrong, by names of the contract alone: the others are the server's."""
    return ".".join(str(each) for each in place if each in _FIELDS) or "it is no JSON"


_FIELDS = frozenset(
    each.alias or name
    for model in (TeamMemory, Content, Hashes, PutAnswer)
    for name, each in model.model_fields.items()
)
"""The names that the contract has for what an answer holds."""
