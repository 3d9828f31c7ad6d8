"""The HTTP side: liveness, readiness, the platforms' webhooks, team memory for others."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import BaseRoute, Route

Checks = Callable[[], Awaitable[Mapping[str, str]]]
"""Returns what is wrong, by name of the part; empty when inbound events can arrive and be worked on."""


def application(*, faults: Checks, routes: Sequence[BaseRoute]) -> Starlette:
    """Return the gateway's HTTP application."""

    async def healthz(_: Request) -> PlainTextResponse:
        return PlainTextResponse("ok\n")

    async def readyz(_: Request) -> JSONResponse:
        found = await faults()
        return JSONResponse({"ready": not found, "faults": dict(found)}, status_code=503 if found else 200)

    return Starlette(routes=[Route("/healthz", healthz), Route("/readyz", readyz), *routes])
