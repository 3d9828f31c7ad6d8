"""The `/control` routes, by which another process drives it; `adapters.standins.telegram` lists them."""

import dataclasses
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from adapters.standins.telegram_chats import Chat, Person, Shown
from adapters.standins.telegram_http import BotApi
from adapters.standins.telegram_people import People
from adapters.standins.telegram_wire import Upload

Order = Callable[[dict[str, Any]], Any]


def control_routes(people: People, api: BotApi) -> Mount:
    """Return the routes, mounted under `/control`."""
    posts: dict[str, Order] = {
        "say": lambda given: _say(people, given),
        "edit": lambda given: _edit(people, given),
        "press": lambda given: _press(people, given),
        "fail": lambda given: api.fail(**given),
        "delay": lambda given: api.delay(**given),
    }
    gets: dict[str, Order] = {
        "messages": lambda given: _messages(people, given),
        "calls": lambda given: [c for c in api.calls if given.get("method", c.method) == c.method],
        "faults": lambda _: api.faults,
        "pending": lambda _: people.pending,
    }
    routes = [Route(f"/{name}", _endpoint(order), methods=["POST"]) for name, order in posts.items()]
    routes += [Route(f"/{name}", _endpoint(order), methods=["GET"]) for name, order in gets.items()]
    return Mount("/control", routes=routes)


def _endpoint(order: Order) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            given = await request.json() if request.method == "POST" else dict(request.query_params)
            result = order(given)
        except (KeyError, TypeError, ValueError) as error:
            return JSONResponse({"error": f"{type(error).__name__}: {error}"}, status_code=400)
        return Response(json.dumps({} if result is None else result, default=_plain), media_type="application/json")

    return endpoint


def _plain(value: object) -> object:
    if isinstance(value, Upload):
        return {"name": value.name, "size": len(value.content), "mime_type": value.mime_type}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _person(people: People, given: Mapping[str, Any]) -> Person:
    who = given.get("from", given["chat"])
    return people.person(**who) if isinstance(who, dict) else people.person(int(who))


def _chat(people: People, given: Mapping[str, Any]) -> Chat:
    chat_id = int(given["chat"])
    if chat_id < 0:
        return people.group(chat_id, title=given.get("title", ""))
    return people.private(people.person(chat_id))


def _say(people: People, given: dict[str, Any]) -> Any:
    person = _person(people, given)
    message_id = people.say(
        _chat(people, given),
        person,
        given["text"],
        reply_to=given.get("reply_to"),
        thread=given.get("thread"),
    )
    return {"message_id": message_id}


def _messages(people: People, given: dict[str, Any]) -> list[Shown]:
    chat = people.chat(int(given["chat"]))  # looking must not open a chat
    return people.messages(chat) if chat else []


def _edit(people: People, given: dict[str, Any]) -> None:
    people.edit(_chat(people, given), given["message_id"], given["text"])


def _press(people: People, given: dict[str, Any]) -> Any:
    person = _person(people, given)
    query_id = people.press(_chat(people, given), person, given["message_id"], given["data"])
    return {"query_id": query_id}
