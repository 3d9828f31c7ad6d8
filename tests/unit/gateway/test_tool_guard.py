from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from adapters.base import Account
from gateway.tools.guard import AuthorGuard, Removals, TurnWitness, author_guard
from gateway.tools.toolbox import Toolbox
from memory.doubles import LocalLeases
from memory.errors import WriteRefused
from memory.notes import Notes
from memory.ports import Rights
from memory.provenance import Source, Spoken, fact_hash
from memory.scope import Scope

ANN, BOB, EVE = "telegram:42", "telegram:43", "telegram:44"
DEADLINE, ROOM, LOOSE = "The deadline is Friday (Ann)", "The room is blue (Bob)", "The tap drips"
SAID = {DEADLINE: (ANN,), ROOM: (BOB,)}


async def sources(_: Scope, hashes: Iterable[str]) -> Mapping[str, Sequence[Source]]:
    at = datetime(2026, 5, 1, tzinfo=UTC)
    known = {fact_hash(fact): accounts for fact, accounts in SAID.items()}
    return {
        each: tuple(Source(account=account, speaker="", message_id=None, at=at) for account in known[each])
        for each in hashes
        if each in known
    }


class Chat:
    """A shared chat's memory with a note of three facts, and the tools of runs there."""

    def __init__(self, scope: Scope, now: Any) -> None:
        self.scope = scope
        self.now = now
        self.note = scope.memory_dir / "plan.md"
        self.note.write_text(f"- {DEADLINE}\n- {ROOM}\n- {LOOSE}\n")
        scope.index.write_text("- [Plan](plan.md): what is planned\n")

    def box(self, *speakers: str, owners: Collection[str] = ()) -> Toolbox:
        owning = [Account(platform="telegram", user=owner.partition(":")[2]) for owner in owners]
        guard = author_guard(self.scope, sources, speakers=speakers, owners=owning)
        rights = Rights(read=self.scope.readable, write=self.scope.writable)
        return Toolbox(self.scope, rights, Notes(leases=LocalLeases()), self.now, guard=guard)

    async def take_out(self, box: Toolbox, fact: str, *, into: str = "", note: str = "plan.md") -> str:
        """Take a fact out of a note, and return why that was refused, "" if it was not."""
        given = {"file_path": note, "old_string": f"- {fact}\n", "new_string": into}
        result = await box.call("edit", given)
        return str(result.content) if result.is_error else ""


@pytest.fixture
def chat(make_scope: Callable[..., Scope], now: Any) -> Chat:
    return Chat(make_scope("chat:telegram:-100", shared=True), now)


async def done(box: Toolbox, tool: str, **given: Any) -> None:
    result = await box.call(tool, given)
    assert not result.is_error, result.content


async def refused(box: Toolbox, tool: str, **given: Any) -> None:
    result = await box.call(tool, given)
    assert result.is_error
    assert "only who said it, or an owner" in str(result.content)


async def test_nobody_takes_out_what_another_said_by_any_tool(chat: Chat) -> None:
    box, before = chat.box(BOB), chat.note.read_text()
    await done(box, "read", file_path="plan.md")
    await refused(box, "delete", file_path="plan.md")
    await refused(box, "write", file_path="plan.md", content=f"- {ROOM}\n- {LOOSE}\n")
    await refused(box, "edit", file_path="plan.md", old_string="Friday", new_string="Monday")
    await refused(box, "edit", file_path="plan.md", old_string=f"- {DEADLINE}", new_string=f"# {DEADLINE}")
    await refused(box, "edit", file_path="plan.md", old_string=DEADLINE, new_string=f"<!-- {DEADLINE} -->")
    assert chat.note.read_text() == before
    assert "plan.md" in chat.scope.index.read_text()
    assert box.written == ()


async def test_the_refusal_says_who_may_do_it_and_how(chat: Chat) -> None:
    reason = await chat.take_out(chat.box(BOB), DEADLINE)
    assert DEADLINE in reason
    assert "`/forget`" in reason
    assert "a correction goes beside it" in reason


