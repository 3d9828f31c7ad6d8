"""What waits for a person's word: kept with the tool call, asked of once, shared as it was shown or not at all."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from adapters.base import Account, Address
from gateway.buttons import Buttons, Choice
from gateway.db.engine import Database
from gateway.db.models import ButtonRow, OutboxRow
from gateway.db.staged import drop_all_staged, drop_staged
from gateway.db.team_models import StagedRow
from gateway.outbox import Outbox
from gateway.previews import fenced, preview, question
from gateway.provenance import Provenance
from gateway.publishing import Answered, Publishing
from gateway.staging import Origin, Staged, Staging
from gateway.team_writes import TeamWrites
from gateway.tools.toolbox import Toolbox
from memory.authorship import byline
from memory.doubles import LocalLeases
from memory.errors import LeaseLost, WriteRefused
from memory.notes import Notes
from memory.ports import Rights
from memory.provenance import Witness, fact_hash
from memory.scope import Scope
from memory.settings import MemorySettings
from memory.team_notes import TeamNotes
from tests.unit.gateway.counted import asked_of

FISH = "---\nname: Fish\ndescription: its habits\ntype: project\n---\n\nIt is shy.\n"
LINE = "- [Fish](fish.md) — what swims"


class World:
    """Ann's private chat, with a team, on a real database."""

    def __init__(self, scope: Scope, database: Database, now: Any) -> None:
        self.scope, self.database, self.now = scope, database, now
        assert scope.team_dir is not None
        self.team = scope.team_dir
        self.staging = Staging(database, now)
        self.notes = TeamNotes(leases=LocalLeases())
        self.provenance = Provenance(database)

    def box(self, run: str = "turn:1") -> Toolbox:
        ann = Account(platform="telegram", user="42")
        by = byline(account=str(ann), name="Ann", chat="private", message="17", at=self.now())
        origin = Origin(run=run, conversation="telegram:42", account=ann, speaker="Ann", message_id=7)
        drafts = self.notes.signed(lambda before, after: [by]).staged(
            self.staging.shelf(self.scope, origin), watch=Witness()
        )
        rights = Rights(read=(self.scope.memory_dir,), write=(self.scope.memory_dir,))
        return Toolbox(self.scope, rights, self.notes, self.now, drafts=drafts)

    async def settled(self, run: str = "turn:1") -> list[Staged]:
        async with self.database.write() as session:
            return await self.staging.settle(session, self.scope, run)

    def publishing(self, notes: Notes | None = None, staging: Staging | None = None) -> Publishing:
        # Nothing here is told to a server.
        return Publishing(staging or self.staging, notes or self.notes, self.provenance, None, self.now)  # type: ignore[arg-type]

    async def share(self, number: int) -> Answered:
        return await self.publishing().share(self.scope, number)

    def files(self) -> list[str]:
        return sorted(path.relative_to(self.team).as_posix() for path in self.team.rglob("*.md"))


@pytest.fixture
def world(make_scope: Callable[..., Scope], database: Database, now: Any) -> World:
    scope = make_scope()
    team = scope.memory_dir / "team"
    team.mkdir()
    return World(replace(scope, team_dir=team, repo="garden"), database, now)


async def ok(box: Toolbox, tool: str, **given: Any) -> str:
    result = await box.call(tool, given)
    assert not result.is_error, result.content
    return str(result.content)


async def fault(box: Toolbox, tool: str, **given: Any) -> str:
    result = await box.call(tool, given)
    assert result.is_error, result.content
    return str(result.content)


async def fish(box: Toolbox, text: str = FISH) -> None:
    await ok(box, "write", file_path="team/fish.md", content=text)
    await ok(box, "append", file_path="team/MEMORY.md", content=LINE)


async def test_a_staged_write_says_so_touches_nothing_and_counts_as_no_write(world: World) -> None:
    box = world.box()
    said = await ok(box, "write", file_path="team/fish.md", content=FISH)
    assert "staged, not shared" in said
    assert (world.files(), box.written) == ([], ())


