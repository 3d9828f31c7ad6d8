"""A word that was given is in the database before it is carried out: nobody can take it back halfway."""

from pathlib import Path
from typing import Any

import pytest

from gateway.proposals import Proposals
from memory.errors import LeaseLost, WriteRefused
from memory.scope import Scope
from memory.team_notes import TeamNotes
from tests.unit.gateway.test_proposals import added, proposals
from tests.unit.gateway.test_staging import FISH, Breaking, Cut, World, fish, ok, world

__all__ = ["proposals", "world"]


class Meddled(TeamNotes):
    """Somebody says no while the note is being written."""

    def __init__(self, world: World) -> None:
        super().__init__(leases=world.notes._leases)
        self.world = world
        self.answered: list[str] = []

    async def write(self, scope: Scope, path: Path, text: str, *, expected: str | None) -> Any:
        self.answered.append((await self.world.publishing().discard(scope, 1)).told)
        return await super().write(scope, path, text, expected=expected)


async def discarded(world: World) -> str:
    return (await world.publishing().discard(world.scope, 1)).told


async def test_a_no_while_a_yes_is_being_carried_out_does_not_claim_to_have_stopped_it(world: World) -> None:
    await fish(world.box())
    await world.settled()
    notes = Meddled(world)
    assert (await world.publishing(notes).share(world.scope, 1)).told == "Shared."
    assert len(notes.answered) == 2
    assert all("It is being shared" in told for told in notes.answered)
    assert "settled: it was shared" in await discarded(world)
    assert world.files() == ["MEMORY.md", "fish.md"]


@pytest.mark.parametrize("at", [1, 2])
async def test_after_a_kill_a_no_says_that_it_is_being_shared_and_a_yes_does_the_rest(world: World, at: int) -> None:
    await fish(world.box())
    await world.settled()
    with pytest.raises(Cut):
        await world.publishing(Breaking(at, Cut())).share(world.scope, 1)
    assert "It is being shared" in await discarded(world)
    assert (await world.share(1)).told == "Shared."
    assert world.files() == ["MEMORY.md", "fish.md"]


@pytest.mark.parametrize("error", [WriteRefused("read-only"), LeaseLost("busy")])
async def test_what_could_not_be_shared_at_all_can_be_dropped_again(world: World, error: Exception) -> None:
    await fish(world.box())
    await world.settled()
    await world.publishing(Breaking(1, error)).share(world.scope, 1)
    assert "shared with nobody" in await discarded(world)
    assert world.files() == []


async def test_a_note_that_was_written_without_its_line_can_not_be_dropped_as_unshared(world: World) -> None:
    await fish(world.box())
    await world.settled()
    await world.publishing(Breaking(2, LeaseLost("busy"))).share(world.scope, 1)
    assert world.files() == ["fish.md"]
    assert "It is being shared" in await discarded(world)
    assert (await world.share(1)).told == "Shared."


async def test_a_change_that_waits_anew_under_another_number_can_be_dropped(world: World) -> None:
    await ok(world.box(), "write", file_path="team/fish.md", content=FISH)
    await world.settled()
    (world.team / "fish.md").write_text(FISH.replace("shy", "bold"))
    answered = await world.share(1)
    assert answered.anew is not None
    assert answered.anew.outcome == ""
    dropped = await world.publishing().discard(world.scope, answered.anew.number)
    assert "shared with nobody" in dropped.told


async def test_a_proposal_that_was_claimed_is_not_refused_and_one_that_was_released_is(proposals: Proposals) -> None:
    number = (await added(proposals)).number
    assert await proposals.claim(number, account="telegram:42")
    assert await proposals.claim(number, account="telegram:42"), "whoever was stopped says it again"
    assert not await proposals.refuse(number, outcome="it was refused", account="telegram:43")
    await proposals.release(number)
    assert await proposals.refuse(number, outcome="it was refused", account="telegram:43")
    assert not await proposals.claim(number, account="telegram:42")
