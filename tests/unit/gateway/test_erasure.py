import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import delete, func, select, update

from adapters.base import Account, Address, Attachment, Quoted
from gateway.access import Access
from gateway.db.engine import Database
from gateway.db.models import DueRow, ErasureRow, InboxRow, SessionRow
from gateway.erasures import AT_LONGEST, Erasures
from gateway.errors import OutOfDate
from gateway.history import History, Line, Session, Turned
from gateway.inbound_rows import GATHER_SECONDS
from gateway.inbox import Inbox
from gateway.provenance import Provenance
from gateway.scopes import Scopes
from gateway.settings import Settings
from memory.gone import Gone
from memory.paths import Homes
from memory.prompt import memory_prompt
from memory.prompt_sections import SHARED_TAG
from memory.provenance import Spoken, Witness
from memory.scope import Scope

HERE = "telegram:42"
ANN, BOB = (Account(platform="telegram", user=user) for user in ("42", "43"))
FORGOTTEN = Gone(notes=frozenset(), texts=("Ann keeps a zebra",), corpus=("Ann keeps a zebra", "Ann drinks tea"))
NOTHING = Gone(notes=frozenset(), texts=(), corpus=())
ITEMS = [{"note": "tea.md", "hash": ""}]


@pytest.fixture
def scope(make_scope: Callable[..., Scope]) -> Scope:
    return make_scope()


@pytest.fixture
def erasures(database: Database, now: Any) -> Erasures:
    return Erasures(database, now)


async def turn(
    database: Database, history: History, scope: Scope, said: str, answer: str = "ah", *, inbox_id: int = 1,
    conversation: str = HERE,
) -> Session:  # fmt: skip
    session = await history.open_session(scope, conversation)
    session = session or await history.start_session(scope, conversation, system=[], today="2026-05-01")
    content = [{"type": "text", "text": said}]
    turned = Turned(
        lines=[
            Line(role="user", content=content, speaker="Ann", said=said),
            Line(role="assistant", content=content),
            Line(role="assistant", content=content, said=answer),
        ],
        recalled=(), rules=(), written=(), told_date="2026-05-01", told_notes_at=0.0, inbox_id=inbox_id,
    )  # fmt: skip
    async with database.write() as transaction:
        await history.add_turn(transaction, session, turned)
    return session


