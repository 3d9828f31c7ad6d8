"""Orders of the control APIs, by which another process drives a stand-in: how each is taken, and why it is refused."""

import inspect
import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

Act = Callable[[dict[str, Any]], Any]
"""Follows an order, with its fields; may be a coroutine function."""
Endpoint = Callable[[Request], Awaitable[Response]]


def endpoint(
    name: str, act: Act, example: Mapping[str, Any], *, plain: Callable[[object], object] | None = None
) -> Endpoint:
    """Return what answers an order of this name: what `act` returns, or 400 with the fault and the example.

    The example has every field that the order needs, and no other. `plain` makes JSON of what has no form of it.
    """

    async def answer(request: Request) -> Response:
        try:
            result = act(await _given(request, name, needs=example))
            result = await result if inspect.isawaitable(result) else result
        except (LookupError, TypeError, ValueError) as error:
            return JSONResponse({"error": _told(name, error), "example": dict(example)}, status_code=400)
        body = json.dumps({} if result is None else result, default=plain)
        return Response(body, media_type="application/json")

    return answer


async def _given(request: Request, name: str, *, needs: Collection[str]) -> dict[str, Any]:
    given = dict(request.query_params) if request.method == "GET" else await _body(request)
    if missing := [field for field in needs if field not in given]:
        raise ValueError(f"{name} needs {' and '.join(missing)}")
    return given


async def _body(request: Request) -> dict[str, Any]:
    try:
        given = await request.json()
    except ValueError as error:
        raise ValueError(f"the body is no JSON: {error}") from error
    if not isinstance(given, dict):
        raise TypeError("the body is no JSON object")
    return given


def _told(name: str, error: Exception) -> str:
    if isinstance(error, KeyError):  # its text is the key alone
        return f"{name}: there is no {error.args[0] if error.args else 'such thing'} here"
    return str(error)
