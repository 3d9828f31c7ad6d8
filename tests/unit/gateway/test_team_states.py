"""What the gateway knows of copies of team memories: where they stand, and what may not come back into them."""

import json
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from gateway.access import Access
from gateway.db.engine import Database
from gateway.db.models import ErasureRow, FactRow
from gateway.db.team_models import SyncRow
from gateway.history import History
from gateway.scopes import Scopes
from gateway.settings import Settings
from gateway.team_states import DatabaseForgotten, DatabaseSyncStates, FormerMembers
from memory.paths import Homes
from memory.provenance import fact_hash
from memory.scope import Scope
from memory.team.local import Skip
from memory.team.state import SyncState
from tests.unit.gateway.counted import asked_of

G, H = "chat:telegram:-100", "chat:telegram:-200"
FACT = "The key hangs by the door"


async def forgotten(database: Database, *, at: float, principal: str = G, project: str = "tea") -> None:
    row = ErasureRow(principal=principal, project=project, message_id=None, fact_hash=fact_hash(FACT), at=at)
    about_a_message = ErasureRow(principal=principal, project=project, message_id=7, fact_hash="", at=at)
    async with database.write() as session:
        session.add_all([row, about_a_message])


async def said(database: Database, *, at: float, principal: str = G, project: str = "tea", note: str = "a.md") -> None:
    row = FactRow(
        principal=principal,
        project=project,
        note=note,
        fact_hash=fact_hash(FACT),
        account="telegram:42",
        speaker="Ann",
        message_id=None,
        said_at=at,
    )
    async with database.write() as session:
        session.add(row)


@pytest.fixture
def scope(make_scope: Callable[..., Scope]) -> Scope:
    return make_scope(G, shared=True)


async def test_what_was_forgotten_is_known_by_its_hash_in_its_own_memory_only(
    database: Database, scope: Scope, make_scope: Callable[..., Scope]
) -> None:
    await forgotten(database, at=10.0)
    known = DatabaseForgotten(database)
    assert await known(scope) == {fact_hash(FACT)}
    assert await known(make_scope(H)) == await known(make_scope(G, project="coffee")) == frozenset()


@pytest.mark.parametrize(
    ("again", "still"),
    [
        ({"at": 11.0}, False),
        ({"at": 9.0}, True),
        ({"at": 11.0, "principal": H, "note": "team/a.md"}, False),
        ({"at": 11.0, "principal": H}, True),
        ({"at": 11.0, "project": "coffee"}, True),
    ],
    ids=["after", "before", "to-the-team-elsewhere", "in-another-memory", "in-another-project"],
)
async def test_what_is_said_again_later_is_not_forgotten_any_more(
    database: Database, scope: Scope, again: dict[str, float | str], still: bool
) -> None:
    await forgotten(database, at=10.0)
    await said(database, **again)  # type: ignore[arg-type]
    assert bool(await DatabaseForgotten(database)(scope)) is still


async def test_what_is_forgotten_once_more_after_it_was_said_again_is_forgotten(
    database: Database, scope: Scope
) -> None:
    for moment in (10.0, 30.0):
        await forgotten(database, at=moment)
    await said(database, at=20.0)
    assert await DatabaseForgotten(database)(scope) == {fact_hash(FACT)}


async def test_a_state_that_was_dropped_is_that_of_a_copy_never_seen(database: Database) -> None:
    states = DatabaseSyncStates(database)
    for principal in (G, H):
        await states.put(principal, "tea", SyncState(pulled=True, base={"a.md": "1"}, forgotten="2"))
    await states.drop(G, "tea")
    assert await states.get(G, "tea") == SyncState()
    assert (await states.get(H, "tea")).forgotten == "2"


async def test_what_was_refused_is_known_after_a_restart_as_it_was(database: Database) -> None:
    refused = (Skip(key="s.md", reason="a secret", rules=("github-pat",)), Skip(key="x", reason="no path"))
    state = SyncState(pulled=True, checksum="c", refused=refused)
    await DatabaseSyncStates(database).put(G, "tea", state)
    assert await DatabaseSyncStates(database).get(G, "tea") == state


async def test_a_state_from_before_refusals_were_kept_asks_for_everything_once(database: Database) -> None:
    old = {"pulled": True, "checksum": "c", "server": {"a.md": "1"}, "base": {"a.md": "1"}}
    async with database.write() as session:
        session.add(SyncRow(principal=G, project="tea", state=old))
    found = await DatabaseSyncStates(database).get(G, "tea")
    assert (found.checksum, found.base, found.refused) == (None, {"a.md": "1"}, ())


@pytest.fixture
def former(database: Database, settings_of: Callable[..., Settings]) -> Callable[..., FormerMembers]:
    """Make what finds those who left a project to which these chats belong."""

    def made(*chats: str) -> FormerMembers:
        settings = settings_of(REVERIE_PROJECTS=json.dumps({"tea": {"chats": chats}}))
        homes = Homes(root=settings.home / "homes", settings=settings.memory, override=None, enabled=True)
        scopes = Scopes(settings, homes, Access(database, settings, lambda: datetime.now(UTC)), database)
        return FormerMembers(settings, homes, scopes.of_all, database)

    return made


@pytest.mark.parametrize("bound", [True, False])
async def test_however_many_conversations_and_copies_there_are_those_who_left_are_found_with_as_many_questions(
    database: Database,
    former: Callable[..., FormerMembers],
    history: History,
    make_scope: Callable[..., Scope],
    bound: bool,
) -> None:
    chats = [f"telegram:-{number}" for number in range(1, 7)]
    found, questions = former(*(chats if bound else ["telegram:-300"])), list[int]()
    for number, chat in enumerate(chats, start=1):
        await DatabaseSyncStates(database).put(f"chat:{chat}", "tea", SyncState(pulled=True))
        for thread in range(3):
            scope = make_scope(f"chat:{chat}", shared=True)
            await history.start_session(scope, f"{chat}/{thread}", system=[], today="")
        with asked_of(database) as asked:
            assert len(await found.copies()) == (0 if bound else number)
        questions.append(len(asked.statements))
    assert len(set(questions)) == 1


@pytest.mark.parametrize("tag", ["état", "a\nb", 'a"b', "x" * 300, 5])
async def test_a_tag_that_can_not_be_sent_is_none_also_where_it_is_stored(database: Database, tag: object) -> None:
    stored = {"pulled": True, "checksum": tag, "base": {"a.md": "1"}, "refused": [], "maximum": 3}
    async with database.write() as session:
        session.add(SyncRow(principal=G, project="tea", state=stored))
    found = await DatabaseSyncStates(database).get(G, "tea")
    assert (found.checksum, found.base) == (None, {"a.md": "1"})