def text(words: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": words}]


async def store(database: Database, history: History, session: Session, *lines: Line) -> None:
    async with database.write() as transaction:
        turned = Turned(
            lines=lines, recalled=(), rules=(), written=(), told_date="2026-05-01", told_notes_at=0.0, inbox_id=9
        )
        await history.add_turn(transaction, session, turned)


async def said_today(history: History, scope: Scope) -> list[str]:
    day = (datetime(2026, 5, 1, tzinfo=UTC), datetime(2026, 5, 2, tzinfo=UTC))
    return [each.text for each in await history.said_between(scope, *day)]


async def waiting(database: Database) -> int:
    async with database.read() as session:
        return await session.scalar(select(func.count()).select_from(DueRow)) or 0


async def test_the_turns_in_which_it_was_said_are_forgotten_with_their_answers(
    database: Database, history: History, erasures: Erasures, scope: Scope, make_scope: Callable[..., Scope]
) -> None:
    await turn(database, history, scope, "I, Ann, keep a zebra")
    await turn(database, history, scope, "which animal?", "Ann keeps a zebra", inbox_id=2)
    await turn(database, history, scope, "it rains", inbox_id=3)
    found = await erasures.messages_telling(scope, FORGOTTEN, known=())
    assert found == frozenset(range(1, 7))
    assert await erasures.messages_telling(scope, NOTHING, known=[8]) == frozenset((7, 8, 9))
    assert await erasures.messages_telling(make_scope("person:telegram:43"), FORGOTTEN, known=[1]) == frozenset()
    await erasures.erase(scope, messages=found, what=FORGOTTEN)
    assert await said_today(history, scope) == ["it rains", "ah"]


async def test_erasing_ends_all_sessions_of_the_memory_and_leaves_of_what_is_due_what_tells_nothing(
    database: Database, history: History, erasures: Erasures, make_scope: Callable[..., Scope]
) -> None:
    scope, other = make_scope(), make_scope("person:telegram:43")
    mine = await turn(database, history, scope, "my zebra")
    await turn(database, history, scope, "I live in Kiel", inbox_id=2)
    thread = await turn(database, history, scope, "hello", conversation=f"{HERE}/7", inbox_id=3)
    theirs = await turn(database, history, other, "my zebra", conversation="telegram:43", inbox_id=4)
    await erasures.erase(scope, messages=[1, 2, 3], what=FORGOTTEN)
    assert await history.open_session(scope, HERE) is None
    assert await history.open_session(scope, f"{HERE}/7") is None
    assert await history.open_session(other, "telegram:43") is not None
    found = [await history.due_extraction(each.id) for each in (mine, thread, theirs)]
    texts = [str([message["content"] for message in one[1].messages]) for one in found if one is not None]
    assert ["zebra" in text for text in texts] == [False, False, True]
    assert ["Kiel" in texts[0], "hello" in texts[1]] == [True, True]
    assert [one[0].forced for one in found if one is not None] == [True, True, False]
    assert await said_today(history, other) == ["my zebra", "ah"]


async def test_what_stays_due_is_extracted_with_a_prompt_that_has_lost_it(
    database: Database, history: History, erasures: Erasures, scope: Scope
) -> None:
    block = {"type": "text", "text": "# Index\n\n- [Zebra](zoe.md): Ann keeps a zebra\n- [Tea](tea.md): drinks\n"}
    session = await history.start_session(scope, HERE, system=[block], today="2026-05-01")
    await turn(database, history, scope, "it rains")
    await erasures.erase(scope, messages=[], what=FORGOTTEN)
    found = await history.due_extraction(session.id)
    assert found is not None
    assert found[1].system == [{"type": "text", "text": "# Index\n\n- [Tea](tea.md): drinks\n"}]


async def test_the_indexes_in_a_prompt_lose_headings_too_and_the_rest_of_it_stays(
    database: Database, history: History, erasures: Erasures, scope: Scope
) -> None:
    team = scope.memory_dir / "team"
    team.mkdir()
    scope = replace(scope, team_dir=team)
    for folder in (scope.memory_dir, team):
        (folder / "MEMORY.md").write_text("# Zebras\n\n- [Pets](pets.md): a zebra\n- [Zebra](zebra.md): z\n\n# Tea\n")
    prompt = await memory_prompt(scope)
    session = await history.start_session(scope, HERE, system=text(prompt), today="2026-05-01")
    await turn(database, history, scope, "it rains")
    await erasures.erase(scope, messages=[], what=FORGOTTEN)
    found = await history.due_extraction(session.id)
    assert found is not None
    left = "\n- [pets](pets.md)\n\n# Tea"
    whole = "# Zebras\n\n- [Pets](pets.md): a zebra\n- [Zebra](zebra.md): z\n\n# Tea"
    assert prompt.count(whole) == 2
    assert found[1].system == text(prompt.replace(whole, left))


async def test_a_message_that_was_shown_it_loses_the_block_and_stays_due(
    database: Database, history: History, erasures: Erasures, make_scope: Callable[..., Scope]
) -> None:
    scope = make_scope("chat:telegram:-1", shared=True)
    session = await history.start_session(scope, HERE, system=[], today="2026-05-01")
    recalled = {"type": "text", "text": "<reminder>\nAnn keeps a zebra\n</reminder>"}
    call = {"type": "tool_use", "id": "1", "name": "read", "input": {"file_path": "/a/zebra.md"}}
    result = {"type": "tool_result", "tool_use_id": "1", "content": "stripes"}
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    lines = [
        Line(role="user", content=[recalled, {"type": "text", "text": "it rains"}], said="it rains"),
        Line(role="assistant", content=[thought, call]),
        Line(role="user", content=[result]),
        Line(role="assistant", content=[{"type": "text", "text": "so it does"}], said="so it does"),
    ]
    await store(database, history, session, *lines)
    await erasures.erase(scope, messages=[], what=FORGOTTEN, names=["zebra.md"])
    due = await history.due_extraction(session.id)
    assert due is not None
    gone = {"type": "text", "text": "(forgotten)"}
    assert [message["content"] for message in due[1].messages] == [
        [gone, {"type": "text", "text": "it rains"}],
        [{**call, "input": {}}],
        [{**result, "content": "(forgotten)"}],
        [{"type": "text", "text": "so it does"}],
    ]


async def test_of_a_turn_that_ran_while_something_was_forgotten_nothing_is_kept_and_the_rest_stays_due(
    database: Database, history: History, erasures: Erasures, scope: Scope
) -> None:
    await turn(database, history, scope, "I live in Kiel")
    under_way = await history.open_session(scope, HERE)
    assert under_way is not None
    await erasures.erase(scope, messages=[], what=FORGOTTEN)
    await store(database, history, under_way, Line(role="user", content=text("my zebra"), said="my zebra"))
    due = await history.due_extraction(under_way.id)
    assert due is not None
    assert due[0].new_messages == 2
    assert "zebra" not in str(due[1].messages)
    assert await said_today(history, scope) == ["I live in Kiel", "ah"]


async def test_a_session_whose_prompt_was_read_before_something_was_forgotten_is_refused(
    history: History, erasures: Erasures, scope: Scope, make_scope: Callable[..., Scope]
) -> None:
    mark, others = await history.mark(scope), await history.mark(make_scope(project="coffee"))
    await erasures.erase(scope, messages=[], what=Gone(notes=frozenset(["empty.md"]), texts=(), corpus=()))
    with pytest.raises(OutOfDate):
        await history.start_session(scope, HERE, system=text("zebra"), today="2026-05-01", mark=mark)
    coffee = make_scope(project="coffee")
    await history.start_session(coffee, f"{HERE}/7", system=text("tea"), today="2026-05-01", mark=others)
    mark = await history.mark(scope)
    await history.start_session(scope, HERE, system=text("tea"), today="2026-05-01", mark=mark)


async def test_a_session_with_memory_is_refused_where_memory_was_left_aside_meanwhile(
    history: History, erasures: Erasures, scope: Scope
) -> None:
    mark = await history.mark(scope)
    await erasures.ignore(scope, HERE)
    with pytest.raises(OutOfDate):
        await history.start_session(scope, HERE, system=text("zebra"), today="2026-05-01", mark=mark)
    without = replace(scope, enabled=False)
    assert (await history.start_session(without, HERE, system=text(""), today="2026-05-01", mark=mark)).messages == []


async def test_a_session_is_not_taken_back_once_it_was_cleared(
    database: Database, history: History, erasures: Erasures, scope: Scope
) -> None:
    former = await history.start_session(scope, HERE, system=text("zebra"), today="2026-05-01")
    await erasures.erase(scope, messages=[], what=FORGOTTEN)
    async with database.write() as session:
        await history.take_back(session, HERE, former.id)
    assert await history.open_session(scope, HERE) is None


def team_prompt(own: str, team: str) -> list[dict[str, Any]]:
    index = f"## The index\n\n- [Own](own.md): {own}\n\n## The team's index\n\n"
    return text(f"{index}<{SHARED_TAG}>\n- [Pets](pets.md): {team}\n- [Tea](tea.md): drinks\n</{SHARED_TAG}>")


async def test_a_fact_of_the_team_ends_the_sessions_of_others_that_were_shown_it_and_leaves_them_their_own(
    database: Database, history: History, erasures: Erasures, make_scope: Callable[..., Scope]
) -> None:
    group, ann, bob, eve = (make_scope(name) for name in ("chat:telegram:-1", "person:a", "person:b", "person:c"))
    prompts = {"a": ("nothing", "Ann keeps a zebra"), "b": ("Ann keeps a zebra", "nothing"), "c": ("x", "y")}
    for name, scope in zip("abc", (ann, bob, eve), strict=True):
        await history.start_session(scope, f"telegram:{name}", system=team_prompt(*prompts[name]), today="2026-05-01")
    await turn(database, history, ann, "it rains", conversation="telegram:a")
    read = {"type": "tool_use", "id": "1", "name": "read", "input": {"file_path": "/m/team/pets.md"}}
    (eves,) = [await history.open_session(eve, "telegram:c")]
    assert eves is not None
    await store(database, history, eves, Line(role="assistant", content=[read], said=""))
    await erasures.erase(group, messages=[], what=FORGOTTEN, names=["team/pets.md"], team=FORGOTTEN)
    opened = [
        await history.open_session(one, f"telegram:{name}") for name, one in zip("abc", (ann, bob, eve), strict=True)
    ]
    assert [one is not None for one in opened] == [False, True, False]
    assert opened[1] is not None
    assert opened[1].system == team_prompt(*prompts["b"])
    due = await history.due_extraction(1)
    assert due is not None
    assert "zebra" not in due[1].system[0]["text"]
    assert "- [Tea](tea.md)" in due[1].system[0]["text"]
    assert await said_today(history, ann) == ["it rains", "ah"]
    async with database.read() as session:
        rows = (await session.execute(select(ErasureRow.principal, ErasureRow.place))).all()
    assert sorted(map(tuple, rows)) == [("chat:telegram:-1", ""), *((f"person:{name}", "team") for name in "abc")]


async def test_a_fact_of_the_team_leaves_sessions_alone_whose_index_only_shares_a_word_with_it(
    database: Database, history: History, erasures: Erasures, make_scope: Callable[..., Scope]
) -> None:
    group, bob = make_scope("chat:telegram:-1"), make_scope("person:b")
    line = "- Paint for the zebra crossing is in the cellar"
    prompt = text(f"<{SHARED_TAG}>\n- [Tea](tea.md): drinks\n{line}\n</{SHARED_TAG}>")
    await history.start_session(bob, "telegram:b", system=prompt, today="2026-05-01")
    await erasures.erase(group, messages=[], what=FORGOTTEN, names=["team/pets.md"], team=FORGOTTEN)
    opened = await history.open_session(bob, "telegram:b")
    assert opened is not None
    assert opened.system == prompt


async def test_a_pull_that_removes_a_note_ends_the_sessions_of_that_memory_that_were_shown_it(
    history: History, erasures: Erasures, make_scope: Callable[..., Scope]
) -> None:
    mine, other = make_scope(), make_scope("person:telegram:43")
    for scope, chat in ((mine, HERE), (other, "telegram:43")):
        await history.start_session(scope, chat, system=team_prompt("own", "zebras"), today="2026-05-01")
    await erasures.team_notes_gone(mine, ["own.md", "elsewhere.md"])
    assert await history.open_session(mine, HERE) is not None
    await erasures.team_notes_gone(mine, ["pets.md"])
    assert await history.open_session(mine, HERE) is None
    assert await history.open_session(other, "telegram:43") is not None


async def test_facts_that_a_person_had_taken_out_are_recorded_and_the_conversation_goes_on(
    database: Database, history: History, erasures: Erasures, scope: Scope, now: Any
) -> None:
    session = await turn(database, history, scope, "forget my zebra")
    await erasures.record_facts(scope, ["1", "2"])
    await store(database, history, session, Line(role="user", content=text("thanks"), said="thanks"))
    assert await Provenance(database).erased_since(scope, now())
    assert await said_today(history, scope) == ["forget my zebra", "ah", "thanks"]
    assert await history.open_session(scope, HERE) is not None


async def test_of_what_waits_to_be_extracted_each_message_with_a_word_of_it_alone_is_forgotten(
    database: Database, history: History, erasures: Erasures, scope: Scope
) -> None:
    await turn(database, history, scope, "which animal do I like?", "your zebra!")
    await turn(database, history, scope, "a zebra it is, and I drink tea", inbox_id=2)
    await turn(database, history, scope, "I drink tea in Kiel", inbox_id=3)
    assert await erasures.messages_telling(scope, FORGOTTEN, known=()) == frozenset((3, 4))
    async with database.write() as session:
        await session.execute(update(SessionRow).values(ended=True))
        await session.execute(delete(DueRow))
    assert await erasures.messages_telling(scope, FORGOTTEN, known=()) == frozenset()


async def test_an_agent_is_told_of_what_was_forgotten_where_its_memory_may_reach(
    erasures: Erasures, make_scope: Callable[..., Scope], now: Any
) -> None:
    moment = now()
    await erasures.erase(make_scope(), messages=[], what=FORGOTTEN)
    near = (make_scope(), make_scope(project="coffee"), make_scope("chat:telegram:-1"))
    assert [await erasures.since(scope, moment) for scope in near] == [True, True, True]
    assert not await erasures.since(make_scope("person:telegram:43", project=""), moment)
    now.forward(1)
    assert not await erasures.since(make_scope(), now())


async def test_of_what_others_said_only_the_answers_that_tell_it_are_forgotten(
    database: Database, history: History, erasures: Erasures, scope: Scope
) -> None:
    await turn(database, history, scope, "my zebra", "a zebra!")
    found = await erasures.messages_telling(scope, FORGOTTEN, known=(), by=[str(BOB)])
    assert found == frozenset((3,))


async def test_a_dream_is_told_of_what_was_forgotten_since_it_began(
    database: Database, erasures: Erasures, scope: Scope, make_scope: Callable[..., Scope], now: Any
) -> None:
    provenance, began = Provenance(database), now()
    now.forward(1)
    await erasures.erase(scope, messages=[], what=FORGOTTEN)
    assert await provenance.erased_since(scope, began)
    assert not await provenance.erased_since(make_scope(project="coffee"), began)
    now.forward(1)
    assert not await provenance.erased_since(scope, now())


async def test_what_was_listed_holds_for_ten_minutes_for_one_person_in_one_place(
    erasures: Erasures, scope: Scope, make_scope: Callable[..., Scope], now: Any
) -> None:
    await erasures.offer(scope, HERE, ANN, [{"note": "old.md", "hash": ""}])
    await erasures.offer(scope, HERE, ANN, ITEMS)
    assert await erasures.offered(scope, HERE, ANN) == ITEMS
    assert await erasures.offered(scope, HERE, BOB) == []
    assert await erasures.offered(scope, f"{HERE}/7", ANN) == []
    assert await erasures.offered(make_scope(project="coffee"), HERE, ANN) == []
    now.forward(600)
    assert await erasures.offered(scope, HERE, ANN) == []


async def test_a_conversation_that_leaves_memory_aside_has_a_scope_without_it(
    database: Database, erasures: Erasures, settings_of: Callable[..., Settings], now: Any
) -> None:
    settings = settings_of()
    homes = Homes(root=settings.home / "homes", settings=settings.memory)
    scopes = Scopes(settings, homes, Access(database, settings, now), database)
    here, topic, principal = Address.parse(HERE), Address.parse(f"{HERE}/7"), "person:telegram:42"
    scope = await scopes.of(here, principal)
    for _ in range(2):
        await erasures.ignore(scope, HERE)
    assert [(await scopes.of(place, principal)).enabled for place in (here, topic)] == [False, True]
    assert (await scopes.of(here, "person:telegram:43")).enabled
    for _ in range(2):
        await erasures.heed(scope, HERE)
    assert (await scopes.of(here, principal)).enabled


async def test_leaving_memory_aside_ends_the_session_both_ways_and_passes_over_what_was_said(
    database: Database, history: History, erasures: Erasures, scope: Scope, now: Any
) -> None:
    before = await turn(database, history, scope, "before")
    now.forward(1)
    await erasures.ignore(scope, HERE)
    assert await history.due() == []
    assert await history.open_session(scope, HERE) is None
    now.forward(1)
    aside = await turn(database, history, replace(scope, enabled=False), "aside", inbox_id=2)
    assert aside.id != before.id
    await erasures.heed(scope, HERE)
    assert await history.open_session(scope, HERE) is None
    assert await history.due() == [before.id]
    assert await waiting(database) == 1
    async with database.read() as session:
        cursors = {row.id: row.extracted_to for row in (await session.scalars(select(SessionRow))).all()}
    assert cursors == {before.id: 0, aside.id: 6}


async def test_two_who_erase_at_once_do_not_hinder_each_other(
    database: Database, history: History, erasures: Erasures, scope: Scope
) -> None:
    await turn(database, history, scope, "my zebra")
    await asyncio.gather(*(erasures.erase(scope, messages=[1], what=FORGOTTEN) for _ in range(3)))
    assert await said_today(history, scope) == ["ah"]


async def test_what_is_being_forgotten_counts_as_forgotten_just_now_until_it_is_and_not_for_ever(
    database: Database, erasures: Erasures, scope: Scope, now: Any
) -> None:
    provenance = Provenance(database)
    await erasures.begin(scope, messages=[], what=FORGOTTEN)
    now.forward(AT_LONGEST / 2)
    assert await provenance.erased_since(scope, now())
    assert await erasures.since(scope, now())
    assert await erasures.unfinished(scope) == FORGOTTEN.hashes
    now.forward(AT_LONGEST)  # whoever did so was killed, and nobody came
    assert not await provenance.erased_since(scope, now())
    assert await erasures.unfinished(scope) == FORGOTTEN.hashes
    await erasures.end(scope)
    assert await provenance.erased_since(scope, now())
    now.forward(1)
    assert not await provenance.erased_since(scope, now())
    assert await erasures.unfinished(scope) == frozenset()


@pytest.mark.parametrize("stays", [True, False])
async def test_who_said_it_is_known_until_it_is_forgotten_in_all_chats_of_the_team(
    database: Database, history: History, erasures: Erasures, make_scope: Callable[..., Scope], stays: bool
) -> None:
    provenance, (fact,) = Provenance(database), FORGOTTEN.texts
    group, other = make_scope("chat:telegram:-1", project="garden"), make_scope("chat:telegram:-2", project="garden")
    source = Spoken(message_id=0, account=str(BOB), speaker="Bob", text=fact, at=datetime.now(UTC))
    for scope in (group, other):
        witness = Witness()
        await witness(scope, scope.memory_dir / "team/pets.md", before="", after=f"- {fact}")
        await provenance.record(scope, witness, [source])
    await history.start_session(other, "telegram:-2", system=[], today="2026-05-01")
    await erasures.begin(group, messages=[], what=FORGOTTEN, team=FORGOTTEN)
    assert all([await provenance.sources(each, FORGOTTEN.hashes) for each in (group, other)])
    await erasures.end(group, stays=FORGOTTEN.hashes if stays else ())
    assert [bool(await provenance.sources(each, FORGOTTEN.hashes)) for each in (group, other)] == [stays, stays]


async def test_nothing_in_what_came_in_tells_it_any_more(
    *, database: Database, history: History, erasures: Erasures, scope: Scope, inbox: Inbox, said: Any, now: Any
) -> None:
    zebra = "Ann keeps a zebra"
    await inbox.add(replace(said(zebra), more_may_follow=True), principal=scope.principal)
    await inbox.add(said("and tea"), principal=scope.principal)
    now.forward(GATHER_SECONDS)
    await inbox.add(replace(said("why?"), quoted=Quoted(name="Bob", text=zebra)), principal=scope.principal)
    named = Attachment(kind="document", name=f"{zebra}.txt")
    await inbox.add(replace(said("/help"), attachments=(named,)), principal=scope.principal)
    await turn(database, history, scope, f"{zebra}\nand tea", inbox_id=1)
    await turn(database, history, scope, "why?", inbox_id=3)
    async with database.write() as session:
        await session.execute(update(InboxRow).values(state="done"))
    await erasures.erase(scope, messages=[1, 2, 3], what=FORGOTTEN)
    async with database.read() as session:
        left = (await session.scalars(select(InboxRow.payload))).all()
    assert [each for each in left if "zebra" in str(each)] == []


async def test_of_a_turn_that_may_have_read_it_nothing_that_came_in_is_kept(
    *, database: Database, history: History, erasures: Erasures, scope: Scope, inbox: Inbox, said: Any
) -> None:
    asked = replace(said("which animal?"), quoted=Quoted(name="Bob", text="Ann keeps a zebra"))
    await inbox.add(asked, principal=scope.principal)
    session = await history.start_session(scope, HERE, system=[], today="2026-05-01")
    await erasures.erase(scope, messages=[], what=FORGOTTEN)
    line = Line(role="user", content=text("which animal?"), said="which animal?")
    turned = Turned(
        lines=[line], recalled=(), rules=(), written=(), told_date="2026-05-01", told_notes_at=0.0, inbox_id=1
    )
    async with database.write() as transaction:
        await history.add_turn(transaction, session, turned)
        (left,) = (await transaction.scalars(select(InboxRow.payload))).all()
    assert (left["text"], "zebra" in str(left)) == ("", False)
