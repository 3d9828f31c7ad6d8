"""The HTTP and WebSocket surface of the Slack stand-in: Web API, sockets, files, response URLs."""

import contextlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import anyio
import h11
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from adapters.standins.slack_arguments import Arguments, read_arguments
from adapters.standins.slack_blocks import RefusalError
from adapters.standins.slack_delivery import Deliveries
from adapters.standins.slack_methods import METHODS, Method
from adapters.standins.slack_rates import Rates
from adapters.standins.slack_values import Message
from adapters.standins.slack_workspace import Workspace


@dataclass(kw_only=True, slots=True, eq=False)
class Call:
    """One call that arrived; `answer` is what Slack made of it, None while open or if it failed before."""

    method: str
    arguments: Mapping[str, Any]
    answer: Mapping[str, Any] | None = None

    @property
    def ok(self) -> bool:
        """Whether the call was carried out, even if its answer was lost."""
        return bool(self.answer and self.answer["ok"])


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """A failure to come; `status` 200 is an ordinary refusal, 0 no answer at all (`SlackStandin.fail`)."""

    error: str
    status: int
    retry_after: float | None
    after_acting: bool
    times: int = 1

    def response(self) -> Response:
        """Return the answer that the caller gets, or the lack of one."""
        if self.status == 0 or (self.after_acting and self.status < 500):
            return _NoAnswer()
        if self.status >= 500:
            return PlainTextResponse("upstream failure", status_code=self.status)
        headers = {} if self.retry_after is None else {"Retry-After": f"{self.retry_after:g}"}
        return JSONResponse({"ok": False, "error": self.error}, status_code=self.status, headers=headers)