async def test_the_model_reads_its_own_staged_text_and_goes_on_from_there(world: World) -> None:
    box = world.box()
    await fish(box)
    await ok(box, "edit", file_path="team/fish.md", old_string="It is shy.", new_string="It is bold.")
    read = await ok(box, "read", file_path="team/fish.md")
    assert read.startswith("(As the file would be once the person confirms")
    assert "It is bold." in read
    (one,) = await world.settled()
    assert (one.number, one.name, one.pointer) == (1, "fish.md", LINE)
    assert "It is bold." in str(one.text)


async def test_a_note_and_its_line_are_one_change_in_whichever_order_they_came(world: World) -> None:
    box = world.box()
    (world.team / "MEMORY.md").write_text("- [Beds](beds.md)\n")
    (world.team / "beds.md").write_text("tomatoes")
    await ok(box, "append", file_path="team/MEMORY.md", content=LINE)
    await ok(box, "write", file_path="team/fish.md", content=FISH)
    (one,) = await world.settled()
    assert (one.name, one.pointer) == ("fish.md", LINE)
    (world.team / "MEMORY.md").write_text("- [Beds](beds.md)\n- [Bees](beds.md)\n")
    assert (await world.share(1)).told == "Shared."
    assert (world.team / "MEMORY.md").read_text() == f"- [Beds](beds.md)\n- [Bees](beds.md)\n{LINE}\n"


async def test_a_line_without_its_note_is_a_change_of_its_own(world: World) -> None:
    (world.team / "MEMORY.md").write_text("- [Beds](beds.md)\n")
    (world.team / "beds.md").write_text("tomatoes")
    box = world.box()
    await ok(box, "edit", file_path="team/MEMORY.md", old_string="[Beds]", new_string="[Garden beds]")
    await fish(box)
    one, two = sorted(await world.settled(), key=lambda each: each.name)
    assert (one.name, two.name) == ("MEMORY.md", "fish.md")
    await world.share(two.number)
    assert (world.team / "MEMORY.md").read_text() == f"- [Beds](beds.md)\n{LINE}\n"
    await world.share(one.number)
    assert (world.team / "MEMORY.md").read_text() == f"- [Garden beds](beds.md)\n{LINE}\n"


async def test_a_number_stands_for_what_was_shown_under_it(world: World) -> None:
    await fish(world.box())
    await world.settled()
    await ok(world.box("turn:2"), "edit", file_path="team/fish.md", old_string="shy.", new_string="bold.")
    (newer,) = await world.settled("turn:2")
    assert (newer.number, newer.pointer) == (2, LINE)
    assert "number 2 has taken its place" in (await world.share(1)).told
    assert world.files() == []
    await world.share(2)
    assert "It is bold." in (world.team / "fish.md").read_text()


async def test_the_same_once_more_is_not_asked_again_and_what_is_taken_back_is_not_asked_at_all(world: World) -> None:
    await fish(world.box())
    await world.settled()
    again = world.box("extract:1:2")
    await ok(again, "read", file_path="team/fish.md")
    await ok(again, "write", file_path="team/fish.md", content=FISH)
    assert await world.settled("extract:1:2") == []
    await ok(again, "delete", file_path="team/fish.md")
    assert await world.settled("extract:1:2") == []
    assert "taken back" in (await world.share(1)).told


async def test_a_draft_of_a_run_that_never_ended_is_asked_of_later_and_one_under_way_is_not(world: World) -> None:
    await fish(world.box("turn:1"))
    assert await world.settled("turn:2") == []
    world.now.forward(3700)
    assert [each.name for each in await world.settled("turn:2")] == ["fish.md"]


async def test_a_deletion_waits_too_and_takes_its_line_along(world: World) -> None:
    await fish(world.box())
    await world.settled()
    await world.share(1)
    box = world.box("turn:2")
    await ok(box, "delete", file_path="team/fish.md")
    assert "its deletion waits" in (await fault(box, "read", file_path="team/fish.md")).replace(
        "the deletion of this file", "its deletion"
    )
    (one,) = await world.settled("turn:2")
    assert one.text is None
    assert "-It is shy." in preview(one)
    await world.share(one.number)
    assert world.files() == ["MEMORY.md"]
    assert LINE not in (world.team / "MEMORY.md").read_text()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"file_path": "team/key.md", "content": f"{FISH}ghp_{'a1B2' * 9}\n"}, "secret"),
        ({"file_path": "team/../../fish.md", "content": FISH}, "outside"),
        ({"file_path": "team/fish.txt", "content": FISH}, ".md"),
        ({"file_path": "team/there.md", "content": FISH}, "read it first"),
    ],
)
async def test_what_a_direct_write_refuses_is_refused_when_it_is_staged(
    world: World, given: dict[str, str], why: str
) -> None:
    (world.team / "there.md").write_text("It is there.")
    assert why in await fault(world.box(), "write", **given)
    assert await world.settled() == []


