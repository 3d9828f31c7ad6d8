"""Pressing the buttons that a whole gateway shows."""

import itertools

from adapters.base import Account, ChatKind, Pressed
from tests.acceptance.whole import Speaker, Whole, until

_numbers = itertools.count(1)


async def offered(running: Whole, label: str, *, where: Speaker) -> tuple[str, str]:
    """Wait for a button in somebody's chat; return the newest one's message and token."""

    async def found() -> tuple[str, str] | None:
        shown = [(id_, each) for id_, each in running.adapter.shown.items() if each.address.chat == where.chat]
        return next(((id_, one.token) for id_, each in shown[::-1] for one in each.buttons if one.label == label), None)

    return await until(found, f"nowhere is a button {label!r}")


async def press(running: Whole, who: Speaker, button: tuple[str, str]) -> str:
    """Press a button and return the word that its presser gets, or what its message shows once that is answered."""
    message_id, token = button
    pressed = Pressed(
        external_id=f"press{next(_numbers)}",
        address=running.adapter.shown[message_id].address,
        kind=ChatKind.SHARED if who.shared else ChatKind.PRIVATE,
        account=Account(platform="telegram", user=who.user),
        name=who.name,
        token=token,
        message_id=message_id,
    )
    if word := await running.gateway.intake.pressed(pressed):
        return word
    await running.settled()
    return running.adapter.shown[message_id].text