class _NoAnswer(Response):
    """A connection that closes without an answer: the caller can't know whether the call was carried out.

    ASGI has no word for that. But uvicorn closes what an app began and did not end, and a head that h11
    refuses begins the response without a byte on the wire.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.suppress(h11.LocalProtocolError):
            await send({"type": "http.response.start", "status": 200, "headers": [(b"not a name", b"")]})


class WebApi:
    """Answers what the app asks; `calls` records every call, `faults` what Slack passes over in silence.

    `withheld` are the scopes that the bot's token lacks; `downloads` are the files that were asked for, each with
    whether the bot's token came along.
    """

    def __init__(
        self,
        workspace: Workspace,
        deliveries: Deliveries,
        *,
        bot_token: str,
        app_token: str,
        changed: Callable[[], None],
    ) -> None:
        self.calls: list[Call] = []
        self.faults: list[str] = []
        self.failures: dict[str, list[Failure]] = {}
        self.delays: dict[str, float] = {}
        self.withheld: set[str] = set()
        self.downloads: list[tuple[str, bool]] = []
        self.rates = Rates(workspace.now)
        self._workspace, self._deliveries, self._changed = workspace, deliveries, changed
        self._bot_token, self._app_token = bot_token, app_token

    def routes(self) -> list[BaseRoute]:
        """Return the routes of Slack's own addresses."""
        return [
            Route("/api/{method}", self._api, methods=["GET", "POST"]),
            Route("/upload/v1/{file}", self._upload, methods=["POST"]),
            Route("/files-pri/{file}/{name}", self._download),
            Route("/respond/{channel}/{user}", self._respond, methods=["POST"]),
            WebSocketRoute("/link/", self._socket),
        ]

    async def _api(self, request: Request) -> Response:
        name = request.path_params["method"]
        self._workspace.base = str(request.base_url).rstrip("/")
        try:
            arguments = await read_arguments(request)
        except RefusalError as refused:
            return self._refusal(refused)
        call = Call(method=name, arguments=_without_token(arguments))
        self.calls.append(call)
        self._changed()
        await anyio.sleep(self.delays.get(name, 0.0))
        failure = self._failure(name)
        if failure is not None and not failure.after_acting:
            return failure.response()
        wait = self._rate(call)
        response = _limited(wait) if wait else self._act(request, call, arguments)
        self._changed()
        return response if failure is None else failure.response()

    def _rate(self, call: Call) -> float:
        given = call.arguments
        return self.rates.wait(call.method, str(given.get("channel") or given.get("channel_id") or ""))

    def _act(self, request: Request, call: Call, arguments: Arguments) -> Response:
        try:
            method = self._allowed(request, call, arguments)
            for unknown in sorted(call.arguments.keys() - method.parameters):
                self.faults.append(f"{call.method}: unknown parameter {unknown}")
            call.answer = {"ok": True, **method.run(self._workspace, arguments)}
        except RefusalError as refused:
            call.answer = {"ok": False, "error": refused.error, **refused.facts}
            return self._refusal(refused)
        return JSONResponse(call.answer)

    def _refusal(self, refused: RefusalError) -> Response:
        return JSONResponse({"ok": False, "error": refused.error, **refused.facts})

    def _allowed(self, request: Request, call: Call, arguments: Arguments) -> Method:
        method = METHODS.get(call.method)
        token = _bearer(request) or arguments.text("token")
        if not token:
            raise RefusalError("not_authed")
        if token not in {self._bot_token, self._app_token}:
            raise RefusalError("invalid_auth")
        if method is None:
            raise RefusalError("unknown_method", req_method=call.method)
        if token != (self._app_token if method.app_token else self._bot_token):
            raise RefusalError("not_allowed_token_type")
        if method.scope in self.withheld:
            raise RefusalError("missing_scope", needed=method.scope, provided="")
        return method

    def _failure(self, method: str) -> Failure | None:
        planned = self.failures.get(method)
        if not planned:
            return None
        first = planned.pop(0)
        if first.times > 1:
            planned.insert(0, replace(first, times=first.times - 1))
        return first

    async def _socket(self, socket: WebSocket) -> None:
        ticket = socket.query_params.get("ticket", "")
        if ticket not in self._workspace.tickets:
            await socket.close()
            return
        self._workspace.tickets.discard(ticket)
        await socket.accept()
        await self._deliveries.serve_socket(socket, app_id=self._workspace.app_id)

    async def _upload(self, request: Request) -> Response:
        file = self._workspace.files.get(request.path_params["file"])
        content = await request.body()
        if file is None or file.content is not None or len(content) != file.length:
            return PlainTextResponse("Bad upload", status_code=400)
        file.content = content
        return PlainTextResponse(f"OK - {len(content)}")

    async def _download(self, request: Request) -> Response:
        file = self._workspace.files.get(request.path_params["file"].rpartition("-")[2])
        known = _bearer(request) == self._bot_token
        self.downloads.append((request.path_params["name"], known))
        await anyio.sleep(self.delays.get("download", 0.0))
        if not known or "files:read" in self.withheld or (file is not None and file.page):
            return HTMLResponse("<!DOCTYPE html><title>Sign in</title>")  # as Slack: status 200, a page, no file
        if file is None or file.content is None:
            return PlainTextResponse("Not found", status_code=404)
        return Response(file.content, media_type=file.mimetype)

    async def _respond(self, request: Request) -> Response:
        channel, user = request.path_params["channel"], request.path_params["user"]
        answer = json.loads(await request.body())
        if not self._replaced(answer, request.query_params.get("ts", "")):
            self.show_response(channel, user, answer)
        return PlainTextResponse("ok")

    def _replaced(self, answer: Mapping[str, Any], ts: str) -> bool:
        """Put an answer in the place of the ephemeral message whose button was pressed, if it wants to be there."""
        for word in self._workspace.ephemeral if answer.get("replace_original") else ():
            if word["ts"] == ts:
                word |= {"text": str(answer.get("text") or ""), "blocks": answer.get("blocks")}
                self._changed()
                return True
        return False

    def show_response(self, channel: str, user: str, answer: Mapping[str, Any]) -> None:
        """Show what an app answered to a command or a button, to all if it says so, else to one person."""
        workspace, text = self._workspace, str(answer.get("text") or "")
        ts = workspace.next_ts()
        if answer.get("response_type") == "in_channel":
            blocks = answer.get("blocks")
            bot = workspace.bot.id
            workspace.post(
                workspace.channels[channel],
                Message(ts=ts, user=bot, bot_id=workspace.bot_id, text=text, blocks=blocks),
            )
        else:
            workspace.ephemeral.append(
                {
                    "channel": channel,
                    "user": user,
                    "text": text,
                    "blocks": answer.get("blocks"),
                    "ts": ts,
                    "thread_ts": "",
                }
            )
        self._changed()


def _limited(wait: float) -> Response:
    answer = {"ok": False, "error": "ratelimited"}
    return JSONResponse(answer, status_code=429, headers={"Retry-After": str(math.ceil(wait))})


def _bearer(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token if scheme.lower() == "bearer" else ""


def _without_token(arguments: Arguments) -> dict[str, Any]:
    return {name: value for name, value in arguments.values.items() if name != "token"}
