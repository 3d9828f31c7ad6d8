import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from adapters.base import Account, Address, Attachment, ChatKind, Inbound
from adapters.doubles import RecordingAdapter
from gateway.db.engine import Database
from gateway.history import History
from gateway.inbox import Inbox
from gateway.outbox import Outbox, Post
from gateway.settings import Settings, load
from memory.scope import Mode, Scope


class Now:
    """A clock that stands until a test moves it."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.moment

    def forward(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


@pytest.fixture(autouse=True)
def _quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the lines be looked at often: a clock that is moved by hand wakes nobody."""
    monkeypatch.setattr("gateway.consumer._IDLE_SECONDS", 0.02)


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def outbox(database: Database, now: Now) -> Outbox:
    return Outbox(database, now)


@pytest.fixture
def inbox(database: Database, outbox: Outbox, now: Now) -> Inbox:
    return Inbox(database, outbox, now, lease=30.0)


@pytest.fixture
def history(database: Database, now: Now) -> History:
    return History(database, now, silence=8 * 3600.0)


@pytest.fixture
def adapter() -> RecordingAdapter:
    return RecordingAdapter()


@pytest.fixture
def said(now: Now) -> Callable[..., Inbound]:
    """Make what a person sent; a new message each time unless `external_id` is given."""
    numbers = itertools.count(1)

    def make(
        words: str = "hello",
        *,
        chat: str = "42",
        user: str = "42",
        thread: str = "",
        external_id: str = "",
        shared: bool = False,
        addressed: bool = True,
        platform: str = "telegram",
    ) -> Inbound:
        number = str(next(numbers))
        return Inbound(
            external_id=external_id or f"u{number}",
            address=Address(platform=platform, chat=chat, thread=thread),
            kind=ChatKind.SHARED if shared else ChatKind.PRIVATE,
            account=Account(platform=platform, user=user),
            name="Ann",
            text=words,
            message_id=number,
            sent_at=now(),
            addressed=addressed,
            attachments=(Attachment(kind="photo"),),
        )

    return make


@pytest.fixture
def post() -> Callable[..., Post]:
    def make(key: str, words: str = "hi", *, chat: str = "42", platform: str = "telegram") -> Post:
        address = Address(platform=platform, chat=chat)
        return Post(key=key, principal="person:telegram:42", address=address, part={"text": words})

    return make


@pytest.fixture
def make_scope(tmp_path: Path) -> Callable[..., Scope]:
    def make(principal: str = "person:telegram:42", *, project: str = "tea", shared: bool = False) -> Scope:
        directory = tmp_path / "homes" / principal.replace(":", "_") / project / "memory"
        directory.mkdir(parents=True, exist_ok=True)
        return Scope(
            principal=principal,
            project=project,
            memory_dir=directory,
            team_dir=None,
            mode=Mode.AUTO,
            shared=shared,
            enabled=True,
            timezone="UTC",
            readable=(directory,),
            writable=(directory,),
        )

    return make


@pytest.fixture
def settings_of(tmp_path: Path) -> Callable[..., Settings]:
    """Read settings from nothing but a home and a policy folder of the test's own, and these variables."""

    def make(**environ: str) -> Settings:
        places = {"REVERIE_HOME": str(tmp_path / "home"), "REVERIE_MANAGED_DIR": str(tmp_path / "policy")}
        return load(places | environ)

    return make
