"""What the gateway knows of copies of team memories: where they stand, and what may not come back into them."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from adapters.base import Address
from gateway.db.engine import Database
from gateway.db.models import ErasureRow, FactRow
from gateway.history import History
from gateway.settings import Settings
from gateway.team_states import DatabaseForgotten, DatabaseSyncStates, FormerMembers
from memory.paths import Homes
from memory.provenance import fact_hash
from memory.scope import Scope
from memory.team.state import SyncState

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


@pytest.mark.parametrize("bound", [True, False])
async def test_however_many_conversations_somebody_had_one_of_them_tells_whether_they_left(
    database: Database, settings_of: Callable[..., Settings], history: History, scope: Scope, bound: bool
) -> None:
    chat = "telegram:-100" if bound else "telegram:-300"
    settings = settings_of(REVERIE_PROJECTS=f'{{"tea": {{"chats": ["{chat}"]}}}}')
    homes = Homes(root=settings.home / "homes", settings=settings.memory, override=None, enabled=True)
    asked: list[Address] = []

    async def scope_of(place: Address, principal: str) -> Scope:
        asked.append(place)
        return replace(scope, team_dir=scope.memory_dir / "team")

    await DatabaseSyncStates(database).put(G, "tea", SyncState(pulled=True))
    for thread in range(20):
        await history.start_session(scope, f"telegram:-100/{thread}", system=[], today="")
    former = FormerMembers(settings, homes, scope_of, database)
    assert [left.principal for left, _ in await former.copies()] == ([] if bound else [G])
    assert len(asked) == (1 if bound else 0)
