"""The HTTP side of team memory: routes over `TeamStore`, who may use them, the contract's statuses."""

import hmac
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import structlog
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from memory.errors import PathRefused
from memory.team.errors import (
    Forbidden,
    PreconditionFailed,
    TeamRefusal,
    TooLarge,
    TooManyEntries,
    Unauthenticated,
)
from memory.team.store import Limits, RepoState, TeamStore
from memory.team.wire import (
    PATH,
    TOO_MANY_ENTRIES,
    Content,
    Hashes,
    Put,
    PutAnswer,
    TeamMemory,
    check_key,
    names_tag,
)

_log = structlog.get_logger(__name__)

_ESCAPED = 6
"""How many bytes of JSON one byte of text may take (a control character as a \\u escape)."""


class Authorise(Protocol):
    """Decides who a bearer token is and whether they may use a repo."""

    async def __call__(self, token: str, repo: str) -> str:
        """Return the author's name for the record; raises `Unauthenticated` or `Forbidden`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Grant:
    """What a token is good for: whose it is, and the repos that it opens."""

    author: str
    repos: frozenset[str]


class TokenTable:
    """Tokens that were given out in advance, each to a gateway or a member."""

    def __init__(self, grants: Mapping[str, Grant]) -> None:
        self._grants = {token.encode(): grant for token, grant in grants.items()}

    async def __call__(self, token: str, repo: str) -> str:
        """Return the author of the token; every token is compared in constant time, found or not."""
        found: Grant | None = None
        for known, grant in self._grants.items():
            if hmac.compare_digest(known, token.encode()):
                found = grant
        if found is None:
            raise Unauthenticated("the token is not known here")
        if repo not in found.repos:
            raise Forbidden("the token does not open this repo")
        return found.author


def routes(store: TeamStore, authorise: Authorise, limits: Limits) -> list[Route]:
    """Return the routes of the contract, to be mounted at the server's root."""
    endpoint = _Endpoint(store, authorise, limits)
    return [
        Route(PATH, _answering(endpoint.get), methods=["GET"]),
        Route(PATH, _answering(endpoint.put), methods=["PUT"]),
    ]


class _BadRequest(TeamRefusal):
    """The request is not of the contract's form (400)."""


class _Endpoint:
    def __init__(self, store: TeamStore, authorise: Authorise, limits: Limits) -> None:
        self._store = store
        self._authorise = authorise
        self._limits = limits

    async def get(self, request: Request) -> Response:
        repo, _ = await self._admit(request)
        if request.query_params.get("view") == "hashes":
            state = await self._store.state(repo)
            return _nothing() if state is None else _json(_hashes(state), state)
        known = request.headers.get("if-none-match")
        if known is not None:
            state = await self._store.state(repo)
            if state is not None and names_tag(known, state.checksum):
                return Response(status_code=304, headers=_tag(state))
        content = await self._store.content(repo)
        if content is None:
            return _nothing()
        return _json(_whole(repo, content.state, content.texts), content.state)

    async def put(self, request: Request) -> Response:
        repo, author = await self._admit(request)
        body = await self._body(request)
        entries = {_key(key): text for key, text in body.entries.items()}
        deleted = [_key(key) for key in body.deleted]
        state = await self._store.put(
            repo,
            entries,
            deleted=deleted,
            author=author,
            if_match=request.headers.get("if-match"),
            if_none_match=request.headers.get("if-none-match"),
        )
        _log.info("team_memory_written", repo=repo, author=author, entries=len(entries), deleted=len(deleted))
        modified = state.changed_at.isoformat()
        answer = PutAnswer(checksum=state.checksum, version=state.version, last_modified=modified, deleted=deleted)
        return _json(answer.model_dump(by_alias=True), state)

    async def _admit(self, request: Request) -> tuple[str, str]:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Unauthenticated("a bearer token is needed")
        repo = request.query_params.get("repo", "")
        if not repo or "\0" in repo:
            raise _BadRequest("the query must name a repo: ?repo=owner/repo")
        return repo, await self._authorise(token.strip(), repo)

    async def _body(self, request: Request) -> Put:
        raw = bytearray()
        largest = max(self._limits.body_bytes, self._limits.entry_bytes * _ESCAPED)
        async for chunk in request.stream():
            raw += chunk
            if len(raw) > largest:
                raise TooLarge(f"a body may have {self._limits.body_bytes} bytes")
        try:
            body = Put.model_validate_json(bytes(raw))
        except ValidationError as error:
            raise _BadRequest(
                f"the body is not of the form {{entries: {{key: text}}}}: {error.error_count()} faults"
            ) from error
        # By contract an entry larger than a body goes alone: only a body of several is held to the limit.
        if len(raw) > self._limits.body_bytes and len(body.entries) + len(body.deleted) > 1:
            raise TooLarge(f"a body of several entries may have {self._limits.body_bytes} bytes")
        return body


def _key(key: str) -> str:
    try:
        plain = check_key(key)
    except PathRefused as error:
        raise _BadRequest(str(error)) from error
    if plain != key:
        raise _BadRequest(f"the key {key!r} must be written {plain!r}")
    return key


def _whole(repo: str, state: RepoState, texts: Mapping[str, str]) -> dict[str, Any]:
    content = Content(entries=dict(texts), entry_checksums=dict(state.live), deleted_checksums=dict(state.deleted))
    memory = TeamMemory(
        organization_id="",
        repo=repo,
        version=state.version,
        last_modified=state.changed_at.isoformat(),
        checksum=state.checksum,
        content=content,
    )
    return memory.model_dump(by_alias=True)


def _hashes(state: RepoState) -> dict[str, Any]:
    hashes = Hashes(checksum=state.checksum, version=state.version, entry_checksums=dict(state.live))
    return hashes.model_dump(by_alias=True, exclude_none=True)


def _tag(state: RepoState) -> dict[str, str]:
    return {"etag": f'"{state.checksum}"'}


def _json(body: Mapping[str, Any], state: RepoState) -> Response:
    return JSONResponse(body, headers=_tag(state))


def _nothing() -> Response:
    return _error(404, "not_found", "no team memory for this repo yet")


def _error(status: int, kind: str, message: str, details: Mapping[str, Any] | None = None) -> Response:
    error = {"type": kind, "message": message, **({"details": dict(details)} if details else {})}
    headers = {"www-authenticate": "Bearer"} if status == 401 else None
    return JSONResponse({"error": error}, status_code=status, headers=headers)


def _refusal(refused: TeamRefusal) -> Response:
    match refused:
        case Unauthenticated():
            return _error(401, "authentication_error", str(refused))
        case Forbidden():
            return _error(403, "permission_error", str(refused))
        case PreconditionFailed():
            return _error(412, "precondition_failed", str(refused), {"checksum": refused.checksum})
        case TooManyEntries(maximum=maximum, received=received):
            details = {"error_code": TOO_MANY_ENTRIES, "max_entries": maximum, "received_entries": received}
            return _error(413, "request_too_large", str(refused), details)
        case TooLarge():
            return _error(413, "request_too_large", str(refused), {"error_code": "team_memory_too_large"})
    return _error(400, "invalid_request_error", str(refused))


def _answering(handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except TeamRefusal as refused:
            _log.info("team_memory_refused", method=request.method, reason=type(refused).__name__)
            return _refusal(refused)

    return answer
