"""Buttons below what commands answer: each says what text says, to whoever has asked, and of what was shown alone."""

from pathlib import Path

from sqlalchemy import select

from gateway.db.models import ButtonRow
from tests.acceptance.presses import offered, press
from tests.acceptance.whole import ANN, Speaker, Whole, whole

IN_G, BOB_IN_G = Speaker(user="42", chat="-100"), Speaker(user="43", chat="-100", name="Bob")


async def buttons(running: Whole) -> list[str]:
    """Return the labels below the newest message."""
    return [each.label for each in list(running.adapter.shown.values())[-1].buttons]


async def test_a_press_forgets_what_was_listed_and_a_second_one_says_that_it_is_listed_no_more(tmp_path: Path) -> None:
    async with whole(tmp_path / "home") as running:
        place = await running.remember(ANN, "the zebrafish eats at noon", name="fish")
        assert "`/forget yes`" in await running.tell(ANN, "/forget zebrafish")
        button = await offered(running, "1 fish", where=ANN)
        assert "Forgotten: 1 fact" in await press(running, ANN, button)
        assert not place.exists()
        assert "forgotten already" in await press(running, ANN, button)


async def test_a_button_of_an_older_list_forgets_nothing_of_the_newer_one(tmp_path: Path) -> None:
    async with whole(tmp_path / "home") as running:
        fish = await running.remember(ANN, "the zebrafish eats at noon", name="fish")
        frog = await running.remember(ANN, "the tree frog sleeps at noon", name="frog")
        await running.tell(ANN, "/forget zebrafish")
        old = await offered(running, "1 fish", where=ANN)
        await running.tell(ANN, "/forget frog")
        assert "Nothing is listed for you any more" in await press(running, ANN, old)
        assert ("zebrafish" in fish.read_text(), "frog" in frog.read_text()) == (True, True)


async def test_who_did_not_ask_presses_in_vain_and_takes_the_buttons_from_nobody(tmp_path: Path) -> None:
    async with whole(tmp_path / "home") as running:
        await running.remember(IN_G, "the pond is deep", name="pond")
        await running.tell(IN_G, "/memory")
        button = await offered(running, "pond", where=IN_G)
        assert "not for you" in await press(running, BOB_IN_G, button)
        assert await buttons(running) == ["pond"]
        assert "the pond is deep" in await press(running, IN_G, button)


async def test_a_long_list_of_notes_goes_on_with_its_next_page(tmp_path: Path) -> None:
    async with whole(tmp_path / "home") as running:
        for number in range(42):
            await running.remember(ANN, f"fact {number}", name=f"note-{number}")
        await running.tell(ANN, "/memory")
        shown = await press(running, ANN, await offered(running, "Next", where=ANN))
        assert shown.count("- `note-") == 2
        assert len(await buttons(running)) == 2
        assert "no page 3" in await running.tell(ANN, "/memory page 3")


async def test_what_buttons_hold_names_no_note(tmp_path: Path) -> None:
    async with whole(tmp_path / "home") as running:
        await running.remember(ANN, "the zebrafish eats at noon", name="zebrafish")
        for words in ("/memory", "/forget zebrafish", "/memory note 0123456789abcdef"):
            await running.tell(ANN, words)
        async with running.core.database.read() as session:
            said = (await session.scalars(select(ButtonRow.says))).all()
        assert len(said) == 2
        assert "zebrafish" not in str(said)
