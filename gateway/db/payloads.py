"""The words in what came in, as the inbox stores it: all of them, and what is left without them."""

from collections.abc import Iterator
from typing import Any

from gateway.db.redaction import texts_in

_KEPT = frozenset(
    {
        "external_id",
        "address",
        "kind",
        "account",
        "message_id",
        "sent_at",
        "addressed",
        "in_conversation",
        "for_another",
        "thread_reply",
        "only_for_sender",
        "in_place_of",
    }
)
"""Named one by one, so that what is added to a message is not kept unless somebody has thought of it."""


def wordless(payload: dict[str, Any]) -> dict[str, Any]:
    """Return a payload without anything that people wrote, their names included: ids, and when it was sent."""
    left = {name: value for name, value in payload.items() if name in _KEPT}
    return left | {"name": "", "text": "", "attachments": []}


def words_in(payload: dict[str, Any]) -> Iterator[str]:
    """Yield all that a message says, answers, passes on or is called by; not who sent it and where."""
    yield from texts_in(payload.get("text"))
    yield from texts_in(payload.get("parts"))
    yield from words_beside(payload)


def words_beside(payload: dict[str, Any]) -> Iterator[str]:
    """Yield those of them that are not in the message's own text."""
    yield from texts_in(payload.get("quoted"))
    yield from texts_in(payload.get("forwarded_from"))
    for came in payload.get("attachments", ()):
        if isinstance(came, dict):  # an earlier version stored the kind alone
            yield from texts_in(came.get("name"))
