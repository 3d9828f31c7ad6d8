import io

from adapters.base import Address, Inbound
from adapters.terminal import TerminalAdapter


class ClosedInbox:
    """Takes nothing, as a gateway that is stopping."""

    async def put(self, inbound: Inbound) -> None:
        raise RuntimeError(inbound.text)

    async def moved(self, old: Address, new: Address) -> None:
        raise AssertionError("a terminal stays where it is")


async def test_a_line_that_is_not_taken_is_said_and_ends_nothing() -> None:
    screen = io.StringIO()
    terminal = TerminalAdapter(source=io.StringIO("hello\nanybody?\n"), sink=screen)
    async with terminal.serve(ClosedInbox()):
        await terminal.finished.wait()
    assert screen.getvalue() == "· This was not taken (RuntimeError).\n" * 2
