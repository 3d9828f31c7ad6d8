"""Bad dreams are refused or aborted and leave no trace, be the memory a person's or a shared chat's."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from gateway.db.models import FactRow
from gateway.llm.standin.answers import Answer, Failure, Flaw, ToolCall
from gateway.llm.standin.server import Scripted
from memory.provenance import fact_hash
from memory.scope import Scope
from memory.stamp import NAME
from scheduler.runs import Outcome
from tests.acceptance.soundness import unsound
from tests.acceptance.test_check_20 import AWAKE, dreams, dreamt, improved, is_dream, tick
from tests.acceptance.whole import ANN, BOB, Clock, Speaker, Whole, calls, whole

ANN_IN_G = Speaker(user="42", chat="-100")
BOB_IN_G = Speaker(user="43", chat="-100", name="Bob")
SETTINGS = AWAKE + "[memory]\ndream_min_sittings = 1\ndream_max_turns = 8\n"
FACTS = {
    "tea": "Prefers green tea in the early morning",
    "train": "Takes the late train home on Fridays",
    "nuts": "Is allergic to peanuts and cashews",
    "kiel": "Lives near the harbour of Kiel",
    "bees": "Keeps three hives behind the house",
    "choir": "Sings in a choir every other week",
    "boat": "Paints an old wooden boat in spring",
    "piano": "Learns the piano from a neighbour",
    "chess": "Plays chess by letter with an uncle",
    "bread": "Bakes rye bread for the whole street",
}
BOBS = {"choir", "boat", "piano"}


@dataclass(frozen=True, kw_only=True)
class Asleep:
    """A chat whose memory is about to be put in order."""

    running: Whole
    who: Speaker
    scope: Scope

    @property
    def memory(self) -> Path:
        return self.scope.memory_dir

    def note(self, name: str, *facts: str) -> tuple[str, dict[str, Any]]:
        """Return the call that makes a note of these facts."""
        lines = "".join(f"- {fact}\n" for fact in facts)
        return "write", {"file_path": f"{name}.md", "content": f"---\nname: {name}\n---\n\n{lines}"}

    def said(self, name: str, *, by: str = "") -> str:
        """Return a fact as it stands in its note, or as another would have said it."""
        speaker = by or ("Bob" if name in BOBS else "Ann")
        return f"{FACTS[name]} ({speaker}, 2026-05-01)" if self.who.shared else FACTS[name]

    async def trace(self) -> object:
        """Return all that a dream could leave: the files of all homes with their times, and who said what."""
        homes = self.running.core.settings.home / "homes"
        paths = [path for path in sorted(homes.rglob("*")) if path.is_file()]
        files = {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}
        async with self.running.core.database.read() as session:
            rows = (await session.execute(select(FactRow.note, FactRow.fact_hash, FactRow.speaker))).all()
        return files, sorted(map(tuple, rows))

    async def dream(self, *answers: Scripted) -> tuple[Outcome | None, str]:
        """Dream so by the clock, and return what is on record of it."""
        dreams(self.running, *answers)
        await tick(self.running)
        run = (await self.running.core.night.runs.recent("dream", limit=1))[0]
        return run.outcome, run.detail


async def asleep(running: Whole, clock: Clock, who: Speaker) -> Asleep:
    for each in (BOB_IN_G, who) if who.shared else (who,):
        await running.tell(each, "Hi")
        await running.settled()
    clock.forward(hours=2)
    found = Asleep(running=running, who=who, scope=await running.scope(who))
    async with running.core.database.write() as session:
        for name in FACTS:
            _, given = found.note(name, found.said(name))
            (found.memory / f"{name}.md").write_text(given["content"])
            session.add(of(found.scope, name, found.said(name)))
    (found.memory / "MEMORY.md").write_text("".join(f"- [{name}]({name}.md)\n" for name in FACTS))
    await running.scope(BOB)
    return found


def of(scope: Scope, name: str, fact: str) -> FactRow:
    speaker, user = ("Bob", "43") if name in BOBS else ("Ann", "42")
    return FactRow(
        principal=scope.principal,
        project=scope.project,
        note=f"{name}.md",
        fact_hash=fact_hash(fact),
        account=f"telegram:{user}",
        speaker=speaker,
        message_id=None,
        said_at=1_777_000_000.0,
    )


@pytest.fixture(params=[ANN, ANN_IN_G], ids=["private", "shared"])
async def sleeper(tmp_path: Path, clock: Clock, request: pytest.FixtureRequest) -> AsyncIterator[Asleep]:
    async with whole(tmp_path / "home", SETTINGS, clock=clock) as running:
        yield await asleep(running, clock, request.param)


@pytest.fixture
async def shared(tmp_path: Path, clock: Clock) -> AsyncIterator[Asleep]:
    async with whole(tmp_path / "home", SETTINGS, clock=clock) as running:
        yield await asleep(running, clock, ANN_IN_G)


def deletes(*names: str) -> Answer:
    return calls(*(("delete", {"file_path": f"{name}.md"}) for name in names))


Bad = Callable[[Asleep], list[Scripted]]


def drops_a_third(_: Asleep) -> list[Scripted]:
    return [deletes("tea", "train", "nuts", "kiel"), "Tidied."]


def drops_a_third_in_a_merge(it: Asleep) -> list[Scripted]:
    merged = it.note("ways", it.said("tea"), "Takes a train", "Is allergic to something", "Lives somewhere")
    return [calls(merged), deletes("tea", "train", "nuts", "kiel"), "Merged."]


def empties_notes(_: Asleep) -> list[Scripted]:
    names = list(FACTS)[:4]
    reads = calls(*(("read", {"file_path": f"{name}.md"}) for name in names))
    writes = (("write", {"file_path": f"{name}.md", "content": f"---\nname: {name}\n---\n"}) for name in names)
    return [reads, calls(*writes), "Shortened."]


def denies_a_third(it: Asleep) -> list[Scripted]:
    names = ("tea", "train", "nuts", "kiel")
    reads = calls(*(("read", {"file_path": f"{name}.md"}) for name in names))
    return [reads, calls(*(it.note(name, f"It is not so that Ann {it.said(name)}") for name in names)), "Corrected."]


def rewrites_all(it: Asleep, told: Callable[[str], str]) -> list[Scripted]:
    reads = calls(*(("read", {"file_path": f"{name}.md"}) for name in FACTS))
    return [reads, calls(*(it.note(name, told(it.said(name))) for name in FACTS)), "Corrected."]


def puts_all_into(it: Asleep, *, head: str) -> list[Scripted]:
    lines = "".join(f"- {it.said(name)}\n" for name in FACTS)
    return [calls(("write", {"file_path": "all.md", "content": head + lines})), deletes(*FACTS), "Merged."]


def gives_all_to_a_brother(it: Asleep) -> list[Scripted]:
    return rewrites_all(it, lambda fact: f"The brother {fact[0].lower()}{fact[1:]}")


def says_of_each_that_it_is_wrong(it: Asleep) -> list[Scripted]:
    return rewrites_all(it, lambda fact: f"{fact} - this is wrong")


def strikes_all_out(it: Asleep) -> list[Scripted]:
    return rewrites_all(it, lambda fact: f"~~{fact}~~")


def puts_all_where_no_reader_looks(it: Asleep) -> list[Scripted]:
    return rewrites_all(it, lambda fact: f'See <span title="{fact}">it</span>')


def says_that_all_is_false(it: Asleep) -> list[Scripted]:
    return puts_all_into(it, head="# All of this is false\n\n")


def buries_all(it: Asleep) -> list[Scripted]:
    return puts_all_into(it, head="".join(f"- Filler line number {number}\n" for number in range(1000)))


def empties_the_index(_: Asleep) -> list[Scripted]:
    index = {"file_path": "MEMORY.md", "content": ""}
    return [calls(("read", {"file_path": "MEMORY.md"})), calls(("write", index)), "Pruned."]


def writes_outside(it: Asleep) -> list[Scripted]:
    elsewhere = it.running.core.homes.home(BOB.principal) / "projects/unnamed/memory/out.md"
    places = [
        "../out.md",
        "../../../out.md",
        "team/out.md",
        str(elsewhere),
        str(it.running.core.settings.home / "out.md"),
    ]
    logs = "logs/2026/05/2026-05-01.md"
    writes = (("write", {"file_path": place, "content": "- canary\n"}) for place in (*places, logs))
    return [calls(it.note("ways", "Something new")), calls(*writes), "Tidied."]


def never_ends(it: Asleep) -> list[Scripted]:
    return [calls(it.note(f"merge-{number}", f"Something new {number}")) for number in range(40)]


def only_talks_to_itself(_: Asleep) -> list[Scripted]:
    return [calls(("read", {"file_path": "tea.md"})) for _ in range(40)]


def breaks_off(it: Asleep) -> list[Scripted]:
    return [calls(it.note("ways", "Something new")), deletes("tea"), Answer(text="Do", flaw=Flaw.DROP)]


def fails(it: Asleep) -> list[Scripted]:
    return [calls(it.note("ways", "Something new")), deletes("tea"), Failure(status=500)]


BAD = {
    drops_a_third: "it would have removed 4 of 10 facts",
    drops_a_third_in_a_merge: "it would have removed 3 of 10 facts",
    denies_a_third: "it would have removed 4 of 10 facts",
    empties_notes: "it would have removed 4 of 10 facts",
    gives_all_to_a_brother: "it would have removed 10 of 10 facts",
    says_of_each_that_it_is_wrong: "it would have removed 10 of 10 facts",
    strikes_all_out: "it would have removed 10 of 10 facts",
    puts_all_where_no_reader_looks: "it would have removed 10 of 10 facts",
    says_that_all_is_false: "it would have removed 10 of 10 facts",
    buries_all: "it would have added",
    empties_the_index: "it would have left 10 of 10 notes out of the index",
    writes_outside: "it wrote 1 of the files that are not its to write",
    never_ends: "it did not come to its end within its turns",
    only_talks_to_itself: "it did not come to its end within its turns",
    breaks_off: "the model gave no usable answer",
    fails: "the model gave no usable answer",
}


@pytest.mark.parametrize(("bad", "reason"), BAD.items(), ids=[bad.__name__ for bad in BAD])
async def test_a_bad_dream_leaves_no_trace(sleeper: Asleep, clock: Clock, bad: Bad, reason: str) -> None:
    if bad is not drops_a_third:  # which is the first dream of all: there is no stamp, and none is made
        dreamt(sleeper.memory, clock, hours=25)
    before = await sleeper.trace()
    outcome, detail = await sleeper.dream(*bad(sleeper))
    assert outcome is Outcome.FAILED
    assert reason in detail
    assert await sleeper.trace() == before
    assert list(sleeper.running.core.settings.home.glob("*.md")) == []
    assert improved(sleeper.running) == []


def gives_it_another_name(it: Asleep) -> list[Scripted]:
    return [calls(("read", {"file_path": "nuts.md"})), calls(it.note("nuts", it.said("nuts", by="Bob"))), "Done."]


def gives_it_to_another_in_other_words(it: Asleep) -> list[Scripted]:
    other = "Can't have cashews nor peanuts: is allergic (Bob, 2026-05-02)"
    return [calls(("read", {"file_path": "nuts.md"})), calls(it.note("nuts", other)), "Done."]


def merges_it_into_anothers_note(it: Asleep) -> list[Scripted]:
    name, given = it.note("bob", it.said("boat"), "Is allergic to peanuts and cashews (Bob, 2026-05-01)")
    return [calls((name, given)), deletes("boat", "nuts"), "Done."]


def puts_it_under_anothers_heading(it: Asleep) -> list[Scripted]:
    text = f"---\nname: people\n---\n\n# Bob\n\n- {it.said('boat')}\n- {FACTS['nuts']}\n"
    return [calls(("write", {"file_path": "people.md", "content": text})), deletes("boat", "nuts"), "Done."]


def puts_it_below_anothers_item(it: Asleep) -> list[Scripted]:
    text = f"- Ann\n  - {FACTS['tea']}\n- Bob\n  - {FACTS['nuts']}\n"
    return [calls(("write", {"file_path": "people.md", "content": text})), deletes("tea", "nuts"), "Done."]


def puts_it_into_anothers_column(it: Asleep) -> list[Scripted]:
    text = f"| Ann | Bob |\n| --- | --- |\n| {FACTS['tea']} | {FACTS['nuts']} |\n"
    return [calls(("write", {"file_path": "people.md", "content": text})), deletes("tea", "nuts"), "Done."]


def puts_it_into_anothers_folder(it: Asleep) -> list[Scripted]:
    text = f"- {FACTS['nuts']}\n"
    return [calls(("write", {"file_path": "bob/food.md", "content": text})), deletes("nuts"), "Done."]


def blames_another_in_the_index(_: Asleep) -> list[Scripted]:
    lines = "".join(f"- [{name}]({name}.md)\n" for name in FACTS).replace(
        "[boat]", "[bob, allergic to cashews, peanuts]"
    )
    index = {"file_path": "MEMORY.md", "content": lines}
    return [calls(("read", {"file_path": "MEMORY.md"})), calls(("write", index)), "Done."]


def blames_another_in_a_comment(it: Asleep) -> list[Scripted]:
    name, given = it.note("boat", it.said("boat"))
    given["content"] += f"<!-- B\u200bob: {FACTS['nuts']} -->\n"
    return [calls(("read", {"file_path": "boat.md"})), calls((name, given)), "Done."]


@pytest.mark.parametrize(
    "bad",
    [
        blames_another_in_the_index,
        blames_another_in_a_comment,
        gives_it_another_name,
        gives_it_to_another_in_other_words,
        merges_it_into_anothers_note,
        puts_it_under_anothers_heading,
        puts_it_below_anothers_item,
        puts_it_into_anothers_column,
        puts_it_into_anothers_folder,
    ],
)
async def test_a_dream_that_gives_a_fact_to_another_person_leaves_no_trace(shared: Asleep, bad: Bad) -> None:
    before = await shared.trace()
    outcome, detail = await shared.dream(*bad(shared))
    assert outcome is Outcome.FAILED
    assert "to another person" in detail
    assert await shared.trace() == before
    assert improved(shared.running) == []


async def test_a_dream_that_leaves_out_who_said_what_leaves_no_trace(shared: Asleep) -> None:
    before = await shared.trace()
    outcome, detail = await shared.dream(*rewrites_all(shared, lambda fact: fact[: fact.rindex(" (")]))
    assert outcome is Outcome.FAILED
    assert "it would have removed 10 of 10 facts" in detail
    assert await shared.trace() == before


@pytest.mark.parametrize(
    "last",
    [Answer(text="On and on and on. " * 200, chunk_delay=0.2), Answer(text="…", delay=30)],
    ids=["goes on", "hangs"],
)
@pytest.mark.parametrize("who", [ANN, ANN_IN_G], ids=["private", "shared"])
async def test_a_dream_that_does_not_end_is_aborted_and_leaves_no_trace(
    tmp_path: Path, clock: Clock, who: Speaker, last: Answer
) -> None:
    async with whole(tmp_path / "home", SETTINGS + "dream_max_minutes = 0.01\n", clock=clock) as running:
        sleeper = await asleep(running, clock, who)
        before = await sleeper.trace()
        outcome, detail = await sleeper.dream(deletes("tea"), last)
        assert outcome is Outcome.FAILED
        assert "it took more than 0.01 minutes" in detail
        assert await sleeper.trace() == before


# -- at the bound


async def test_what_is_just_within_the_bound_stands(sleeper: Asleep) -> None:
    outcome, detail = await sleeper.dream(deletes("tea", "train"), "Two were out of date.")
    assert outcome is Outcome.DONE
    assert "changed" in detail
    assert not (sleeper.memory / "tea.md").exists()
    assert (sleeper.memory / NAME).exists()
    assert len(improved(sleeper.running)) == 1
    assert [fault for fault in unsound(sleeper.memory) if "points to" in fault] == []


async def test_one_more_does_not(sleeper: Asleep) -> None:
    before = await sleeper.trace()
    outcome, detail = await sleeper.dream(deletes("tea", "train", "nuts"), "Three were out of date.")
    assert outcome is Outcome.FAILED
    assert "it would have removed 3 of 10 facts" in detail
    assert await sleeper.trace() == before


# -- while somebody talks


def saves_meanwhile(it: Asleep, *then: ToolCall) -> Scripted:
    """Answer the dream only when the person has had something noted in a turn of their own."""

    async def answer(_: object) -> Answer:
        edit = {"file_path": str(it.memory / "tea.md"), "old_string": "morning", "new_string": "afternoon"}
        it.running.then(calls(("edit", edit), it.note("dog", "Has a dog called Rex")), "Noted.")
        assert "Noted." in await it.running.tell(it.who, "Green tea in the afternoon, by the way; and I have a dog.")
        return Answer(tools=then)

    return answer


async def test_what_a_person_saves_during_a_dream_is_kept(sleeper: Asleep) -> None:
    read = calls(("read", {"file_path": "tea.md"}))
    (own,) = calls(sleeper.note("tea", sleeper.said("tea"), "Something new of the dream")).tools
    outcome, _ = await sleeper.dream(read, saves_meanwhile(sleeper, own), "Done.")
    told = next(r for r in reversed(sleeper.running.model.requests) if is_dream(r.body)).body["messages"][-1]
    assert told["content"][0]["is_error"]
    assert outcome is Outcome.DONE
    assert "afternoon" in (sleeper.memory / "tea.md").read_text()
    assert "Rex" in (sleeper.memory / "dog.md").read_text()


async def test_what_a_person_saves_during_a_bad_dream_is_kept_and_the_rest_put_back(sleeper: Asleep) -> None:
    before = {path.name: path.read_text() for path in sleeper.memory.glob("*.md")}
    (own, *others) = deletes("bees", "nuts", "kiel", "bread").tools
    outcome, detail = await sleeper.dream(
        calls(("read", {"file_path": "tea.md"})), saves_meanwhile(sleeper, own, *others), "Done."
    )
    assert outcome is Outcome.FAILED
    assert "it would have removed" in detail
    after = {path.name: path.read_text() for path in sleeper.memory.glob("*.md")}
    assert "afternoon" in after.pop("tea.md")
    assert "Rex" in after.pop("dog.md")
    assert after == {name: text for name, text in before.items() if name != "tea.md"}
