import asyncio
import io

from adapters.base import Inbound, Outbound
from adapters.doubles import RecordingInbox
from adapters.terminal import ADDRESS, TerminalAdapter


class ClosedInbox(RecordingInbox):
    """Takes nothing, as a gateway that is stopping."""

    async def put(self, inbound: Inbound) -> None:
        raise RuntimeError(inbound.text)


async def test_a_line_that_is_not_taken_is_said_and_ends_nothing() -> None:
    screen = io.StringIO()
    terminal = TerminalAdapter(source=io.StringIO("hello\nanybody?\n"), sink=screen)
    async with terminal.serve(ClosedInbox()):
        await terminal.finished.wait()
    assert screen.getvalue() == "· This was not taken (RuntimeError).\n" * 2


class Keyboard(io.StringIO):
    """Lines that somebody types after a prompt."""

    def isatty(self) -> bool:
        return True


async def test_an_end_while_an_answer_is_awaited_is_said_at_once_and_no_further_line_is_asked_for() -> None:
    screen, inbox = io.StringIO(), RecordingInbox()
    terminal = TerminalAdapter(source=Keyboard("hello\nanybody?\n"), sink=screen)
    async with terminal.serve(inbox):
        await inbox.changed.wait()
        terminal.finished.set()
        await asyncio.sleep(0)
        assert screen.getvalue() == "you> \n· Leaving after this answer.\n"
        (asked,) = inbox.got
        await terminal.deliver(Outbound(key="k", address=ADDRESS, part={"text": "Hello."}, reply_to=asked.message_id))
        for _ in range(3):  # whoever waited for the answer goes on
            await asyncio.sleep(0)
    assert (screen.getvalue().count("you> "), screen.getvalue().endswith("\nHello.\n\n")) == (1, True)


async def test_an_end_while_nothing_is_asked_says_nothing() -> None:
    screen = io.StringIO()
    terminal = TerminalAdapter(source=io.StringIO(), sink=screen)
    async with terminal.serve(RecordingInbox()):
        await terminal.finished.wait()
    assert screen.getvalue() == ""
