"""How far `/forget` reaches: not into what others said, but into each name that goes on telling what was forgotten."""

from pathlib import Path
from typing import Any

from sqlalchemy import select

from gateway.db.models import ShownRow
from tests.acceptance.test_erasure import ANN_IN_G, BOB_IN_G, CANARY, forget, leaks
from tests.acceptance.whole import ANN, Speaker, Whole, calls, note, whole

CARL_IN_H = Speaker(user="45", chat="-200", name="Carl")
GARDEN = '[projects.garden]\nchats = ["telegram:-100", "telegram:-200"]\n'
THESIS = """---
name: Thesis plan
description: thesis plan and chapters
type: project
---

# Thesis plan

She works from home.

> thesis chapters: intro, methods

| chapter | thesis |
|---|---|
| intro | done |
"""
TOLD = "Remember my thesis plan: thesis chapters intro, methods; intro done; I work from home"


async def wrote(running: Whole, who: Speaker, path: Path, text: str, said: str) -> None:
    running.then(calls(("write", {"file_path": str(path), "content": text})), "Noted.")
    running.then_fork("nothing")
    await running.tell(who, said)
    await running.settled()


async def forgets(running: Whole, who: Speaker, words: str) -> str:
    await running.tell(who, f"/forget {words}")
    reply = await running.tell(who, "/forget 1")
    await running.settled()
    return reply


async def shown(running: Whole) -> list[Any]:
    async with running.core.database.read() as session:
        return list((await session.scalars(select(ShownRow.name))).all())


async def test_who_forgets_their_own_sentence_takes_nothing_from_what_another_said(tmp_path: Path) -> None:
    async with whole(tmp_path / "home") as running:
        memory = (await running.scope(ANN_IN_G)).memory_dir
        await wrote(running, ANN_IN_G, memory / "thesis-plan.md", THESIS, TOLD)
        said = "A thesis plan is dull, with chapters."
        await wrote(running, BOB_IN_G, memory / "bob.md", note(said), f"Remember: {said}")
        assert "Forgotten: 1 fact." in await forgets(running, BOB_IN_G, "dull")
        assert (memory / "thesis-plan.md").read_text() == THESIS
        assert not (memory / "bob.md").exists()


async def test_a_note_that_another_chat_of_the_team_wrote_stays_as_it_is(tmp_path: Path) -> None:
    async with whole(tmp_path / "home", GARDEN) as running:
        scope = await running.scope(BOB_IN_G)
        assert scope.team_dir is not None
        scope.team_dir.mkdir(parents=True, exist_ok=True)
        (scope.team_dir / "thesis-plan.md").write_text(THESIS)
        said = "A thesis plan is dull, with chapters."
        await wrote(running, BOB_IN_G, scope.memory_dir / "bob.md", note(said), f"Remember: {said}")
        assert "Forgotten: 1 fact." in await forgets(running, BOB_IN_G, "dull")
        assert (scope.team_dir / "thesis-plan.md").read_text() == THESIS


async def test_a_folder_named_for_it_is_in_no_later_request_and_no_row(tmp_path: Path) -> None:
    async with whole(tmp_path / "home") as running:
        memory = (await running.remember(ANN, f"Ann keeps a {CANARY}", name="pets")).parent
        for name in (f"sub/{CANARY}/bread.md", f"{CANARY}-tea.md"):
            (memory / name).parent.mkdir(parents=True, exist_ok=True)
            (memory / name).write_text(note("Ann likes rye bread and green tea"))
        await running.tell(ANN, "Which rye bread and green tea do I like?")
        assert {f"sub/{CANARY}/bread.md", f"{CANARY}-tea.md"} & {*await shown(running)}
        assert "Forgotten: 1 fact." in await forget(running)
        assert not [path for path in memory.rglob("*") if CANARY in path.name]
        assert not [name for name in await shown(running) if CANARY in name]
        since = len(running.model.requests)
        await running.tell(ANN, "Which rye bread do I like?")
        assert leaks(running, since=since) == []
        assert CANARY not in await running.tell(ANN, "/why") + await running.tell(ANN, "/memory")


async def test_an_index_that_cannot_be_written_stands_in_the_way_before_anything_changes(tmp_path: Path) -> None:
    async with whole(tmp_path / "home") as running:
        path = await running.remember(ANN, f"Ann keeps a {CANARY}", name="pets")
        before, index = path.read_text(), path.with_name("MEMORY.md")
        index.write_bytes("- [Pets](pets.md): what there is\n".encode("utf-16"))
        await running.tell(ANN, "/forget pets.md")
        reply = await running.tell(ANN, "/forget pets.md yes")
        assert "Nothing is forgotten yet" in reply
        assert "`MEMORY.md`: the file is not UTF-8 text; save it as UTF-8." in reply
        index.write_text("- [Pets](pets.md): what there is\n")
        assert path.read_text() == before
        await running.tell(ANN, "/forget pets.md")
        assert "Forgotten: 1 fact." in await running.tell(ANN, "/forget pets.md yes")
