"""The HTTP side: liveness, readiness, figures, the platforms' webhooks, team memory for others."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

Checks = Callable[[], Awaitable[Mapping[str, str]]]
"""Returns what is wrong, by name of the part; empty when inbound events can arrive and be worked on."""


Exposition = Callable[[str], tuple[bytes, str]]
"""Returns the figures in the format that an `Accept` header asks for, and its content type."""


def application(*, faults: Checks, metrics: Exposition, routes: Sequence[BaseRoute]) -> Starlette:
    """Return the gateway's HTTP application."""

    async def healthz(_: Request) -> PlainTextResponse:
        return PlainTextResponse("ok\n")

    async def readyz(_: Request) -> JSONResponse:
        found = await faults()
        return JSONResponse({"ready": not found, "faults": dict(found)}, status_code=503 if found else 200)

    async def figures(request: Request) -> Response:
        body, content_type = metrics(request.headers.get("accept", ""))
        return Response(body, headers={"content-type": content_type})

    own = [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", figures)]
    return Starlette(routes=[*own, *routes])