async def test_who_said_it_and_an_owner_take_it_out_and_word_it_anew(chat: Chat) -> None:
    assert await chat.take_out(chat.box(BOB), ROOM, into="- The room is red (Bob)\n") == ""
    assert await chat.take_out(chat.box(ANN), DEADLINE) == ""
    await done(chat.box(EVE, owners=[EVE]), "delete", file_path="plan.md")
    assert not chat.note.exists()


async def test_what_nobody_is_known_to_have_said_only_an_owner_takes_out(chat: Chat) -> None:
    assert await chat.take_out(chat.box(ANN), LOOSE)
    assert await chat.take_out(chat.box(), LOOSE)
    assert await chat.take_out(chat.box(EVE, owners=[EVE]), LOOSE) == ""


async def test_a_run_on_the_words_of_several_has_the_rights_that_all_of_them_have(chat: Chat) -> None:
    assert await chat.take_out(chat.box(ANN, BOB), DEADLINE)
    assert await chat.take_out(chat.box(BOB, EVE, owners=[EVE]), DEADLINE)
    assert await chat.take_out(chat.box(ANN, EVE, owners=[EVE]), DEADLINE) == ""


async def test_what_is_added_or_noted_beside_it_needs_nobodys_leave(chat: Chat) -> None:
    box = chat.box(BOB)
    await done(box, "append", file_path="plan.md", content="- No, it is Monday (Bob)\n")
    await done(box, "write", file_path="new.md", content="- It rains\n")
    await done(box, "edit", file_path="MEMORY.md", old_string="what is planned", new_string="plans")
    await done(box, "delete", file_path="new.md")  # of its own making
    assert chat.note.read_text().endswith("- No, it is Monday (Bob)\n")


@pytest.mark.parametrize("fact", [DEADLINE, LOOSE])
async def test_a_fact_moves_to_another_note_and_its_last_copy_stays(chat: Chat, fact: str) -> None:
    box = chat.box(BOB)
    await done(box, "write", file_path="new.md", content=f"- {fact}\n")
    assert await chat.take_out(box, fact) == ""
    await refused(box, "delete", file_path="new.md")
    await refused(chat.box(BOB), "delete", file_path="new.md")


async def test_a_copy_in_a_day_log_or_an_index_is_no_place_to_have_moved_to(chat: Chat) -> None:
    log = chat.scope.memory_dir / "logs" / "2026" / "05" / "2026-05-01.md"
    log.parent.mkdir(parents=True)
    for file in (log, chat.scope.index):
        file.write_text(f"- {DEADLINE}\n")
    assert await chat.take_out(chat.box(BOB), DEADLINE)


async def test_a_fact_may_go_to_the_team_and_does_not_leave_it_for_this_chat_alone(chat: Chat) -> None:
    team = chat.scope.memory_dir / "team"
    team.mkdir()
    (team / "plan.md").write_text(f"- {DEADLINE}\n")
    chat.scope = replace(chat.scope, team_dir=team, writable=(*chat.scope.writable, team))
    assert await chat.take_out(chat.box(BOB), DEADLINE, note="team/plan.md")
    assert await chat.take_out(chat.box(BOB), DEADLINE) == ""


async def test_a_note_that_is_its_description_goes_by_nobodys_word_but_an_owners(chat: Chat) -> None:
    (chat.scope.memory_dir / "a.md").write_text("---\nname: a\ndescription: The lamp is broken\n---\n")
    await refused(chat.box(BOB), "delete", file_path="a.md")
    await done(chat.box(BOB), "append", file_path="a.md", content="\n- It is fixed\n")


