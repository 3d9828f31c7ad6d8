"""The model stand-in: a local server that speaks the Messages API, with rules instead of a model.

`POST /v1/messages` (whole or streamed), `POST /v1/messages/count_tokens`, `GET /v1/models[/ID]`. Requests are
checked as strictly as the API checks them, the prompt cache is accounted by comparing prefixes, and every
request is recorded.

Another process drives it over `/control`, which asks for no key, so bind it to loopback only:

    GET    /control/requests   {"requests": [{path, body, status, outcome, usage, at}, ...]}, oldest first
    DELETE /control/requests   forget them
    POST   /control/script     {"answers": [ANSWER, ...], "when": {"contains": TEXT, "structured": BOOL}?}
    POST   /control/fail       {"status": 529, "times": 2, "retry_after": 1.5?, "message": TEXT?}

ANSWER is one of {"text": …, "tools": [{"name": …, "input": {…}}], "thinking": …, "stop_reason": …, "delay":
seconds, "chunk_delay": seconds, "flaw": "drop" | "corrupt" | "early_end" | "error", "flaw_after": deltas},
each field optional, or {"json": VALUE}, or {"status": 429, "retry_after": 2, "message": …}. `when.contains`
looks into the text of the last user message; `when.structured` says whether the request has
`output_config.format`.
"""

import inspect
import itertools
import json
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

import anyio
from anthropic.types import ModelParam
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gateway.llm.standin.answers import (
    Answer,
    Failure,
    Reply,
    blocks_for,
    error_body,
    limited,
    output_tokens,
    structured,
)
from gateway.llm.standin.cache import DEFAULT_MINIMUM, PromptCache, count_tokens
from gateway.llm.standin.control import control_routes
from gateway.llm.standin.rules import answer_by_rules
from gateway.llm.standin.stream import AnswerResponse
from gateway.llm.standin.validation import InvalidRequest, check_count, check_create

Json = dict[str, Any]
Given = Answer | Failure | str | Mapping[str, Any]
"""A finished answer: a string is its text, a mapping its structured output."""
Scripted = Given | Callable[[Json], Given | Awaitable[Given]]
When = Callable[[Json], bool]
Rules = Callable[[Json], Answer]

MAX_BODY = 32 * 1024 * 1024
"""Bytes of a request that the API takes."""
KNOWN_MODELS: tuple[str, ...] = get_args(get_args(ModelParam)[0])


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """One request and how it ended.

    `number` counts from 0 and is never used again. `outcome` is `open` while it is being answered, then
    `answered`, `refused` (an error status), `flawed` (broken on purpose) or `disconnected` (the client left
    first). `at` is in seconds of the stand-in's clock; `usage` is empty unless the status is 200. `headers`
    hold the key: don't print them.
    """

    number: int
    path: str
    raw: bytes
    body: Json
    headers: Mapping[str, str]
    at: float
    status: int = 0
    outcome: str = "open"
    usage: Mapping[str, Any] | None = None


