"""A copy of team memory goes when the membership has ended, and what was only there is kept."""

from dataclasses import replace
from pathlib import Path

import pytest

from memory.errors import LeaseLost
from memory.notes import Notes
from memory.settings import MemorySettings
from memory.team.leave import Left, leave
from memory.team.state import SyncState
from tests.unit.memory.team_members import Member, ann, bob, sync, team_server

__all__ = ["ann", "bob", "team_server"]


async def left(member: Member, *, wait: float = 1.0) -> Left:
    settings = MemorySettings(lease_wait=wait)
    return await leave(
        replace(member.scope, team_dir=None),
        member.team,
        notes=Notes(leases=member.leases, settings=settings),
        states=member.states,
        leases=member.leases,
        settings=settings,
    )


def private(member: Member) -> dict[str, str]:
    return {path.name: path.read_text() for path in member.scope.memory_dir.glob("*.md")}


async def test_the_copy_goes_with_its_state_and_the_persons_own_notes_stay(ann: Member, bob: Member) -> None:
    for key in ("a.md", "sub/b.md", "MEMORY.md"):
        bob.write(key, f"the team's {key}")
    await sync(bob, ann)
    (ann.scope.memory_dir / "tea.md").write_text("Ann's own")
    assert await left(ann) == Left(kept=(), whole=True, gone=("MEMORY.md", "a.md", "sub/b.md"))
    assert not ann.team.exists()
    assert private(ann) == {"tea.md": "Ann's own"}
    assert await ann.states.get("ann", "tea") == SyncState()
    await sync(bob)
    assert len(bob.files()) == 3, "nothing of it is a deletion"


async def test_what_the_team_never_had_moves_into_the_own_memory(ann: Member, bob: Member) -> None:
    bob.write("a.md", "the team's")
    await sync(bob, ann)
    ann.write("a.md", "the team's, changed and not pushed")
    ann.write("sub/own.md", "written here and pushed nowhere")
    ann.write("a.conflict-0a1b2c3d.md", "it lost against the team's")
    await left(ann)
    kept = private(ann)
    assert not ann.team.exists()
    assert sorted(kept.values()) == ["it lost against the team's", "written here and pushed nowhere"]
    assert kept["a.conflict-0a1b2c3d.md"]
    assert all(".conflict-" in name for name in kept)


async def test_what_can_not_be_kept_stays_where_it_is_and_nothing_is_taken_for_agreed(ann: Member, bob: Member) -> None:
    bob.write("a.md", "the team's")
    await sync(bob, ann)
    (ann.team / "picture.md").write_bytes(b"\xff\xfe\xff")
    (ann.team / "plan.pdf").write_bytes(b"%PDF")
    assert not (await left(ann)).whole
    assert sorted(path.name for path in ann.team.iterdir()) == ["picture.md", "plan.pdf"]
    await sync(ann, bob)
    assert (ann.team / "a.md").read_text() == (bob.team / "a.md").read_text() == "the team's"


async def test_leaving_again_after_it_was_cut_short_keeps_a_note_once(ann: Member) -> None:
    ann.write("own.md", "written here")
    await left(ann)
    ann.team.mkdir()
    ann.write("own.md", "written here")
    await left(ann)
    assert list(private(ann).values()) == ["written here"]


async def test_no_link_is_followed_and_no_exchange_is_cut_into(ann: Member, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.md").write_text("not ours")
    (ann.team / "link").symlink_to(outside)
    async with ann.leases.hold(f"team-sync:{ann.scope.memory_dir}", seconds=30, wait=0):
        with pytest.raises(LeaseLost):
            await left(ann, wait=0.0)
    await left(ann)
    assert (outside / "x.md").read_text() == "not ours"
