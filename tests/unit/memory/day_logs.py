"""What tests of day logs share: a scope in log mode, its notes, and a history of given messages."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from memory.doubles import LocalLeases
from memory.notes import Notes
from memory.ports import Said
from memory.scope import Mode, Scope
from memory.settings import MemorySettings

DAY = date(2026, 5, 1)
NIGHT = datetime(2026, 5, 3, 1, tzinfo=UTC)


class Transcript:
    """A history of given messages."""

    def __init__(self, *said: Said) -> None:
        self.said = list(said)

    async def sittings_since(self, scope: Scope, since: datetime, *, enough: int) -> Sequence[datetime]:
        return []

    async def said_between(self, scope: Scope, start: datetime, end: datetime) -> Sequence[Said]:
        return [each for each in self.said if start <= each.at < end]


@pytest.fixture(name="scope")
def scope_(tmp_path: Path) -> Scope:
    memory = tmp_path / "memory"
    memory.mkdir()
    return Scope(
        principal="ann",
        project="",
        memory_dir=memory,
        team_dir=None,
        mode=Mode.LOG,
        shared=True,
        enabled=True,
        timezone="Europe/Berlin",
        readable=(memory,),
        writable=(memory,),
    )


@pytest.fixture(name="leases")
def leases_() -> LocalLeases:
    return LocalLeases()


@pytest.fixture(name="notes")
def notes_(leases: LocalLeases) -> Notes:
    return Notes(leases=leases, settings=MemorySettings())


def said(number: int, at: str, text: str, *, speaker: str = "Ann", role: str = "user") -> Said:
    moment = datetime.fromisoformat(at)
    return Said(message_id=number, session_id=1, role=role, speaker=speaker, text=text, at=moment)
