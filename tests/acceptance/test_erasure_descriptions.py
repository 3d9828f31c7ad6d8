"""A description above the facts of a note can be found and forgotten like a fact, and goes with no other fact."""

from pathlib import Path

from gateway.db.models import FactRow
from memory.provenance import fact_hash
from memory.scope import Scope
from tests.acceptance.test_erasure import ANN_IN_G, BOB_IN_G, CANARY, forget, on_disk
from tests.acceptance.whole import Speaker, Whole, whole

ABOUT = f"Bob keeps a {CANARY} at work"


async def described(running: Whole, *facts: str) -> Path:
    """Put a note with Bob's description above facts of Ann into the group's memory."""
    scope = await running.scope(ANN_IN_G)
    path = scope.memory_dir / "desk.md"
    path.write_text(f"---\nname: Desk\ndescription: {ABOUT}\n---\n\n" + "".join(f"- {fact}\n" for fact in facts))
    (scope.memory_dir / "MEMORY.md").write_text(f"- [Desk](desk.md): {ABOUT}\n")
    for said, who in (*((fact, ANN_IN_G) for fact in facts), (ABOUT, BOB_IN_G)):
        await record(running, scope, said, who)
    return path


async def record(running: Whole, scope: Scope, fact: str, who: Speaker) -> None:
    async with running.core.database.write() as session:
        row = FactRow(principal=scope.principal, project=scope.project, note="desk.md", fact_hash=fact_hash(fact))
        row.account, row.speaker, row.message_id, row.said_at = f"telegram:{who.user}", who.name, None, 0.0
        session.add(row)


async def test_a_person_may_forget_their_description_also_after_others_came_into_the_note(tmp_path: Path) -> None:
    async with whole(tmp_path / "home") as running:
        path = await described(running, "The lamp is green")
        assert f"1. {ABOUT} (in `desk.md`)" in await running.tell(ANN_IN_G, f"/forget {CANARY}")
        assert "Only who said it" in await running.tell(ANN_IN_G, "/forget all")
        assert await forget(running, BOB_IN_G) == "Forgotten: 1 fact. This conversation begins anew."
        assert path.read_text() == "---\nname: Desk\ndescription: The lamp is green\n---\n\n- The lamp is green\n"
        assert on_disk(path.parent) == []
        since = len(running.model.requests)
        await running.tell(ANN_IN_G, "What is there at work?")
        assert not [each for each in list(running.model.requests)[since:] if CANARY.encode() in each.raw]


async def test_a_note_stays_for_the_description_that_somebody_else_said(tmp_path: Path) -> None:
    async with whole(tmp_path / "home") as running:
        path = await described(running, "The lamp is green")
        await running.tell(ANN_IN_G, "/forget desk.md")
        assert "Only who said it" in await running.tell(ANN_IN_G, "/forget desk.md yes")
        await running.tell(ANN_IN_G, "/forget green lamp")
        assert "Forgotten: 1 fact." in await running.tell(ANN_IN_G, "/forget all")
        assert path.read_text() == f"---\nname: Desk\ndescription: {ABOUT}\n---\n\n"
