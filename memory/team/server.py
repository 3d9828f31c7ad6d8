"""The HTTP side of team memory: routes over `TeamStore`, who may use them, the contract's statuses."""

import hmac
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import structlog
from anyio import to_thread
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from memory.errors import PathRefused
from memory.ports import UNMETERED, Meter
from memory.secret_scan import secrets_in
from memory.team.audit import Entry
from memory.team.errors import (
    Forbidden,
    PreconditionFailed,
    TeamRefusal,
    TooLarge,
    TooManyEntries,
    Unauthenticated,
)
from memory.team.store import Limits, RepoContent, RepoState, TeamStore
from memory.team.wire import (
    PATH,
    TOO_MANY_ENTRIES,
    Content,
    Hashes,
    Put,
    PutAnswer,
    TeamMemory,
    check_path,
    names_tag,
)

_log = structlog.get_logger(__name__)

_ESCAPED = 6
"""How many bytes of JSON one byte of text may take (a control character as a \\u escape)."""

OUTCOMES = {
    200: "ok",
    304: "unchanged",
    400: "malformed",
    401: "stranger",
    403: "forbidden",
    404: "empty",
    412: "conflict",
    413: "too_large",
    500: "error",
}
"""What came of a request, by the status of its answer, as the meter is told."""


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
            raise Forbidden("the token does not open this repo", who=found.author)
        return found.author


def routes(store: TeamStore, authorise: Authorise, limits: Limits, *, meter: Meter = UNMETERED) -> list[Route]:
    """Return the routes of the contract, to be mounted at the server's root."""
    endpoint = _Endpoint(store, authorise, limits, meter)
    return [Route(PATH, endpoint.answer, methods=["GET", "PUT"])]


class _BadRequest(TeamRefusal):
    """The request is not of the contract's form (400)."""


class _Endpoint:
    def __init__(self, store: TeamStore, authorise: Authorise, limits: Limits, meter: Meter) -> None:
        self._store = store
        self._authorise = authorise
        self._limits = limits
        self._meter = meter

    async def answer(self, request: Request) -> Response:
        """Answer as the contract says. Who was turned away is put on record, and every answer is counted."""
        peer = request.client.host if request.client else ""
        asked = Entry(who="", peer=peer, repo=request.query_params.get("repo", ""), method=request.method, status=500)
        try:
            asked = replace(asked, who=await self._admit(request, asked.repo))
            response = await (self._put(request, asked) if request.method == "PUT" else self._get(request, asked.repo))
            asked = replace(asked, status=response.status_code)
        except TeamRefusal as refused:
            response = _refusal(refused)
            who = refused.who if isinstance(refused, Forbidden) else asked.who
            asked = replace(asked, who=who, status=response.status_code)
            _log.info("team_memory_refused", reason=type(refused).__name__, **_facts(asked))
            await self._store.audit.refused(asked)
        finally:
            self._meter.count("team_requests", method=asked.method, outcome=OUTCOMES.get(asked.status, "other"))
        return response

    async def _get(self, request: Request, repo: str) -> Response:
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
        return _json(_whole(repo, content), content.state)

    async def _put(self, request: Request, asked: Entry) -> Response:
        body = await self._body(request)
        entries, deleted = body.entries, body.deleted
        _check_keys([*entries, *deleted])
        state = await self._store.put(
            asked.repo,
            entries,
            deleted=deleted,
            author=asked.who,
            peer=asked.peer,
            if_match=request.headers.get("if-match"),
            if_none_match=request.headers.get("if-none-match"),
        )
        _log.info("team_memory_written", entries=len(entries), deleted=len(deleted), **_facts(asked))
        for rule in await to_thread.run_sync(_secrets, entries):
            self._meter.count("team_secrets_received", rule=rule)
        modified = state.changed_at.isoformat()
        answer = PutAnswer(checksum=state.checksum, version=state.version, last_modified=modified, deleted=deleted)
        return _json(answer.model_dump(by_alias=True), state)

    async def _admit(self, request: Request, repo: str) -> str:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Unauthenticated("a bearer token is needed")
        if not repo or "\0" in repo:
            raise _BadRequest("the query must name a repo: ?repo=owner/repo")
        return await self._authorise(token.strip(), repo)

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


def _check_keys(keys: Collection[str]) -> None:
    try:
        for key in keys:
            check_path(key)
    except PathRefused as error:
        raise _BadRequest(str(error)) from error


def _secrets(entries: Mapping[str, str]) -> list[str]:
    """Return the rule of each secret in keys and texts; blocking. They are kept all the same: our copies take none."""
    return [finding.rule for key, text in entries.items() for finding in secrets_in(key, text)]


def _facts(asked: Entry) -> dict[str, str]:
    return {"method": asked.method, "repo": asked.repo[:200], "author": asked.who, "peer": asked.peer}


def _whole(repo: str, whole: RepoContent) -> dict[str, Any]:
    state = whole.state
    content = Content(
        entries=dict(whole.texts),
        entry_checksums=dict(state.live),
        entry_versions=dict(whole.versions),
        deleted_checksums=dict(state.deleted),
    )
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
