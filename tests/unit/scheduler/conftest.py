from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gateway.db.engine import Database
from memory.scope import Mode, Scope
from scheduler.runs import Runs


class Now:
    """A clock that stands until a test moves it."""

    def __init__(self, moment: datetime) -> None:
        self.moment = moment

    def __call__(self) -> datetime:
        return self.moment


@pytest.fixture
def now() -> Now:
    return Now(datetime(2026, 5, 1, 12, 3, tzinfo=UTC))


@pytest.fixture
def replica(database: Database, now: Now) -> Callable[[str], Runs]:
    return lambda holder: Runs(database, clock=now, holder=holder)


@pytest.fixture
def runs(replica: Callable[[str], Runs]) -> Runs:
    return replica("r1")


@pytest.fixture
def make_scope(tmp_path: Path) -> Callable[..., Scope]:
    def make(principal: str = "ann", *, mode: Mode = Mode.AUTO, timezone: str = "UTC", repo: str = "") -> Scope:
        directory = tmp_path / principal / "memory"
        return Scope(
            principal=principal,
            project="tea",
            memory_dir=directory,
            team_dir=directory / "team" if repo else None,
            mode=mode,
            shared=False,
            enabled=True,
            timezone=timezone,
            readable=(directory,),
            writable=(directory,),
            repo=repo,
        )

    return make
