"""A server of team memory that gives out whatever a test puts into it, good or evil."""

import json
from dataclasses import dataclass, field
from hashlib import sha256

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from memory.notes import content_hash
from memory.team.wire import PATH


@dataclass(kw_only=True)
class TeamServer:
    """Speaks the bare contract: it merges what is put and keeps no deletions. `statuses` has one entry per answer."""

    entries: dict[str, str] = field(default_factory=dict)
    statuses: list[int] = field(default_factory=list)

    @property
    def tag(self) -> str:
        return sha256(json.dumps(self.entries).encode()).hexdigest()

    @property
    def app(self) -> Starlette:
        return Starlette(routes=[Route(PATH, self._answer, methods=["GET", "PUT"])])

    async def _answer(self, request: Request) -> Response:
        answer = await self._given(request)
        self.statuses.append(answer.status_code)
        return answer

    async def _given(self, request: Request) -> Response:
        if request.method == "PUT":
            if request.headers.get("if-match", f'"{self.tag}"').strip('"') != self.tag:
                return Response(status_code=412)
            self.entries.update((await request.json())["entries"])
            return JSONResponse({"checksum": self.tag})
        if request.query_params.get("view") == "hashes":
            hashes = {key: content_hash(text) for key, text in self.entries.items()}
            return JSONResponse({"checksum": self.tag, "entryChecksums": hashes})
        if request.headers.get("if-none-match", "").strip('"') == self.tag:
            return Response(status_code=304)
        content = {"entries": self.entries}
        return JSONResponse({"repo": "garden", "version": 1, "checksum": self.tag, "content": content})


def project(url: str) -> str:
    """Return the settings of a project whose only chat is a group, with this server."""
    return f"""
[projects.garden]
chats = ["telegram:-100"]
[memory]
team_server_url = "{url}"
team_token = "a-token-of-the-operator"
"""
