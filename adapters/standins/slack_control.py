"""The control API of the Slack stand-in, by which another process plays the people; see `slack.py`."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.routing import BaseRoute, Route

from adapters.standins.orders import endpoint

if TYPE_CHECKING:
    from adapters.standins.slack import SlackStandin

Action = Callable[["SlackStandin", dict[str, Any]], Awaitable[Any]]
_SAYS = {"channel": "C1", "person": "U1"}


def control_routes(standin: "SlackStandin") -> list[BaseRoute]:
    """Return the routes under `/control/`, each of which calls the method of the same name."""
    orders: dict[str, tuple[Action, Mapping[str, Any]]] = {
        "person": (_person, {"id": "U1", "name": "ann"}),
        "channel": (_channel, {"id": "C1", "name": "garden", "members": ["U1"]}),
        "dm": (_dm, {"person": "U1"}),
        "say": (_say, {**_SAYS, "text": "Hello"}),
        "edit": (_edit, {"channel": "C1", "ts": "1700000000.000100", "text": "Hello again"}),
        "command": (_command, {**_SAYS, "command": "/reverie"}),
        "messages": (_messages, {"channel": "C1"}),
        "calls": (_calls, {}),
        "fail": (_fail, {"method": "chat.postMessage"}),
        "delay": (_delay, {"method": "chat.postMessage", "seconds": 1}),
        "limit": (_limit, {"method": "chat.postMessage", "per_second": 1}),
        "press": (_press, {**_SAYS, "ts": "1700000000.000100", "action_id": "yes"}),
        "stop": (_stop, {**_SAYS, "thread_ts": "1700000000.000100"}),
        "drop": (_drop, {}),
        "events": (_events, {"url": "http://127.0.0.1:8710/slack/events"}),
        "state": (_state, {}),
    }
    return [
        Route(f"/control/{name}", endpoint(name, partial(action, standin), example), methods=["GET", "POST"])
        for name, (action, example) in orders.items()
    ]


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


async def _limit(standin: "SlackStandin", body: dict[str, Any]) -> Any:
    standin.limit(body.pop("method"), **body)
    return {}


async def _press(standin: "SlackStandin", body: dict[str, Any]) -> Any:
    standin.press(body["channel"], body["person"], body["ts"], body["action_id"])
    return {}


async def _stop(standin: "SlackStandin", body: dict[str, Any]) -> Any:
    standin.press_stop(body["channel"], body["person"], body["thread_ts"])
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