async def test_a_description_that_was_a_fact_is_guarded_also_behind_others(chat: Chat) -> None:
    (chat.scope.memory_dir / "a.md").write_text("---\nname: a\ndescription: The lamp is broken\n---\n")
    box = chat.box(BOB)
    await refused(box, "edit", file_path="a.md", old_string="broken", new_string="fine")
    await done(box, "append", file_path="a.md", content="\n- It is fixed\n")
    await refused(box, "edit", file_path="a.md", old_string="broken", new_string="fine")
    (chat.scope.memory_dir / "b.md").write_text(f"---\ndescription: {DEADLINE}\n---\n- It rains\n")
    chat.note.unlink()
    await refused(box, "edit", file_path="b.md", old_string=DEADLINE, new_string="rain")
    await done(chat.box(ANN), "edit", file_path="b.md", old_string=DEADLINE, new_string="rain")


async def test_a_line_of_an_index_that_is_no_pointer_is_its_authors(chat: Chat) -> None:
    chat.note.unlink()
    chat.scope.index.write_text(f"- {DEADLINE}\n- [Plan](plan.md): what is planned\n")
    assert await chat.take_out(chat.box(BOB), DEADLINE, note="MEMORY.md")
    await done(chat.box(BOB), "edit", file_path="MEMORY.md", old_string="what is planned", new_string="plans")
    assert await chat.take_out(chat.box(ANN), DEADLINE, note="MEMORY.md") == ""


async def test_of_a_fact_that_stands_twice_in_a_note_one_may_go(chat: Chat) -> None:
    chat.note.write_text(f"- {DEADLINE}\n- It dries\n- {DEADLINE}\n")
    await done(chat.box(BOB), "edit", file_path="plan.md", old_string=f"dries\n- {DEADLINE}\n", new_string="dries\n")


async def test_a_pointer_without_a_file_is_cleared_by_anyone(chat: Chat) -> None:
    chat.note.unlink()
    await done(chat.box(BOB), "delete", file_path="plan.md")
    assert "plan.md" not in chat.scope.index.read_text()


async def test_what_a_sub_agent_keeps_elsewhere_is_its_own_to_word_anew(chat: Chat, tmp_path_factory: Any) -> None:
    own = tmp_path_factory.mktemp("agent")
    (own / "beds.md").write_text(f"- {LOOSE}\n")
    agent = replace(chat.scope, memory_dir=own, team_dir=None, readable=(own,), writable=(own,))
    guard = author_guard(chat.scope, sources, speakers=[BOB], owners=())
    box = Toolbox(agent, Rights(read=(own,), write=(own,)), Notes(leases=LocalLeases()), chat.now, guard=guard)
    assert await chat.take_out(box, LOOSE, note="beds.md") == ""
    assert (own / "beds.md").read_text() == ""


def test_there_is_no_guard_in_a_private_chat_nor_for_an_owner(make_scope: Callable[..., Scope]) -> None:
    owner = Account(platform="telegram", user="42")
    shared = make_scope("chat:telegram:-100", shared=True)
    assert author_guard(make_scope(), sources, speakers=[BOB], owners=[]) is None
    assert author_guard(shared, sources, speakers=[ANN], owners=[owner]) is None
    assert isinstance(author_guard(shared, sources, speakers=[], owners=[owner]), AuthorGuard)


class Forgotten:
    """Keeps what was recorded, and whether the note stood then."""

    def __init__(self) -> None:
        self.hashes: list[str] = []
        self.still_there = True

    async def __call__(self, scope: Scope, hashes: Collection[str]) -> None:
        self.hashes += hashes
        self.still_there &= all((scope.memory_dir / name).exists() for name in ("plan.md", "MEMORY.md"))


@pytest.fixture
def forgotten() -> Forgotten:
    return Forgotten()


@pytest.fixture
def private(make_scope: Callable[..., Scope], now: Any, forgotten: Forgotten) -> Toolbox:
    """The tools of a turn in a private chat, of which what it forgets is recorded."""
    scope = make_scope()
    Chat(scope, now)
    rights = Rights(read=scope.readable, write=scope.writable)
    return Toolbox(scope, rights, Notes(leases=LocalLeases()), now, watches=[Removals(forgotten)])


