"""Alembic's environment: one line of migrations for every package's tables."""

from typing import Any, Literal

import sqlalchemy as sa
from alembic import context

from gateway.db.schema import METADATAS


def render_item(kind: str, item: Any, _: Any) -> str | Literal[False]:
    """Write types so that a migration needs nothing of the program, which will have changed when it runs."""
    if kind == "type" and isinstance(item, sa.BigInteger):
        return "integer"
    if kind == "type" and isinstance(item, sa.TypeDecorator):
        return "sa.DateTime(timezone=True)" if isinstance(item.impl, sa.DateTime) else f"sa.{item.impl!r}"
    return False


attributes = context.config.attributes
context.configure(
    connection=attributes["connection"],
    target_metadata=METADATAS,
    render_as_batch=attributes.get("batch", True),  # SQLite can't alter a table, only make it anew
    render_item=render_item,
)
with context.begin_transaction():
    context.run_migrations()
