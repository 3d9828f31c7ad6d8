"""What every test shares: asyncio as the loop, both databases, and the long tests only when they are asked for."""

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from gateway.db.engine import Database, connect, migrate
from tests.postgres import Postgres, postgres_on
from tests.postgres_server import server

# How long an example takes says what machine this is, and nothing of what is tested.
settings.register_profile(
    "any machine",
    settings(),
    deadline=None,
    suppress_health_check=[*settings().suppress_health_check, HealthCheck.too_slow],
)
settings.load_profile("any machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--run-slow", action="store_true", help="also run the tests marked slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--run-slow"):
        slow = [item for item in items if item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
async def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with today's schema, to be copied: migrating for every test would take most of the time."""
    file = tmp_path_factory.mktemp("migrated") / "reverie.db"
    database = connect(f"sqlite+aiosqlite:///{file}")
    await migrate(database)
    await database.engine.dispose()
    return file


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a PostgreSQL server, one per process of the run, started when the first test asks for it."""
    with server() as url:
        yield url


@pytest.fixture(scope="session")
async def postgres(postgres_server: str) -> AsyncIterator[Postgres]:
    async with postgres_on(postgres_server) as databases:
        yield databases


@pytest.fixture
def sqlite_url(tmp_path: Path, migrated: Path) -> str:
    """A migrated SQLite database of this test's own."""
    shutil.copy(migrated, tmp_path / "reverie.db")
    return f"sqlite+aiosqlite:///{tmp_path}/reverie.db"


@pytest.fixture
async def postgres_url(postgres: Postgres) -> AsyncIterator[str]:
    """A migrated PostgreSQL database of this test's own."""
    async with postgres.database() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """A migrated database of this test's own; a test that asks for it runs twice."""
    url: str = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
async def empty(request: pytest.FixtureRequest, tmp_path: Path, postgres: Postgres) -> AsyncIterator[Database]:
    """A database of this test's own in which there is nothing yet."""
    async with postgres.nothing() as url:
        database = connect(f"sqlite+aiosqlite:///{tmp_path}/empty.db" if request.param == "sqlite" else url)
        yield database
        await database.engine.dispose()


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = connect(database_url)
    yield database
    await database.engine.dispose()