async def test_a_link_that_leads_out_of_the_team_is_refused_when_it_is_shared(world: World) -> None:
    await ok(world.box(), "write", file_path="team/sub/fish.md", content=FISH)
    (one,) = await world.settled()
    outside = world.scope.memory_dir / "private"
    outside.mkdir()
    (world.team / "sub").symlink_to(outside)
    assert "can't be shared" in (await world.share(one.number)).told
    assert list(outside.iterdir()) == []


class Breaking(TeamNotes):
    """Notes that stop at the n-th write."""

    def __init__(self, at: int, error: BaseException) -> None:
        super().__init__(leases=LocalLeases())
        self.at, self.error = at, error

    async def write(self, scope: Scope, path: Path, text: str, *, expected: str | None) -> Any:
        self.at -= 1
        if self.at == 0:
            raise self.error
        return await super().write(scope, path, text, expected=expected)


class Cut(BaseException):
    """The process dies."""


@pytest.mark.parametrize("at", [1, 2])
async def test_killed_between_the_yes_and_the_writes_the_same_yes_does_the_rest(world: World, at: int) -> None:
    await fish(world.box())
    await world.settled()
    with pytest.raises(Cut):
        await world.publishing(Breaking(at, Cut())).share(world.scope, 1)
    assert (await world.share(1)).told == "Shared."
    assert world.files() == ["MEMORY.md", "fish.md"]
    assert (world.team / "MEMORY.md").read_text() == f"{LINE}\n"
    assert "it was shared" in (await world.share(1)).told


