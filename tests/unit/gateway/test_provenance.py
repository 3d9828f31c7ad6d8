from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from adapters.base import Inbound
from gateway.db.engine import Database
from gateway.erasures import Erasures
from gateway.history import History, Line, Session, Turned
from gateway.inbox import Inbox
from gateway.provenance import Provenance
from memory.errors import WriteRefused
from memory.gone import Gone
from memory.provenance import Moved, Placed, Witness
from memory.recall import Recalled
from memory.scope import Scope

HERE = "telegram:42"
TEA, TRAIN = "Ann drinks tea", "Ann likes trains"


@pytest.fixture
def scope(make_scope: Callable[..., Scope]) -> Scope:
    return make_scope()


@pytest.fixture
def provenance(database: Database) -> Provenance:
    return Provenance(database)


async def turn(
    database: Database, history: History, scope: Scope, *said: str, inbox_id: int = 1, recalled: tuple[str, ...] = ()
) -> Session:
    session = await history.open_session(scope, HERE)
    session = session or await history.start_session(scope, HERE, system=[], today="2026-05-01")
    read = {"type": "tool_use", "id": "t", "name": "read", "input": {"file_path": "tea.md"}}
    turned = Turned(
        lines=[
            *(Line(role="user", content=[{"type": "text", "text": text}], speaker="Ann", said=text) for text in said),
            Line(role="assistant", content=[read]),
            Line(role="assistant", content=[{"type": "text", "text": "ah"}], said="ah"),
        ],
        recalled=[Recalled(name=name, block="b", units=1, mtime=0.0) for name in recalled],
        rules=(), written=(), told_date="2026-05-01", told_notes_at=0.0, inbox_id=inbox_id,
    )  # fmt: skip
    async with database.write() as transaction:
        await history.add_turn(transaction, session, turned)
    return session


async def saw(scope: Scope, before: str, after: str, *, note: str = "tea.md") -> Witness:
    witness = Witness()
    await witness(scope, scope.memory_dir / note, before=before, after=after)
    return witness


def hash_of(fact: str) -> str:
    return Placed(note="", fact=fact).hash


async def test_what_was_heard_is_the_window_with_the_account_that_the_inbox_knows(
    database: Database,
    history: History,
    inbox: Inbox,
    scope: Scope,
    said: Callable[..., Inbound],
) -> None:
    provenance = Provenance(database)
    await inbox.add(said("I drink tea", user="7"), principal=scope.principal)
    session = await turn(database, history, scope, "I drink tea")
    await turn(database, history, scope, "I like trains", inbox_id=99)
    heard = await provenance.heard(session.id, principal=scope.principal, upto=1000)
    assert [(each.account, each.text) for each in heard] == [
        ("telegram:7", "I drink tea"),
        ("telegram:42", "I like trains"),  # an inbox row that is not there any more: the person's own account
    ]
    assert await provenance.heard(session.id, principal="person:telegram:43", upto=1000) == []
    assert len(await provenance.heard(session.id, principal=scope.principal, upto=heard[0].message_id)) == 1


async def test_a_fact_gets_its_source_keeps_it_in_a_move_and_loses_it_with_the_fact(
    database: Database, history: History, provenance: Provenance, scope: Scope
) -> None:
    session = await turn(database, history, scope, "I drink tea")
    heard = await provenance.heard(session.id, principal=scope.principal, upto=1000)
    await provenance.record(scope, await saw(scope, "", f"- {TEA}"), heard)
    ((first,),) = (await provenance.sources(scope, [hash_of(TEA)])).values()
    assert (first.account, first.speaker, first.message_id) == ("telegram:42", "Ann", heard[0].message_id)
    moved = await saw(scope, f"- {TEA}", "")
    await moved(scope, scope.memory_dir / "other.md", before="", after=f"- {TEA}")
    await provenance.record(scope, moved, [])
    assert await provenance.sources(scope, [hash_of(TEA)]) == {hash_of(TEA): (first,)}
    await provenance.record(scope, await saw(scope, f"- {TEA}", "", note="other.md"), [])
    assert await provenance.sources(scope, [hash_of(TEA)]) == {}


async def test_a_turns_own_write_is_recorded_with_the_turn(
    database: Database, history: History, provenance: Provenance, scope: Scope
) -> None:
    session = await turn(database, history, scope, "I drink tea")
    for witness in (await saw(scope, "", f"- {TEA}"), Witness()):
        async with database.write() as transaction:
            await provenance.record_turn(transaction, session.id, scope, witness)
    assert len(await provenance.sources(scope, [hash_of(TEA)])) == 1


