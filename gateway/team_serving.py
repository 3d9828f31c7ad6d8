"""Team memory on this gateway: its own store, served to those who hold a token, and the client of whoever keeps it."""

import asyncio
import random
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
from starlette.applications import Starlette
from starlette.routing import BaseRoute

from gateway.db.engine import Database
from gateway.settings import Settings
from gateway.team_exchanges import OWN, TeamExchanges
from gateway.team_states import DatabaseForgotten, DatabaseSyncStates
from memory.notes import Notes
from memory.ports import Clock, Leases, Meter
from memory.team.client import Removed
from memory.team.server import Grant, TokenTable, routes
from memory.team.store import Limits, TeamStore

_IN_PROCESS = "http://team.invalid"  # our own store is asked over the same contract, without a socket


@dataclass(frozen=True, kw_only=True)
class TeamMemory:
    """What serves the gateway's own team memory, and what keeps its copies in step with the one that counts."""

    sync: TeamExchanges
    states: DatabaseSyncStates
    forgotten: DatabaseForgotten
    routes: Sequence[BaseRoute]


@asynccontextmanager
async def open_team(
    settings: Settings,
    *,
    database: Database,
    notes: Notes,
    leases: Leases,
    clock: Clock,
    meter: Meter,
    removed: Removed,
) -> AsyncIterator[TeamMemory]:
    """Make the store and its client, which asks another server where the settings name one; nothing is asked yet."""
    own_token = secrets.token_urlsafe(32)
    store = TeamStore(database, clock=clock, limits=Limits())
    served = routes(store, TokenTable(_grants(settings, own_token)), Limits(), meter=meter)
    states, forgotten = DatabaseSyncStates(database), DatabaseForgotten(database)
    async with _http(settings, served) as http:
        sync = TeamExchanges(
            base_url=str(settings.memory.team_server_url or _IN_PROCESS),
            token=_constant(_token(settings, own_token)),
            http=http,
            notes=notes,
            states=states,
            leases=leases,
            settings=settings.memory,
            clock=clock,
            sleep=asyncio.sleep,
            jitter=random.random,
            meter=meter,
            forgotten=forgotten,
            removed=removed,
        )
        yield TeamMemory(sync=sync, states=states, forgotten=forgotten, routes=served)


def _grants(settings: Settings, own_token: str) -> dict[str, Grant]:
    """Return what this gateway may do in its own store, and what the operator has given to others, by token."""
    repos = frozenset(project.repo or name for name, project in settings.projects.items())
    given = {
        grant.token.get_secret_value(): Grant(author=name, repos=frozenset(grant.repos))
        for name, grant in settings.memory.team_grants.items()
    }
    return {own_token: Grant(author=OWN, repos=repos), **given}


def _token(settings: Settings, own_token: str) -> str:
    """Return the token for the server that is asked; each sees its own only."""
    if settings.memory.team_server_url is None:
        return own_token
    given = settings.memory.team_token
    return given.get_secret_value() if given else ""


def _constant(token: str) -> Callable[[], Awaitable[str]]:
    async def given() -> str:
        return token

    return given


def _http(settings: Settings, served: Sequence[BaseRoute]) -> httpx.AsyncClient:
    if settings.memory.team_server_url is not None:
        return httpx.AsyncClient()
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=Starlette(routes=served)))
