"""The arguments of a Web API call, whether they came as a query, a form or JSON."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import UploadFile
from starlette.requests import Request

from adapters.standins.slack_blocks import invalid_arguments

_STRUCTURED = frozenset({"blocks", "attachments", "metadata", "chunks", "files", "prompts", "view", "loading_messages"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Arguments:
    """The arguments by name; structures that a form carries as JSON text are decoded."""

    values: Mapping[str, Any]

    def get(self, name: str) -> Any:
        """Return an argument as it came, None if it is absent."""
        return self.values.get(name)

    def text(self, name: str) -> str:
        """Return an argument as text, empty if it is absent."""
        value = self.values.get(name)
        return "" if value is None else str(value)

    def required(self, name: str) -> str:
        """Return an argument as text; raises `invalid_arguments` if it is absent."""
        if not self.text(name):
            raise invalid_arguments(f"missing required field: {name}")
        return self.text(name)

    def flag(self, name: str) -> bool:
        """Return whether a truth value is set; Slack takes 1, true and JSON's true."""
        return self.values.get(name) is True or self.text(name).lower() in {"1", "true"}

    def number(self, name: str, default: int) -> int:
        """Return a whole number; raises `invalid_arguments` if it is none."""
        text = self.text(name)
        if not text:
            return default
        if not text.isdecimal():
            raise invalid_arguments(f"must provide an integer [json-pointer:/{name}]")
        return int(text)


async def read_arguments(request: Request) -> Arguments:
    """Read the arguments of a request from its query and its body; raises `invalid_arguments`."""
    values: dict[str, Any] = dict(request.query_params)
    if request.headers.get("content-type", "").startswith("application/json"):
        values |= _json_object(await request.body())
    else:
        async with request.form() as form:
            values |= {name: value for name, value in form.items() if not isinstance(value, UploadFile)}
    for name in _STRUCTURED & values.keys():
        values[name] = _decoded(name, values[name])
    return Arguments(values=values)


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body or b"{}")
    except ValueError as broken:
        raise invalid_arguments("invalid_json") from broken
    if not isinstance(value, dict):
        raise invalid_arguments("json_not_object")
    return value


def _decoded(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError as broken:
        raise invalid_arguments(f"{name} is not JSON") from broken