async def test_facts_that_are_deleted_are_recorded_before_they_go(private: Toolbox, forgotten: Forgotten) -> None:
    result = await private.call("delete", {"file_path": "plan.md"})
    assert "`/forget`" in str(result.content)
    assert sorted(forgotten.hashes) == sorted(map(fact_hash, (DEADLINE, ROOM, LOOSE)))
    assert forgotten.still_there


async def test_a_fact_that_is_cut_out_is_recorded_and_one_that_is_corrected_is_not(
    private: Toolbox, forgotten: Forgotten
) -> None:
    await done(private, "edit", file_path="plan.md", old_string=f"- {ROOM}\n", new_string="")
    await done(private, "edit", file_path="plan.md", old_string=DEADLINE, new_string="The launch was called off")
    await done(private, "append", file_path="plan.md", content="- It rains\n")
    await done(private, "edit", file_path="MEMORY.md", old_string="- [Plan](plan.md): what is planned\n", new_string="")
    assert forgotten.hashes == [fact_hash(ROOM)]


async def test_what_stands_in_another_note_is_not_forgotten(private: Toolbox, forgotten: Forgotten) -> None:
    await done(private, "write", file_path="new.md", content=f"- {ROOM}\n- {DEADLINE}\n")
    await done(private, "delete", file_path="plan.md")
    assert forgotten.hashes == [fact_hash(LOOSE)]


def said(account: str, speaker: str, text: str) -> Spoken:
    return Spoken(message_id=1, account=account, speaker=speaker, text=text, at=datetime(2026, 5, 1, tzinfo=UTC))


SAW = said(ANN, "Ann Lee", "The shed has a leak in its roof")
ASKED = said(BOB, "Bob", "Put our notes about the shed in order")


async def notes(chat: Chat, before: str, after: str, *heard: Spoken) -> bool:
    """Let the turn that answers the last of what was said make a change of a note; return whether it may."""

    async def hears() -> Sequence[Spoken]:
        return heard

    try:
        await TurnWitness(hears, sources)(chat.scope, chat.note.with_name("shed.md"), before=before, after=after)
    except WriteRefused:
        return False
    return True


@pytest.mark.parametrize(
    ("before", "after", "may"),
    [
        ("", "- The roof of the shed has a leak (Ann, 2026-05-01)", True),  # what she said
        ("", "- The shed is sold (Ann, 2026-05-01)", False),
        ("", "- 12:00 Ann: The shed is sold", False),  # as in a log
        ("", "- The shed is sold (Carl, 2026-05-01)", False),  # of whom nothing is known
        ("", "- The shed is sold (Ann and Bob, 2026-05-01)", False),
        ("", "- The shed is sold (Bob, 2026-05-01)", True),  # the turn answers him
        ("", "- The shed is sold (2026-05-01)", True),
        ("- The tap drips (Carl, 2026-05-01)", "- The kitchen tap drips (Carl, 2026-05-01)", True),
        ("- The tap drips (Carl, 2026-05-01)", "- The tap is sold (Carl, 2026-05-01)", False),
    ],
)
async def test_a_turn_names_as_who_said_it_whom_it_answers_or_who_is_known_to_have(
    chat: Chat, before: str, after: str, may: bool
) -> None:
    assert await notes(chat, before, after, SAW, ASKED) == may


async def test_a_fact_that_stands_in_a_note_already_keeps_its_name_in_another(chat: Chat) -> None:
    fact = "- The boat is blue (Carl, 2026-05-01)"
    assert not await notes(chat, "", fact, ASKED)
    chat.note.write_text(f"{fact}\n")
    assert await notes(chat, "", fact, ASKED)


async def test_in_a_private_chat_a_name_behind_a_fact_is_nobodys_business(chat: Chat) -> None:
    chat.scope = replace(chat.scope, shared=False)
    assert await notes(chat, "", "- The shed is sold (Carl, 2026-05-01)", ASKED)
