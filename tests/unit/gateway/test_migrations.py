"""From every schema that there ever was to today's, with what is stored, on both databases."""

from collections.abc import Callable
from typing import Any

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import JSON, Boolean, Connection, DateTime, Float, Integer, LargeBinary, MetaData, func, insert, select
from sqlalchemy.types import TypeEngine

from gateway.db.engine import Database, alembic_config, migrate
from gateway.db.schema import METADATAS

HOW_TO_REGENERATE = (
    'The tables differ from the migrations. Write the next one with `python -m gateway.db.revise NNNN "What changed"`.'
)
SAMPLES: list[tuple[type[TypeEngine[Any]], Any]] = [
    (Boolean, False),
    (Integer, 1),
    (Float, 1.5),
    (JSON, {"a": [1]}),
    (LargeBinary, b"x"),
]
NOW = func.current_timestamp()


def differences(connection: Connection) -> list[Any]:
    together = MetaData()
    for metadata in METADATAS:
        for table in metadata.tables.values():
            table.to_metadata(together)
    return list(compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), together))


def stored(connection: Connection) -> dict[str, int]:
    """Count the rows of every table."""
    there = MetaData()
    there.reflect(connection)
    counts = {
        name: connection.scalar(select(func.count()).select_from(table)) or 0 for name, table in there.tables.items()
    }
    return {name: count for name, count in counts.items() if name != "alembic_version"}


def fill(connection: Connection) -> None:
    """Put a row into every table that has none, whatever its columns are."""
    there = MetaData()
    there.reflect(connection)
    for table in there.sorted_tables:
        if not connection.scalar(select(func.count()).select_from(table)):
            connection.execute(insert(table).values({c.name: _sample(c.name, c.type) for c in table.columns}))


def _sample(name: str, kind: TypeEngine[Any]) -> Any:
    if isinstance(kind, DateTime):
        return NOW
    if name == "state" and not isinstance(kind, JSON):
        return "dead"  # allowed in both lines
    return next((value for known, value in SAMPLES if isinstance(kind, known)), "x")


async def each_step(database: Database, look: Callable[[Connection], None]) -> None:
    """Upgrade one revision after the other and look at the database at each."""

    def climb(connection: Connection) -> None:
        config = alembic_config(connection)
        known = ScriptDirectory.from_config(config).walk_revisions()
        for script in reversed(list(known)):
            command.upgrade(config, script.revision)
            look(connection)

    async with database.engine.begin() as connection:
        await connection.run_sync(climb)


async def test_the_migrations_lead_to_the_tables_that_the_program_has(empty: Database) -> None:
    await migrate(empty)
    async with empty.engine.connect() as connection:
        assert await connection.run_sync(differences) == [], HOW_TO_REGENERATE


async def test_every_revision_leads_to_the_next_and_keeps_what_is_stored(empty: Database) -> None:
    await each_step(empty, fill)
    async with empty.engine.connect() as connection:
        assert await connection.run_sync(differences) == []
        counts = await connection.run_sync(stored)
    assert counts
    assert set(counts.values()) == {1}


async def test_every_revision_can_be_taken_back_and_done_again(empty: Database) -> None:
    def down(connection: Connection) -> None:
        command.downgrade(alembic_config(connection), "base")

    await each_step(empty, lambda _: None)
    async with empty.engine.begin() as connection:
        await connection.run_sync(down)
        assert await connection.run_sync(stored) == {}
    await migrate(empty)
    async with empty.engine.connect() as connection:
        assert await connection.run_sync(differences) == []
