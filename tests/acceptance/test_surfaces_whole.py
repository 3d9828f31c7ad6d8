"""What the surfaces bring to a whole gateway: pages, approvals, files, edits, parts, buttons."""

import asyncio
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image

from adapters.base import Account, Amended, Attachment
from tests.acceptance.whole import ANN, BOB, Speaker, Whole, until, whole

IN_G = Speaker(user="42", chat="-100")


async def shown(running: Whole, piece: str) -> str:
    """Wait for a message that holds the piece, and return it."""

    async def found() -> str | None:
        return next((each.text for each in running.adapter.shown.values() if piece in each.text), None)

    return await until(found, f"nothing shows {piece!r}")


async def test_the_page_of_a_person_holds_their_own_notes_and_nobody_elses(tmp_path: Path) -> None:
    async with whole(tmp_path / "home") as running:
        for who, fact in ((ANN, "ann drinks tea"), (BOB, "bob drinks rum"), (IN_G, "the group drinks cola")):
            await running.tell(who, "hello there")
            await running.remember(who, fact, name=fact.split()[0])
        page = await running.gateway.intake.home(Account(platform="telegram", user="42"))
        assert "`ann.md`" in page
        assert not any(word in page for word in ("bob", "rum", "group", "cola"))


async def test_a_picture_reaches_the_model_and_its_transcript_holds_no_bytes(tmp_path: Path) -> None:
    out = io.BytesIO()
    Image.new("RGB", (3, 3), "green").save(out, "PNG")
    async with whole(tmp_path / "home") as running:
        running.adapter.files["f1"] = out.getvalue()
        sent = replace(ANN.says("what is this"), attachments=(Attachment(kind="photo", file_id="f1"),))
        await running.gateway.intake.put(sent)
        await running.settled()
        await running.tell(ANN, "and now")
        pictures = [images(recorded.body) for recorded in running.model.requests if images(recorded.body)]
        assert pictures
        assert all(each == pictures[0] for each in pictures)
        assert b"iVBOR" not in (tmp_path / "home" / "reverie.db").read_bytes()


def images(body: dict[str, Any]) -> list[str]:
    return [
        block["source"]["data"]
        for message in body["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "image"
    ]


async def test_a_voice_message_that_nobody_can_hear_is_answered_in_words_without_the_model(tmp_path: Path) -> None:
    async with whole(tmp_path / "home") as running:
        sent = replace(ANN.says(""), attachments=(Attachment(kind="voice", file_id="f1"),))
        await running.gateway.intake.put(sent)
        assert "voice.command" in await shown(running, "can't be looked at")
        assert not running.model.requests


async def test_an_edit_of_what_waits_behind_another_is_answered_as_it_is_now(tmp_path: Path) -> None:
    async with whole(tmp_path / "home") as running:
        first, second = ANN.says("first"), ANN.says("secnod")
        await running.gateway.intake.put(first)
        await running.gateway.intake.put(second)
        await running.gateway.intake.amended(
            Amended(external_id=second.external_id, address=second.address, account=second.account, text="second")
        )
        await running.settled()
        await asyncio.sleep(0)
        said = [block["text"] for recorded in running.model.requests for block in tail(recorded.body)]
        assert any("second" in text for text in said)
        assert not any("secnod" in text for text in said)


def tail(body: dict[str, Any]) -> list[dict[str, Any]]:
    content = body["messages"][-1]["content"]
    return [block for block in content if block["type"] == "text"] if isinstance(content, list) else []
