"""What was forgotten in a copy of team memory comes back by no pull, and leaves by no push."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from memory.provenance import fact_hash
from tests.acceptance.team_server import TeamServer
from tests.unit.memory.team_members import Member, ann, bob, sync, team_server

__all__ = ["ann", "bob", "team_server"]

FACT = "The zebrafish key hangs by the door (Ann, 2026-05-01)"
OTHER = "Tomatoes stand in bed 3 (Bob, 2026-05-01)"
NEW = "Beans go into bed 4 (Bob, 2026-05-02)"


def note(*facts: str, about: str = "where things are") -> str:
    return f"---\nname: Places\ndescription: {about}\n---\n\n" + "".join(f"- {fact}\n" for fact in facts)


def forget(member: Member, *facts: str) -> None:
    """Record it, and take it from the files, as the command does."""
    member.forgotten |= {fact_hash(fact) for fact in facts}
    for path in member.team.rglob("*.md"):
        left = "".join(line for line in path.read_text().splitlines(True) if line[2:].strip() not in facts)
        path.write_text(left) if "\n- " in left else path.unlink()


def leaks(member: Member) -> list[str]:
    return [name for name, text in member.files().items() if "zebrafish" in text]


def on_another_server(entries: dict[str, str], *members: Member) -> dict[str, str]:
    """Let members share these entries through a server that knows nothing of deletions."""
    for member in members:
        member.wire.inner = httpx.ASGITransport(TeamServer(entries=entries).app)
    return entries


async def test_a_fact_that_was_forgotten_does_not_come_back_when_both_sides_changed_its_note(
    ann: Member, bob: Member
) -> None:
    ann.write("places.md", note(FACT, OTHER))
    await sync(ann, bob)
    forget(ann, FACT)
    bob.write("places.md", note(FACT, OTHER, NEW))
    await sync(bob)
    report = await ann.sync.sync(ann.scope)
    assert ann.files() == {"places.md": note(OTHER, NEW)}, "and no conflict copy: nothing was lost"
    assert report.pushed == ["places.md"]
    await sync(bob)
    assert bob.files() == ann.files(), "the server has lost it, and so have the others"


async def test_a_text_that_lost_a_conflict_is_kept_without_what_was_forgotten(ann: Member, bob: Member) -> None:
    ann.write("places.md", note(FACT, OTHER))
    await sync(ann, bob)
    bob.write("places.md", note(FACT, NEW))
    await sync(bob)
    ann.write("places.md", note(FACT, OTHER, "Peas are sown in March (Ann, 2026-05-03)"))
    ann.forgotten = frozenset({fact_hash(FACT)})
    report = await ann.sync.sync(ann.scope)
    [beside] = report.conflicts
    assert leaks(ann) == []
    assert "Peas" in ann.files()[beside]
    assert ann.files()["places.md"] == note(NEW)


@pytest.mark.parametrize("keeps_deletions", [True, False])
async def test_a_note_of_which_nothing_is_left_is_taken_from_the_server(
    ann: Member, bob: Member, keeps_deletions: bool
) -> None:
    if not keeps_deletions:
        on_another_server({}, ann, bob)
    bob.write("MEMORY.md", "- [Places](places.md) — the zebrafish key\n- [Beds](b.md) — what grows\n")
    bob.write("places.md", note(FACT))
    bob.write("b.md", note(NEW))
    await sync(bob)
    ann.forgotten = frozenset({fact_hash(FACT)})
    await sync(ann, bob)
    assert ann.files() == {"MEMORY.md": "- [Beds](b.md) — what grows\n", "b.md": note(NEW)}
    assert leaks(bob) == []


async def test_a_server_without_deletions_loses_a_note_that_was_forgotten_here_long_ago(ann: Member) -> None:
    entries = on_another_server({"places.md": note(FACT), "b.md": note(NEW)}, ann)
    await sync(ann)
    forget(ann, FACT)
    await sync(ann, ann)
    assert entries == {"places.md": "", "b.md": note(NEW)}
    assert list(ann.files()) == ["b.md"]
    ann.wire.seen.clear()
    await sync(ann)
    assert ann.wire.methods() == ["GET"], "and then there is rest"


async def test_a_copy_that_was_lost_is_pulled_anew_without_what_was_forgotten(ann: Member, bob: Member) -> None:
    for key in ("places.md", "b.md"):
        bob.write(key, note(FACT, OTHER, about="about the zebrafish"))
    await sync(bob, ann)
    forget(ann, FACT)
    for key in ("places.md", "b.md"):
        (ann.team / key).unlink()
    await sync(ann)
    assert sorted(ann.files()) == ["b.md", "places.md"]
    assert leaks(ann) == [], "nor does a header tell it"
    await sync(bob)
    assert leaks(bob) == []


async def test_what_another_chat_had_forgotten_leaves_a_copy_that_still_has_it(ann: Member, bob: Member) -> None:
    ann.write("places.md", note(FACT, OTHER))
    ann.write("MEMORY.md", "- [Places](places.md) — the zebrafish key\n")
    ann.write("key.md", note(FACT))
    await sync(ann, bob)
    bob.write("b.conflict-01234567.md", note(FACT, NEW))
    bob.forgotten, bob.now = frozenset({fact_hash(FACT)}), datetime.now(UTC) + timedelta(hours=1)
    await bob.sync.push(bob.scope)
    assert (bob.team / "b.conflict-01234567.md").read_text() == note(NEW)
    (bob.team / "b.conflict-01234567.md").unlink()
    assert bob.files() == {"places.md": note(OTHER), "MEMORY.md": "- [places](places.md)\n"}
    assert [sorted(names) for names in bob.told] == [["b.conflict-01234567.md", "key.md", "places.md"]]
    await sync(ann)
    assert leaks(ann) == []


async def test_of_what_was_changed_a_moment_ago_a_push_leaves_out_what_was_forgotten_and_the_file_alone(
    ann: Member, bob: Member
) -> None:
    await sync(ann)
    ann.write("places.md", note(FACT, OTHER))
    ann.write("key.md", note(FACT))
    ann.forgotten = frozenset({fact_hash(FACT)})
    await sync(ann, bob, ann)
    assert bob.files() == {"places.md": note(OTHER)}
    assert "zebrafish" not in str(ann.wire.bodies())
    assert sorted(leaks(ann)) == ["key.md", "places.md"], "it may just have been said again, and be recorded soon"
    ann.now = datetime.now(UTC) + timedelta(hours=1)
    await sync(ann)
    assert ann.files() == {"places.md": note(OTHER)}, "it was not"


async def test_a_fact_that_was_said_again_travels_as_any_other(ann: Member, bob: Member) -> None:
    ann.write("places.md", note(FACT, OTHER))
    await sync(ann, bob)
    forget(ann, FACT)
    await sync(ann, bob)
    ann.write("places.md", note(OTHER, FACT))
    await sync(ann, bob)
    assert leaks(bob) == []
    ann.forgotten = frozenset()
    await sync(ann, bob)
    assert bob.files() == ann.files() == {"places.md": note(OTHER, FACT)}


async def test_a_name_that_tells_what_was_forgotten_does_not_come_back_either(ann: Member, bob: Member) -> None:
    ann.write("zebrafish.md", note(FACT, OTHER))
    await sync(ann, bob)
    ann.forgotten = frozenset({fact_hash(FACT)})
    (ann.team / "zebrafish.md").unlink()
    bob.write("MEMORY.md", "- [Zebrafish](zebrafish.md) — keys\n")
    bob.write("zebrafish.md", note(FACT, OTHER, NEW))
    await sync(bob, ann, bob)
    [name] = set(ann.files()) - {"MEMORY.md"}
    assert ann.files() == {name: note(OTHER, NEW), "MEMORY.md": f"- [{name[:-3].replace('-', ' ')}]({name})\n"}
    assert bob.files() == ann.files()
    assert "zebrafish" not in name


async def test_a_copy_that_was_cleared_is_no_edit_that_a_deletion_would_have_to_spare(ann: Member, bob: Member) -> None:
    for key in ("places.md", "b.md"):
        ann.write(key, note(FACT, OTHER))
    await sync(ann, bob)
    (ann.team / "places.md").unlink()
    await sync(ann)
    bob.forgotten = frozenset({fact_hash(FACT)})
    await sync(bob)
    assert bob.files() == {"b.md": note(OTHER)}


async def test_a_chat_that_may_not_change_the_team_only_leaves_out_what_it_has_forgotten(
    ann: Member, bob: Member
) -> None:
    bob.write("places.md", note(FACT, OTHER))
    bob.write("key.md", note(FACT))
    await sync(bob)
    ann.scope = replace(ann.scope, shared=False)
    ann.forgotten = frozenset({fact_hash(FACT)})
    await sync(ann, ann)
    assert ann.files() == {"places.md": note(OTHER)}
    bob.write("places.md", note(FACT, OTHER, NEW))
    await sync(bob, ann, bob)
    assert ann.files() == {"places.md": note(OTHER, NEW)}
    assert bob.files() == {"places.md": note(FACT, OTHER, NEW), "key.md": note(FACT)}
    assert "PUT" not in ann.wire.methods()


async def test_what_went_or_lost_a_fact_is_told_once_the_exchange_is_over(ann: Member, bob: Member) -> None:
    bob.write("MEMORY.md", "- [Places](places.md) — keys\n- [Beds](beds.md) — what grows\n- [Old](old.md) — gone\n")
    for key in ("places.md", "beds.md", "old.md"):
        bob.write(key, note(FACT, OTHER))
    await sync(bob, ann)
    assert ann.told == []
    (bob.team / "old.md").unlink()
    bob.write("places.md", note(OTHER))
    bob.write("beds.md", note(FACT, OTHER, NEW))
    bob.write("MEMORY.md", "- [Places](places.md) — keys\n- [Beds](beds.md) — what grows\n")
    await sync(bob, ann)
    assert ann.told == [("old.md", "places.md")]


async def test_a_line_between_the_pointers_of_an_index_comes_back_no_more_and_its_neighbours_stay(
    ann: Member, bob: Member
) -> None:
    lines = f"- {FACT}\n- The key for the shed hangs by the zebrafish tank (Bob, 2026-05-02)\n"
    ann.write("MEMORY.md", f"- [Places](places.md): where things are\n{lines}")
    ann.write("places.md", note(OTHER))
    await sync(ann, bob)
    ann.forgotten |= {fact_hash(FACT)}
    bob.write("MEMORY.md", f"- [Places](places.md): where all is\n{lines}")
    await sync(bob, ann, bob)
    left = f"- [Places](places.md): where all is\n{lines.splitlines()[1]}\n"
    assert (ann.files()["MEMORY.md"], bob.files()["MEMORY.md"]) == (left, left)


async def test_a_description_that_was_forgotten_does_not_come_back(ann: Member, bob: Member) -> None:
    about = "Zebrafish sleep in the kitchen"
    ann.write("places.md", note(OTHER, about=about))
    await sync(ann, bob)
    ann.forgotten |= {fact_hash(about)}
    ann.write("places.md", note(OTHER, about="places"))
    bob.write("places.md", note(OTHER, NEW, about=about))
    await sync(bob, ann, bob)
    assert [about in text for each in (ann, bob) for text in each.files().values()] == [False, False]
    assert NEW in ann.files()["places.md"]
