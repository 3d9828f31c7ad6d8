"""Write the next migration from what the tables have become: `python -m gateway.db.revise 0002 "What changed"`.

The draft is compared with a fresh SQLite database on which all earlier migrations have run. Read it before it is kept.
"""

import asyncio
import re
import sys
import tempfile
from pathlib import Path

from alembic import command
from sqlalchemy import Connection

from gateway.db.engine import alembic_config, connect


async def revise(number: str, message: str) -> None:
    """Write the draft into the folder of migrations."""
    with tempfile.TemporaryDirectory() as folder:
        database = connect(f"sqlite+aiosqlite:///{folder}/draft.db")
        try:
            async with database.engine.begin() as connection:
                await connection.run_sync(_draft, number, message)
        finally:
            await database.engine.dispose()


def _draft(connection: Connection, number: str, message: str) -> None:
    config = alembic_config(connection)
    command.upgrade(config, "head")
    config.attributes["batch"] = number != "0001"
    script = command.revision(config, message, autogenerate=True, rev_id=number)
    assert script is not None
    assert not isinstance(script, list)
    file = Path(script.path)
    file.write_text(re.sub(r"\n *# ###.*", "", file.read_text()))


if __name__ == "__main__":
    asyncio.run(revise(sys.argv[1], sys.argv[2]))
