"""The `/control` routes, by which another process drives it; `adapters.standins.telegram` lists them."""

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

from starlette.routing import Mount, Route

from adapters.standins.orders import Act, endpoint
from adapters.standins.telegram_chats import Chat, Person, Shown
from adapters.standins.telegram_http import BotApi
from adapters.standins.telegram_people import People
from adapters.standins.telegram_wire import Upload


def control_routes(people: People, api: BotApi) -> Mount:
    """Return the routes, mounted under `/control`."""
    posts: dict[str, tuple[Act, Mapping[str, Any]]] = {
        "say": (partial(_say, people), {"chat": 42, "text": "Hello"}),
        "edit": (partial(_edit, people), {"chat": 42, "message_id": 1, "text": "Hello again"}),
        "press": (partial(_press, people), {"chat": 42, "message_id": 1, "data": "yes"}),
        "stop": (partial(_stop, people), {"chat": 42}),
        "fail": (lambda given: api.fail(**given), {"method": "sendMessage"}),
        "delay": (lambda given: api.delay(**given), {"method": "sendMessage", "seconds": 1}),
    }
    gets: dict[str, tuple[Act, Mapping[str, Any]]] = {
        "messages": (partial(_messages, people), {"chat": 42}),
        "calls": (lambda given: [c for c in api.calls if given.get("method", c.method) == c.method], {}),
        "faults": (lambda _: api.faults, {}),
        "pending": (lambda _: people.pending, {}),
    }
    routes = [
        Route(f"/{name}", endpoint(name, act, example, plain=_plain), methods=[method])
        for method, orders in (("POST", posts), ("GET", gets))
        for name, (act, example) in orders.items()
    ]
    return Mount("/control", routes=routes)


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


def _stop(people: People, given: dict[str, Any]) -> None:
    people.stop(_chat(people, given), thread=given.get("thread"))