async def test_killed_before_the_yes_was_noted_nothing_is_doubled(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dies(*_: object) -> bool:
        raise Cut

    await fish(world.box())
    await world.settled()
    with monkeypatch.context() as patch:
        patch.setattr(Staging, "close", dies)
        with pytest.raises(Cut):
            await world.share(1)
    before = (world.team / "fish.md").stat().st_mtime_ns
    assert (await world.share(1)).told == "Shared."
    assert (world.team / "fish.md").stat().st_mtime_ns == before


async def test_note_and_line_go_together_or_not_at_all(world: World) -> None:
    await fish(world.box())
    await world.settled()
    refused = await world.publishing(Breaking(2, WriteRefused("the index is read-only"))).share(world.scope, 1)
    assert "It still waits" in refused.told
    assert world.files() == []
    busy = await world.publishing(Breaking(1, LeaseLost("busy"))).share(world.scope, 1)
    assert "say it again" in busy.told
    assert (await world.share(1)).told == "Shared."


async def test_the_person_who_has_shared_a_fact_is_its_source(world: World) -> None:
    await fish(world.box())
    await world.settled()
    await world.share(1)
    sources = await world.provenance.sources(world.scope, [fact_hash("It is shy.")])
    assert [(each.account, each.message_id) for each in sources[fact_hash("It is shy.")]] == [("telegram:42", 7)]


async def test_what_is_forgotten_waits_no_more_and_its_text_is_gone(world: World) -> None:
    await fish(world.box())
    await world.settled()
    await ok(world.box("turn:2"), "write", file_path="team/bees.md", content=FISH.replace("shy", "loud"))
    await world.settled("turn:2")
    async with world.database.write() as session:
        await drop_staged(session, world.scope.principal, "tea", lambda text: "shy" in text)
    assert [each.name for each in await world.staging.pending(world.scope)] == ["bees.md"]
    async with world.database.read() as session:
        rows = (await session.scalars(select(StagedRow).where(StagedRow.number == 1))).all()
    assert [(row.name, row.body, row.base) for row in rows] == [("", "", None)]
    async with world.database.write() as session:
        await drop_all_staged(session, world.scope.principal)
    assert await world.staging.pending(world.scope) == []


async def test_a_turn_that_is_run_again_means_what_waited_when_it_was_first_run(world: World) -> None:
    await fish(world.box())
    await world.settled()
    assert await world.staging.all_for(world.scope, "turn:2") == [1]
    await world.share(1)
    await ok(world.box("extraction:1"), "write", file_path="team/frog.md", content=FISH)
    assert [each.number for each in await world.settled("extraction:1")] == [2]
    assert await world.staging.all_for(world.scope, "turn:2") == [1], "also what is done, and nothing that came since"
    assert await world.staging.all_for(world.scope, "turn:3") == [2]


async def test_what_was_put_anew_by_a_yes_to_all_is_not_shared_unseen_when_that_is_run_again(world: World) -> None:
    await fish(world.box())
    await world.settled()
    [number] = await world.staging.all_for(world.scope, "turn:2")
    (world.team / "fish.md").write_text(FISH.replace("shy", "bold"))
    answered = await world.share(number)
    assert answered.anew is not None
    assert answered.anew.number not in await world.staging.all_for(world.scope, "turn:2")
    assert answered.anew.number in await world.staging.all_for(world.scope, "turn:3")


async def test_only_the_same_memory_sees_it(world: World) -> None:
    await fish(world.box())
    await world.settled()
    other = replace(world.scope, principal="person:telegram:43")
    assert await world.staging.pending(other) == []
    assert "nothing with this number" in (await world.publishing().share(other, 1)).told


async def test_it_waits_for_thirty_days(world: World) -> None:
    await fish(world.box())
    await world.settled()
    world.now.forward(29 * 86_400)
    assert len(await world.staging.pending(world.scope)) == 1
    world.now.forward(2 * 86_400)
    assert await world.staging.pending(world.scope) == []


async def test_a_preview_is_bounded_and_nothing_in_it_ends_its_fence(world: World) -> None:
    await ok(world.box(), "write", file_path="team/long.md", content=FISH + "```\n# a `line`\n" * 500)
    (one,) = await world.settled()
    shown = question([one], project="garden")
    assert len(shown) < 4000
    assert "more lines: /team show 1" in shown
    assert shown.count("````") == 2
    assert fenced(["a", "````"], "diff").splitlines()[0] == "`````diff"


async def test_the_question_of_a_turn_that_only_its_sender_sees_is_for_them_alone(world: World, outbox: Outbox) -> None:
    await ok(world.box(), "write", file_path="team/fish.md", content=FISH)
    buttons, ann = Buttons(world.database, world.now), Account(platform="telegram", user="42")
    writes = TeamWrites(world.notes, world.staging, world.database, outbox, MemorySettings(), buttons=buttons)
    async with world.database.write() as session:
        await writes.ask(session, world.scope, "telegram:42", run="turn:1", key="1-team", only_for=ann)
    async with world.database.read() as session:
        [row] = (await session.scalars(select(OutboxRow))).all()
        alone = (await session.scalars(select(ButtonRow.alone))).all()
    assert row.only_for == str(ann)
    assert all(alone)


async def test_a_run_that_staged_nothing_asks_the_database_for_next_to_nothing(
    world: World, outbox: Outbox, make_scope: Callable[..., Scope]
) -> None:
    settings = MemorySettings()
    writes = TeamWrites(
        world.notes, world.staging, world.database, outbox, settings, buttons=Buttons(world.database, world.now)
    )
    places = [world.scope, make_scope("chat:telegram:-100", shared=True), replace(world.scope, team_dir=None)]
    counts = []
    for scope in places:
        async with world.database.write() as session:
            with asked_of(world.database) as asked:
                await writes.ask(session, scope, "telegram:42", run="turn:1", key="1-team")
        counts.append(len(asked.statements))
    assert counts == [1, 0, 0]
    assert not any("body" in each for each in asked.statements)


async def test_with_all_that_was_staged_the_buttons_go_as_numbers_begin_at_1_again(world: World) -> None:
    mine, theirs = world.scope.principal, "person:telegram:43"
    for principal in (mine, theirs):
        offer = Buttons(world.database, world.now).offer(
            [Choice(label="Yes", says="/team yes 1")],
            principal=principal,
            conversation=Address(platform="telegram", chat="42"),
            accounts=[],
        )
        async with world.database.write() as session:
            offer.keep(session)
    async with world.database.write() as session:
        await drop_all_staged(session, mine)
        assert (await session.scalars(select(ButtonRow.principal))).all() == [theirs]
