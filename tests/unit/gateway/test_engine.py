import asyncio
import sqlite3
import stat
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from gateway.db.engine import Database, connect, migrate
from gateway.errors import StartRefused
from gateway.log import redact
from tests.postgres import sqlite_only
from tests.waiting import HANGS


async def test_migrating_again_changes_nothing(database: Database) -> None:
    await migrate(database)
    await asyncio.gather(migrate(database), migrate(database))


async def test_two_processes_may_migrate_a_new_database_at_once(tmp_path: Path) -> None:
    databases = [connect(f"sqlite+aiosqlite:///{tmp_path}/new.db") for _ in range(2)]
    await asyncio.gather(*(migrate(database) for database in databases))
    for database in databases:
        await database.engine.dispose()


@sqlite_only
async def test_a_connection_keeps_what_was_acknowledged_and_checks_its_keys(database: Database) -> None:
    async with database.read() as session:
        values = [await session.scalar(text(f"PRAGMA {name}")) for name in ("journal_mode", "synchronous")]
        values.append(await session.scalar(text("PRAGMA foreign_keys")))
        values.append(await session.scalar(text("PRAGMA busy_timeout")))
    assert values == ["wal", 2, 1, 30_000]


@sqlite_only
async def test_a_writer_takes_its_place_in_line_when_it_begins(database: Database) -> None:
    file = database.engine.url.database
    assert file is not None
    other = sqlite3.connect(file, timeout=0, isolation_level=None)
    try:
        async with database.write() as session:
            await session.execute(text("SELECT 1"))
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                other.execute("BEGIN IMMEDIATE")
        other.execute("BEGIN IMMEDIATE")
    finally:
        other.close()


async def test_fifty_writers_at_once_all_get_their_turn(database: Database) -> None:
    async with database.write() as session:
        await session.execute(text("CREATE TABLE counted (n INTEGER)"))
        await session.execute(text("INSERT INTO counted VALUES (0)"))

    async def count() -> None:
        async with database.write() as session:
            await session.execute(text("SELECT n FROM counted"))
            await asyncio.sleep(0)
            await session.execute(text("UPDATE counted SET n = n + 1"))

    await asyncio.gather(*(count() for _ in range(50)))
    async with database.read() as session:
        assert await session.scalar(text("SELECT n FROM counted")) == 50


async def test_a_reader_waits_for_no_writer_and_sees_one_state(database: Database) -> None:
    async with database.write() as session:
        await session.execute(text("CREATE TABLE counted (n INTEGER)"))
    async with asyncio.timeout(HANGS), database.read() as reader:
        assert await reader.scalar(text("SELECT count(*) FROM counted")) == 0
        async with database.write() as writer:
            await writer.execute(text("INSERT INTO counted VALUES (1)"))
            async with database.read() as second:
                assert await second.scalar(text("SELECT count(*) FROM counted")) == 0
        assert await reader.scalar(text("SELECT count(*) FROM counted")) == 0


async def test_a_writer_that_fails_leaves_nothing(database: Database) -> None:
    async with database.write() as session:
        await session.execute(text("CREATE TABLE counted (n INTEGER)"))

    async def fail() -> None:
        async with database.write() as session:
            await session.execute(text("INSERT INTO counted VALUES (1)"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    async with database.read() as session:
        assert await session.scalar(text("SELECT count(*) FROM counted")) == 0


async def test_a_cancelled_writer_leaves_the_line_open(database: Database) -> None:
    async with database.write() as session:
        await session.execute(text("CREATE TABLE counted (n INTEGER)"))

    async def write() -> None:
        async with database.write() as session:
            await session.execute(text("INSERT INTO counted VALUES (1)"))
            await session.execute(text("INSERT INTO counted VALUES (1)"))

    for step in range(60):
        task = asyncio.create_task(write())
        await asyncio.sleep(step / 20_000)
        task.cancel()
        await asyncio.wait({task})
    async with asyncio.timeout(HANGS):
        await write()
    async with database.read() as session:
        assert (await session.scalar(text("SELECT count(*) FROM counted")) or 1) % 2 == 0


async def test_an_error_of_the_database_does_not_quote_what_people_wrote(database: Database) -> None:
    with pytest.raises(OperationalError if database.is_sqlite else Exception) as caught:
        async with database.write() as session:
            await session.execute(text("INSERT INTO nowhere VALUES (:said)"), {"said": "canary"})
    assert "canary" not in str(caught.value)


async def test_the_file_is_its_owners_only(tmp_path: Path) -> None:
    database = connect(f"sqlite+aiosqlite:///{tmp_path}/private.db")
    await migrate(database)
    modes = await asyncio.to_thread(lambda: [stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()])
    await database.engine.dispose()
    assert modes == [0o600] * 3  # with the journal and its index


@sqlite_only
async def test_a_newer_schema_is_refused_and_nothing_is_changed(database: Database) -> None:
    async with database.write() as session:
        await session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        await session.execute(text("DROP TABLE leases"))
    with pytest.raises(StartRefused, match="schema version 9999, which is newer"):
        await migrate(database)
    async with database.read() as session:
        assert await session.scalar(text("SELECT version_num FROM alembic_version")) == "9999"
        assert await session.scalar(text("SELECT count(*) FROM sqlite_master WHERE name = 'leases'")) == 0


async def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "reverie.db"
    file.write_text("dear diary, " * 100)
    database = connect(f"sqlite+aiosqlite:///{file}")
    with pytest.raises(StartRefused, match="file is not a database"):
        await migrate(database)
    await database.engine.dispose()
    assert file.read_text() == "dear diary, " * 100


async def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    database = connect(f"sqlite+aiosqlite:///{tmp_path}/no/such/reverie.db")
    with pytest.raises(StartRefused, match=r"can't be used: .*Check that it exists"):
        await migrate(database)
    await database.engine.dispose()


async def test_a_server_that_is_not_there_is_refused_without_its_password() -> None:
    database = connect("postgresql+asyncpg://ann:canary@127.0.0.1:1/reverie")
    with pytest.raises(StartRefused, match=r"can't be used: .*DATABASE_URL") as refused:
        await migrate(database)
    await database.engine.dispose()
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "reverie.db",
        "sqlite:///reverie.db",
        "sqlite+aiosqlite://",
        "sqlite+aiosqlite:///:memory:",
        "postgresql://ann:canary@host/name",
        "postgresql+asyncpg://ann:canary@host:port/name",
        "mysql+aiomysql://ann:canary@host/name",
        "canary",
    ],
)
def test_a_url_of_no_known_kind_is_refused_with_the_right_forms(url: str) -> None:
    with pytest.raises(StartRefused, match=r"postgresql\+asyncpg://host/name") as refused:
        connect(url)
    assert "canary" not in str(refused.value)
    assert redact(str(refused.value)) == str(refused.value)
