"""What is forgotten of a team's notes is gone from every chat of the project here before anybody is told so."""

from pathlib import Path
from typing import Any

import pytest

from gateway.publishing import Publishing
from gateway.staging import Staged
from memory.scope import Scope
from tests.acceptance.test_erasure import rows_with
from tests.acceptance.whole import ANN, Speaker, Whole, calls, note, whole

CANARY = "zebrafish"
FACT = f"The team keeps a {CANARY} in a tank"
IN_G = Speaker(user="42", chat="-100")
IN_H = Speaker(user="42", chat="-200")
BOB = Speaker(user="43", chat="43", name="Bob")
ELSEWHERE = Speaker(user="42", chat="42", thread="7")
GARDEN = """owners = ["telegram:42"]
[projects.garden]
members = ["telegram:42", "telegram:43"]
chats = ["telegram:-100", "telegram:-200", "telegram:42", "telegram:43"]
"""


def on_disk(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*.md") if CANARY in path.name + path.read_text()]


async def copies(running: Whole, *who: Speaker) -> list[list[str]]:
    return [on_disk((await running.scope(each)).memory_dir) for each in who]


async def shared(running: Whole, *facts: str, name: str = "pets") -> None:
    """Have every chat hold a note of the team."""
    for who in (IN_G, IN_H, BOB):
        await running.tell(who, "Hello there")
    path = await running.remember(IN_G, facts[0], name=name, team=True)
    path.write_text(path.read_text() + "".join(f"\n{fact}\n" for fact in facts[1:]))
    for _ in range(2):
        await running.core.night.clock.run_now("team-sync")


async def forget(running: Whole, who: Speaker) -> str:
    await running.tell(who, f"/forget {CANARY}")
    return await running.tell(who, "/forget all")


async def test_every_copy_here_is_cleared_before_forgotten_is_said(tmp_path: Path) -> None:
    async with whole(tmp_path / "home", GARDEN) as running:
        await shared(running, FACT, "Rakes hang by the door", name=f"{CANARY}-and-rakes")
        assert all(await copies(running, IN_H, BOB))
        told = await forget(running, IN_G)
        assert told == "Forgotten: 1 fact. This conversation begins anew."
        assert await copies(running, IN_G, IN_H, BOB) == [[], [], []]
        since = len(running.model.requests)
        for who in (IN_H, BOB):
            await running.tell(who, "What does the team keep in the tank?")
        assert not [each for each in list(running.model.requests)[since:] if CANARY.encode() in each.raw]
        await running.core.night.clock.run_now("team-sync")
        names = [
            {path.name for path in team.glob("note-*.md")}
            for who in (IN_G, IN_H, BOB)
            if (team := (await running.scope(who)).team_dir) is not None
        ]
        assert (len(names[0]), names[1:]) == (1, [names[0]] * 2)


async def test_a_copy_of_another_project_of_the_same_repository_is_cleared_as_well(tmp_path: Path) -> None:
    projects = """owners = ["telegram:42"]
[projects.garden]
repo = "green/garden"
chats = ["telegram:-100"]
[projects.shed]
repo = "green/garden"
chats = ["telegram:-200"]
"""
    async with whole(tmp_path / "home", projects) as running:
        await shared(running, FACT)
        assert all(await copies(running, IN_G, IN_H))
        assert (await forget(running, IN_G)).startswith("Forgotten")
        assert await copies(running, IN_G, IN_H) == [[], []]


async def test_a_chat_whose_turn_has_read_it_meanwhile_carries_it_into_no_later_request(tmp_path: Path) -> None:
    async def forgotten_meanwhile(_: object) -> str:
        assert "Forgotten" in await forget(running, IN_G)
        return "I have looked."

    async with whole(tmp_path / "home", GARDEN) as running:
        await shared(running, FACT)
        running.then(calls(("read", {"file_path": "team/pets.md"})), forgotten_meanwhile)
        await running.tell(IN_H, "Have a look at the team's notes")
        await running.settled()
        since = len(running.model.requests)
        await running.tell(IN_H, "What does the team keep in the tank?")
        await running.settled()
        assert not [each for each in list(running.model.requests)[since:] if CANARY.encode() in each.raw]


async def test_it_is_said_that_the_server_does_not_know_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with whole(tmp_path / "home", GARDEN) as running:
        await shared(running, FACT)
        monkeypatch.setattr("gateway.team_forgetting.PUSH_SECONDS", 0.0)
        assert "The team server could not be reached yet" in await forget(running, IN_G)
        assert await copies(running, IN_G, IN_H, BOB) == [[], [], []]


async def test_what_is_forgotten_while_it_is_being_shared_is_shared_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    confirmed = Publishing._overtaken

    async def overtaken(self: Publishing, scope: Scope, staged: Staged) -> Any:
        await forget(running, ELSEWHERE)
        return await confirmed(self, scope, staged)

    async with whole(tmp_path / "home", GARDEN) as running:
        for who in (IN_G, ANN):
            await running.tell(who, "Hello there")
        await running.remember(ANN, FACT, name="pets")
        running.then(calls(("write", {"file_path": "team/fish.md", "content": note(FACT)})), "It waits.")
        await running.tell(ANN, "Share it with the team")
        await running.settled()
        monkeypatch.setattr(Publishing, "_overtaken", overtaken)
        assert "That is settled: it held what was forgotten" in await running.tell(ANN, "/team yes 1")
        assert await copies(running, ANN, IN_G) == [[], []]


async def test_a_turn_that_has_read_it_stages_nothing_once_it_is_forgotten(tmp_path: Path) -> None:
    async with whole(tmp_path / "home", GARDEN) as running:
        await shared(running, FACT)

        async def forgotten_meanwhile(_: Any) -> Any:
            await forget(running, IN_G)
            header = f"---\nname: f\ndescription: {FACT}\ntype: project\n---\n"
            return calls(
                ("write", {"file_path": "team/fish.md", "content": note(FACT)}),
                ("write", {"file_path": "team/f.md", "content": header}),
                ("write", {"file_path": "team/MEMORY.md", "content": f"- [f](f.md): {CANARY}\n"}),
            )

        running.then(calls(("read", {"file_path": "team/pets.md"})), forgotten_meanwhile, "Ok")
        await running.tell(BOB, "Share it with the team")
        await running.settled()
        assert await running.tell(BOB, "/team yes all") == "Nothing waits to be shared."
        assert await copies(running, IN_G, BOB) == [[], []]


async def test_the_preview_of_a_staged_change_keeps_no_word_of_it(tmp_path: Path) -> None:
    async with whole(tmp_path / "home", GARDEN) as running:
        await running.remember(ANN, FACT, name="pets")
        running.then(calls(("write", {"file_path": "team/fish.md", "content": note(FACT)})), "It waits.")
        await running.tell(ANN, "Share it with the team")
        await running.settled()
        assert await rows_with(running, CANARY)
        await forget(running, ANN)
        await running.settled()
        assert await rows_with(running, CANARY) == []


async def test_a_turn_under_way_leaves_no_word_in_its_rows_once_it_is_answered(tmp_path: Path) -> None:
    async with whole(tmp_path / "home") as running:
        await running.remember(ANN, FACT, name="pets")

        async def forgotten_meanwhile(_: Any) -> str:
            await forget(running, ANN)
            return f"You keep a {CANARY}."

        running.then(forgotten_meanwhile)
        assert CANARY in await running.tell(ELSEWHERE, f"Do I keep a {CANARY} in a tank?")
        await running.settled()
        assert await rows_with(running, CANARY) == []


async def test_what_waits_to_be_saved_tells_the_run_no_word_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(_: Any) -> tuple[int, ...]:
        return ()

    async with whole(tmp_path / "home") as running:
        await running.remember(ANN, f"The pet Ann likes best is a {CANARY}", name="pets")
        with monkeypatch.context() as held_back:
            held_back.setattr("gateway.extraction.Extractions._due", nothing)
            running.then(f"Your {CANARY}!")
            await running.tell(ANN, "Which animal is it?")
            await running.tell(ANN, "I prefer mornings to evenings.")
            since = len(running.model.requests)
            await forget(running, ANN)
        await running.settled()
        assert not [each for each in list(running.model.requests)[since:] if CANARY.encode() in each.raw]
        assert await rows_with(running, CANARY) == []
        saved = (await running.scope(ANN)).memory_dir.glob("*.md")
        assert any("mornings" in path.read_text() for path in saved)


async def test_a_note_that_is_no_text_is_found_and_can_be_forgotten_as_a_whole(tmp_path: Path) -> None:
    async with whole(tmp_path / "home") as running:
        memory = (await running.scope(ANN)).memory_dir
        latin = f"---\nname: cafe\n---\n\n- Ann keeps a {CANARY}\n- Caf\xe9\n".encode("latin-1")
        (memory / "cafe.md").write_bytes(latin)
        assert "Nothing is forgotten yet" in await forget(running, ANN)
        assert (memory / "cafe.md").read_bytes() == latin
        await running.tell(ANN, "/forget cafe")
        assert "Forgotten: 2 facts." in await running.tell(ANN, "/forget cafe.md yes")
        assert not (memory / "cafe.md").exists()


async def test_what_only_waits_to_be_shared_is_found_and_shared_no_more(tmp_path: Path) -> None:
    async with whole(tmp_path / "home", GARDEN) as running:
        running.then(calls(("write", {"file_path": "team/fish.md", "content": note(FACT)})), "It waits.")
        await running.tell(ANN, "Share with the team what I told you")
        await running.settled()
        listed = await running.tell(ANN, f"/forget {CANARY}")
        assert f"1. {FACT} (waits to be shared, in `fish.md`)" in listed
        assert "Forgotten: 1 fact." in await running.tell(ANN, "/forget 1")
        await running.settled()
        assert "it held what was forgotten" in await running.tell(ANN, "/team yes 1")
        assert await rows_with(running, CANARY) == []
        assert await running.tell(ANN, "/forget 1") == "That is forgotten already."


async def test_a_note_in_utf_16_is_found_and_can_be_forgotten_as_a_whole(tmp_path: Path) -> None:
    async with whole(tmp_path / "home") as running:
        memory = (await running.scope(ANN)).memory_dir
        wide = f"---\nname: Cafe\n---\n\n- Ann keeps a {CANARY}\n- It rains\n".encode("utf-16")
        (memory / "cafe.md").write_bytes(wide)
        assert f"1. Ann keeps a {CANARY}" in await running.tell(ANN, f"/forget {CANARY}")
        assert "`cafe.md`: the file is not UTF-8 text" in await running.tell(ANN, "/forget 1")
        assert (memory / "cafe.md").read_bytes() == wide
        await running.tell(ANN, "/forget cafe.md")
        assert "Forgotten: 2 facts." in await running.tell(ANN, "/forget cafe.md yes")
        assert not (memory / "cafe.md").exists()


async def test_a_note_that_only_mentions_it_and_cannot_be_changed_stands_in_the_way_at_once(tmp_path: Path) -> None:
    async with whole(tmp_path / "home") as running:
        path = await running.remember(ANN, FACT, name="pets")
        other = path.with_name("shed.md")
        other.write_text(f"---\nname: Shed\ndescription: Where the {CANARY} was\n---\n\n- The shed is green\n")
        other.chmod(0o400)
        said = await forget(running, ANN)
        assert "Nothing is forgotten yet" in said
        assert "`shed.md`: the file is read-only" in said
        assert set(on_disk(path.parent)) == {"MEMORY.md", "pets.md", "shed.md"}