class ModelStandin:
    """A Messages API server; `app` is its ASGI application, to be served on a port of its own.

    `api_key` None takes any key. `min_cache_tokens` is the shortest cacheable prefix, for all models or by
    id. `chunk_delay` in seconds passes before each delta. `models` are the ids that exist; None takes any id.
    """

    def __init__(
        self,
        *,
        api_key: str | None = None,
        min_cache_tokens: int | Mapping[str, int] = DEFAULT_MINIMUM,
        chunk_delay: float = 0.0,
        rules: Rules = answer_by_rules,
        models: tuple[str, ...] | None = KNOWN_MODELS,
        max_body: int = MAX_BODY,
        now: Callable[[], float] = time.time,
        new_id: Callable[[], str] = lambda: secrets.token_hex(11),
    ) -> None:
        self.requests: list[Recorded] = []
        self._api_key = api_key
        self._chunk_delay = chunk_delay
        self._rules = rules
        self._models = models
        self._max_body = max_body
        self._now = now
        self._new_id = new_id
        self._numbers = itertools.count()
        self._cache = PromptCache(minimum=min_cache_tokens)
        self._scripts: list[tuple[Scripted, When | None]] = []
        self._failures: list[Failure] = []
        self.app = Starlette(
            routes=[
                Route("/v1/messages", self._messages, methods=["POST"]),
                Route("/v1/messages/count_tokens", self._count, methods=["POST"]),
                Route("/v1/models", self._list_models, methods=["GET"]),
                Route("/v1/models/{model}", self._get_model, methods=["GET"]),
                *control_routes(self),
            ],
            exception_handlers={HTTPException: self._http_error},
        )

    def script(self, answer: Scripted, *, when: When | None = None) -> None:
        """Queue one answer for the next request that `when` accepts; answers leave the queue in order.

        A callable gets the request's body and returns the answer, now or awaited.
        """
        self._scripts.append((answer, when))

    def fail(self, status: int, times: int = 1, retry_after: float | None = None, *, message: str = "") -> None:
        """Refuse the next `times` well-formed requests with `status`, before any script is looked at."""
        self._failures.extend([Failure(status=status, retry_after=retry_after, message=message)] * times)

    def forget(self) -> None:
        """Drop the record of requests."""
        self.requests.clear()

    @property
    def waiting(self) -> int:
        """Scripted answers and failures that no request has taken yet."""
        return len(self._scripts) + len(self._failures)

    async def _messages(self, request: Request) -> Response:
        asked = await self._admit(request, check_create)
        if isinstance(asked, Response):
            return asked
        body, number = asked.body, asked.number
        given = await self._choose(body)
        if given.delay:
            await anyio.sleep(given.delay)
        if isinstance(given, Failure):
            return self._refuse(number, given)
        reply, answer = self._reply(body, given, key=_key(request))
        self._note(number, status=200, usage=reply.usage_json())
        return AnswerResponse(
            reply,
            answer,
            streamed=bool(body.get("stream")),
            headers={"request-id": f"req_{self._new_id()}"},
            chunk_delay=self._chunk_delay if answer.chunk_delay is None else answer.chunk_delay,
            done=lambda outcome: self._note(number, outcome=outcome),
        )

    async def _count(self, request: Request) -> Response:
        asked = await self._admit(request, check_count)
        if isinstance(asked, Response):
            return asked
        if self._failures:
            return self._refuse(asked.number, self._failures.pop(0))
        self._note(asked.number, status=200, outcome="answered")
        return JSONResponse({"input_tokens": count_tokens(asked.body)})

    async def _admit(self, request: Request, check: Callable[[Any], Json]) -> Recorded | Response:
        """Read, record and check a request; return its record or the refusal."""
        raw = await self._read(request)
        body = _parsed(raw)
        asked = Recorded(
            number=next(self._numbers),
            path=request.url.path,
            raw=raw,
            body=body if isinstance(body, dict) else {},
            headers=dict(request.headers),
            at=self._now(),
        )
        self.requests.append(asked)
        refusal = self._forbidden(request, raw)
        if refusal is None and not isinstance(body, dict):
            refusal = Failure(status=400, message="The request body is not valid JSON: an object is expected")
        if refusal is None:
            try:
                refusal = self._unknown_model(check(body)["model"])
            except InvalidRequest as broken:
                refusal = Failure(status=400, message=str(broken))
        return asked if refusal is None else self._refuse(asked.number, refusal)

    async def _read(self, request: Request) -> bytes:
        """Read the body, but no more than what shows that it is too long."""
        raw = bytearray()
        async for chunk in request.stream():
            if len(raw) <= self._max_body:
                raw.extend(chunk)
        return bytes(raw)

    def _forbidden(self, request: Request, raw: bytes) -> Failure | None:
        if not _key(request):
            return Failure(status=401, message="x-api-key header is required")
        if self._api_key is not None and not secrets.compare_digest(_key(request), self._api_key):
            return Failure(status=401)
        if "anthropic-version" not in request.headers:
            return Failure(status=400, message="anthropic-version: header is required")
        return Failure(status=413) if len(raw) > self._max_body else None

    def _unknown_model(self, model: str) -> Failure | None:
        if self._models is None or model in self._models:
            return None
        return Failure(status=404, message=f"model: {model}")

    async def _choose(self, body: Json) -> Answer | Failure:
        if self._failures:
            return self._failures.pop(0)
        for index, (scripted, when) in enumerate(self._scripts):
            if when is None or when(body):
                del self._scripts[index]
                given = scripted(body) if callable(scripted) else scripted
                return _as_answer(await given if inspect.isawaitable(given) else given)
        return self._rules(body)

    def _reply(self, body: Json, given: Answer, *, key: str) -> tuple[Reply, Answer]:
        answer, stop = limited(given, body)
        ident = self._new_id()
        reply = Reply(
            id=f"msg_{ident}",
            model=body["model"],
            blocks=blocks_for(answer, new_id=ident),
            stop_reason=answer.stop_reason or ("tool_use" if answer.tools else "end_turn"),
            stop_sequence=stop,
            usage=self._cache.account(body, key=key, now=self._now()),
            output_tokens=output_tokens(answer),
        )
        return reply, answer

    def _refuse(self, number: int, failure: Failure) -> Response:
        self._note(number, status=failure.status, outcome="refused")
        return self._error(failure.status, failure.message, retry_after=failure.retry_after)

    def _error(self, status: int, message: str, *, retry_after: float | None = None) -> Response:
        ident = f"req_{self._new_id()}"
        headers = {"request-id": ident}
        if retry_after is not None:
            headers["retry-after"] = f"{retry_after:g}"
        return JSONResponse(error_body(status, message, request_id=ident), status_code=status, headers=headers)

    def _note(self, number: int, **facts: Any) -> None:
        for index in range(len(self.requests) - 1, -1, -1):  # it may have been forgotten meanwhile
            if self.requests[index].number == number:
                self.requests[index] = replace(self.requests[index], **facts)
                return

    async def _list_models(self, request: Request) -> Response:
        refusal = self._forbidden(request, b"")
        if refusal:
            return self._error(refusal.status, refusal.message)
        data = [_model_info(model) for model in self._models or KNOWN_MODELS]
        return JSONResponse({"data": data, "has_more": False, "first_id": data[0]["id"], "last_id": data[-1]["id"]})

    async def _get_model(self, request: Request) -> Response:
        model = request.path_params["model"]
        refusal = self._forbidden(request, b"") or self._unknown_model(model)
        if refusal:
            return self._error(refusal.status, refusal.message)
        return JSONResponse(_model_info(model))

    async def _http_error(self, _: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return self._error(error.status_code, "" if error.status_code in (404, 405) else error.detail)


def _as_answer(given: Given) -> Answer | Failure:
    if isinstance(given, Answer | Failure):
        return given
    return Answer(text=given) if isinstance(given, str) else structured(dict(given))


def _key(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return request.headers.get("x-api-key", "") or (token if scheme.lower() == "bearer" else "")


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return None


def _model_info(model: str) -> Json:
    return {
        "type": "model",
        "id": model,
        "display_name": f"{model} (stand-in)",
        "created_at": "1970-01-01T00:00:00Z",
        "lifecycle": "active",
        "max_input_tokens": 200_000,
        "max_tokens": 64_000,
    }
