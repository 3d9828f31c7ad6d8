"""Counts what a piece of code asks the database for."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import event

from gateway.db.engine import Database


@dataclass
class Asked:
    """The statements, in order, and how many transactions held them."""

    statements: list[str] = field(default_factory=list)
    transactions: int = 0


@contextmanager
def asked_of(database: Database) -> Iterator[Asked]:
    """Count while the block runs."""
    asked, engine = Asked(), database.engine.sync_engine

    def statement(connection: Any, cursor: Any, text: str, *_: Any) -> None:
        if not text.startswith(("BEGIN", "PRAGMA", "SET ")):
            asked.statements.append(text)

    def begun(connection: Any) -> None:
        asked.transactions += 1

    event.listen(engine, "before_cursor_execute", statement)
    event.listen(engine, "begin", begun)
    try:
        yield asked
    finally:
        event.remove(engine, "before_cursor_execute", statement)
        event.remove(engine, "begin", begun)
