"""The control API of the Slack stand-in, by which another process plays the people; see `slack.py`."""

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

if TYPE_CHECKING:
    from adapters.standins.slack import SlackStandin

Action = Callable[["SlackStandin", dict[str, Any]], Awaitable[Any]]


def control_routes(standin: "SlackStandin") -> list[BaseRoute]:
    """Return the routes under `/control/`, each of which calls the method of the same name."""
    return [
        Route(f"/control/{name}", _endpoint(standin, action), methods=["GET", "POST"])
        for name, action in {
            "person": _person,
            "channel": _channel,
            "dm": _dm,
            "say": _say,
            "edit": _edit,
            "command": _command,
            "messages": _messages,
            "calls": _calls,
            "fail": _fail,
            "delay": _delay,
            "drop": _drop,
            "events": _events,
            "state": _state,
        }.items()
    ]


def _endpoint(standin: "SlackStandin", action: Action) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        body = dict(request.query_params) if request.method == "GET" else await request.json()
        try:
            return JSONResponse(await action(standin, body))
        except (LookupError, TypeError, ValueError) as wrong:
            return JSONResponse({"error": f"{type(wrong).__name__}: {wrong}"}, status_code=400)

    return endpoint


async def _person(standin: "SlackStandin", body: dict[str, Any]) -> Any:
    return {"id": standin.person(**body).id}


async def _channel(standin: "SlackStandin", body: dict[str, Any]) -> Any:
    return {"id": standin.channel(**body).id}


async def _dm(standin: "SlackStandin", body: dict[str, Any]) -> Any:
    return {"id": standin.dm(body["person"]).id}


async def _say(standin: "SlackStandin", body: dict[str, Any]) -> Any:
    ts = standin.say(body["channel"], body["person"], body["text"], thread_ts=body.get("thread_ts"))
    return {"ts": ts}


async def _edit(standin: "SlackStandin", body: dict[str, Any]) -> Any:
    standin.edit(body["channel"], body["ts"], body["text"])
    return {}


async def _command(standin: "SlackStandin", body: dict[str, Any]) -> Any:
    standin.command(body["channel"], body["person"], body["command"], body.get("text", ""))
    return {}


async def _messages(standin: "SlackStandin", body: dict[str, Any]) -> Any:
    return [asdict(shown) for shown in standin.messages(body["channel"], body.get("thread_ts"))]


async def _calls(standin: "SlackStandin", body: dict[str, Any]) -> Any:
    wanted = body.get("method")
    return [
        {"method": call.method, "arguments": call.arguments, "answer": call.answer}
        for call in standin.calls
        if wanted in {None, call.method}
    ]


async def _fail(standin: "SlackStandin", body: dict[str, Any]) -> Any:
    standin.fail(body.pop("method"), **body)
    return {}


async def _delay(standin: "SlackStandin", body: dict[str, Any]) -> Any:
    standin.delay(body["method"], float(body["seconds"]))
    return {}


async def _drop(standin: "SlackStandin", _: dict[str, Any]) -> Any:
    await standin.drop_sockets()
    return {}


async def _events(standin: "SlackStandin", body: dict[str, Any]) -> Any:
    return {"proven": await standin.use_events_url(body["url"])}


async def _state(standin: "SlackStandin", _: dict[str, Any]) -> Any:
    deliveries = standin.deliveries
    return {
        "sockets": deliveries.sockets,
        "connected_in_all": deliveries.connected_in_all,
        "pending": len(deliveries.pending),
        "acknowledged": len(deliveries.acknowledged),
        "lost": len(deliveries.lost),
        "faults": standin.faults,
        "ephemeral": standin.ephemeral,
    }