async def test_a_fact_that_moved_without_a_source_has_none(provenance: Provenance, scope: Scope) -> None:
    moved = await saw(scope, f"- {TEA}", "")
    await moved(scope, scope.memory_dir / "other.md", before="", after=f"- {TEA}")
    await provenance.record(scope, moved, [])
    await provenance.record(scope, Witness(), [])
    assert await provenance.sources(scope, [hash_of(TEA)]) == {}


async def test_nobody_sees_the_sources_of_another_memory(
    database: Database, history: History, provenance: Provenance, scope: Scope, make_scope: Callable[..., Scope]
) -> None:
    session = await turn(database, history, scope, "I drink tea", recalled=("tea.md",))
    heard = await provenance.heard(session.id, principal=scope.principal, upto=1000)
    await provenance.record(scope, await saw(scope, "", f"- {TEA}"), heard)
    move = Moved(old=Placed(note="tea.md", fact=TEA), new=Placed(note="new.md", fact=TEA))
    for other in (make_scope("person:telegram:43"), make_scope(project="coffee")):
        await provenance.carry(other, [move])
        assert await provenance.sources(other, [hash_of(TEA)]) == {}
        assert await provenance.shaping(other, HERE) is None


async def test_a_rewrite_carries_sources_and_never_overwrites_one(
    database: Database, history: History, provenance: Provenance, scope: Scope
) -> None:
    session = await turn(database, history, scope, "I drink tea", "I like trains")
    heard = await provenance.heard(session.id, principal=scope.principal, upto=1000)
    await provenance.record(scope, await saw(scope, "", f"- {TEA}\n- {TRAIN}"), heard)
    tea, train = Placed(note="tea.md", fact=TEA), Placed(note="tea.md", fact=TRAIN)
    new = Placed(note="new.md", fact="Ann always drinks tea")
    await provenance.carry(scope, [])
    await provenance.carry(scope, [Moved(old=tea, new=new), Moved(old=train, new=new), Moved(old=tea, new=train)])
    sources = await provenance.sources(scope, [tea.hash, train.hash, new.hash])
    assert sources[new.hash] == sources[tea.hash]
    assert [each.message_id for each in sources[train.hash]] == [heard[1].message_id]


async def test_a_line_of_a_log_has_its_message_as_its_source(
    database: Database, history: History, provenance: Provenance, scope: Scope
) -> None:
    session = await turn(database, history, scope, "I drink tea")
    (spoken,) = await provenance.heard(session.id, principal=scope.principal, upto=1000)
    line = Placed(note="logs/2026/05/2026-05-01.md", fact="12:00 Ann: I drink tea")
    for _ in range(2):
        await provenance.logged(scope, {spoken.message_id: line})
    ((found,),) = (await provenance.sources(scope, [line.hash])).values()
    assert found.message_id == spoken.message_id


async def test_what_shaped_the_last_answer_is_told_apart_from_what_came_before(
    database: Database, history: History, provenance: Provenance, scope: Scope, now: Any
) -> None:
    assert await provenance.shaping(scope, HERE) is None
    await turn(database, history, scope, "one", recalled=("a.md",))
    now.forward(60)
    await turn(database, history, scope, "two", inbox_id=2, recalled=("b.md",))
    shaping = await provenance.shaping(scope, HERE)
    assert shaping is not None
    assert (shaping.recalled, shaping.read, shaping.earlier) == (("b.md",), ("tea.md",), ("a.md",))
    assert await provenance.shaping(scope, "telegram:43") is None
    assert not await provenance.erased_since(scope, now() - timedelta(days=1))


async def test_a_turns_witness_knows_what_was_forgotten_since_the_turn_began(
    database: Database, provenance: Provenance, make_scope: Callable[..., Scope], now: Any
) -> None:
    def witness(scope: Scope, began: Any) -> Witness:
        return Witness(partial(provenance.erased_since, scope, began))

    scope, before = make_scope(), now()
    now.forward(1)
    text = "Ann drinks tea"
    await Erasures(database, now).erase(scope, messages=[], what=Gone(notes=frozenset(), texts=(text,), corpus=(text,)))
    now.forward(1)
    path = scope.memory_dir / "a.md"
    with pytest.raises(WriteRefused, match="forgotten"):
        await witness(scope, before)(scope, path, before="", after=f"- {text}")
    await witness(scope, now())(scope, path, before="", after=f"- {text}")
    await witness(make_scope("person:telegram:43"), before)(scope, path, before="", after=f"- {text}")
