"""The Bot API over HTTP: tokens, methods, answers, downloads, and the failures that a test has ordered."""

import asyncio
import contextlib
import copy
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from adapters.serving import hang_up
from adapters.standins.telegram_chats import Messenger
from adapters.standins.telegram_methods import HANDLERS
from adapters.standins.telegram_updates import Updates
from adapters.standins.telegram_wire import BY_LOWER_NAME, Refused, Sent, decode, read, strangers

_TOKEN = re.compile(r"\d+:[\w-]+")
DROPPED = 0
"""The status of a request whose connection was closed without an answer."""
_WORDS = {
    400: "Bad Request: message can't be sent",
    401: "Unauthorized",
    403: "Forbidden: bot was blocked by the user",
    404: "Not Found",
    409: "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
    429: "Too Many Requests: retry after {retry_after}",
    500: "Internal Server Error",
    502: "Bad Gateway",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """A request that was answered."""

    method: str
    params: Mapping[str, Any]
    """What the method knows, decoded; if that failed, what came."""
    at: float
    """When it came, in seconds since 1970."""
    status: int
    """The HTTP status, or `DROPPED`."""
    result: Any = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """Something that the real API would swallow in silence and a bot should not send."""

    method: str
    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """An ordered failure, for the next `times` calls of a method."""

    method: str
    times: int
    status: int
    description: str
    parameters: Mapping[str, int]
    after_acting: bool

    def refusal(self) -> Refused:
        """Return the answer, in the API's words where none were given."""
        parameters = dict(self.parameters)
        if self.status == 429:
            parameters.setdefault("retry_after", 1)
        if "migrate_to_chat_id" in parameters and not self.description:
            return Refused(self.status, "Bad Request: group chat was upgraded to a supergroup chat", **parameters)
        words = self.description or _WORDS.get(self.status, "Internal Server Error")
        return Refused(self.status, words.format(**parameters), **parameters)


class BotApi:
    """Answers requests for one token and records them."""

    def __init__(
        self,
        token: str,
        world: Messenger,
        updates: Updates,
        *,
        clock: Callable[[], float],
        changed: Callable[[], None],
    ) -> None:
        self._token, self._world, self._updates = token, world, updates
        self._clock, self._changed = clock, changed
        self.calls: list[Call] = []
        self.faults: list[Fault] = []
        self.download_fails_with: int | None = None
        self._failures: list[Failure] = []
        self._delays: dict[str, float] = {}

    def fail(
        self,
        method: str,
        *,
        times: int = 1,
        status: int = 429,
        description: str = "",
        parameters: Mapping[str, int] | None = None,
        after_acting: bool = False,
    ) -> None:
        """Order a failure for the next calls of a method, or of any with `*`."""
        failure = Failure(
            method=_known(method),
            times=times,
            status=status,
            description=description,
            parameters=dict(parameters or {}),
            after_acting=after_acting,
        )
        self._failures.append(failure)

    def delay(self, method: str, seconds: float) -> None:
        """Let each call of a method wait before it is carried out."""
        self._delays[_known(method)] = seconds

    def routes(self) -> list[Route]:
        """Return the routes that the API has below its base URL."""
        return [
            Route("/bot{token}/{method}", self._answer, methods=["GET", "POST"]),
            Route("/file/bot{token}/files/{file_id}", self._download),
        ]

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Push to the webhook for as long as the app is served."""
        pushing = asyncio.create_task(self._updates.push_forever())
        try:
            yield
        finally:
            pushing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await pushing

    async def _answer(self, request: Request) -> Response:
        try:
            method = self._method(request)
        except Refused as refused:
            return _refusal(refused)
        at, status, result = self._clock(), 200, None
        params: dict[str, Any] = {}
        try:
            result = await self._carry_out(method, request, params)
            response: Response = JSONResponse({"ok": True, "result": result})
        except Refused as refused:
            status, response = refused.status, _refusal(refused)
        self.calls.append(Call(method=method, params=params, at=at, status=status, result=result))
        self._changed()
        if status == DROPPED:
            await hang_up(request)
        return response

    def _method(self, request: Request) -> str:
        token, asked = request.path_params["token"], request.path_params["method"]
        if not _TOKEN.fullmatch(token):
            raise Refused(404, "Not Found")
        if token != self._token:
            raise Refused(401, "Unauthorized")
        try:
            return BY_LOWER_NAME[asked.lower()]
        except KeyError:
            self.faults.append(Fault(method=asked, detail="no such method"))
            raise Refused(404, "Not Found: method not found") from None

    async def _carry_out(self, method: str, request: Request, params: dict[str, Any]) -> Any:
        """Do what is asked, or what was ordered instead; fills `params` for the record."""
        sent = await read(request)
        params |= sent.parameters
        params |= (given := self._decoded(method, sent))
        failure = self._take_failure(method)
        await asyncio.sleep(self._delays.get(method, 0))
        if failure is not None and not failure.after_acting:
            raise failure.refusal()
        result = await self._act(method, given)
        if failure is not None:
            raise failure.refusal()
        return result

    def _decoded(self, method: str, sent: Sent) -> dict[str, Any]:
        for name in strangers(method, sent):
            self.faults.append(Fault(method=method, detail=f"unknown parameter {name}"))
        return decode(method, sent)

    def _take_failure(self, method: str) -> Failure | None:
        for index, failure in enumerate(self._failures):
            if failure.method in {method, "*"}:
                left = replace(failure, times=failure.times - 1)
                self._failures[index : index + 1] = [left] if left.times > 0 else []
                return failure
        return None

    async def _act(self, method: str, given: dict[str, Any]) -> Any:
        if method == "getUpdates":
            return await self._updates.poll(given)
        if method == "getWebhookInfo":
            return self._updates.webhook_info()
        if method in {"setWebhook", "deleteWebhook"}:
            self._updates.set_webhook(given if method == "setWebhook" else {**given, "url": ""})
            return True

        def odd(detail: str) -> None:
            self.faults.append(Fault(method=method, detail=detail))

        return copy.deepcopy(HANDLERS[method](self._world, given, odd))  # edits must not change the record

    async def _download(self, request: Request) -> Response:
        if (status := self.download_fails_with) is not None:
            self.download_fails_with = None
            if status == DROPPED:
                await hang_up(request)
            return _refusal(Refused(status, _WORDS.get(status, "Internal Server Error")))
        file_id = request.path_params["file_id"]
        upload = self._world.grown.get(file_id) or self._world.files.get(file_id)
        if request.path_params["token"] != self._token or upload is None:
            return _refusal(Refused(404, "Not Found"))
        return Response(upload.content, media_type="application/octet-stream")


def _known(method: str) -> str:
    if method != "*" and method.lower() not in BY_LOWER_NAME:
        raise ValueError(f"the stand-in has no method {method!r}")
    return BY_LOWER_NAME.get(method.lower(), method)


def _refusal(refused: Refused) -> Response:
    body: dict[str, Any] = {"ok": False, "error_code": refused.status, "description": refused.description}
    if refused.parameters:
        body["parameters"] = refused.parameters
    wait = refused.parameters.get("retry_after")
    headers = {"Retry-After": str(wait)} if wait else None
    return JSONResponse(body, status_code=refused.status or 502, headers=headers)
