"""Messages as the inbox keeps them, and how one that still waits grows or changes.

Parts of one thing that was sent at once, an album or a text that was cut in two, become one message: the first of them
waits a moment, and takes up what follows. `parts` in a row's payload holds the words of each, so that an edit of one
finds its place.
"""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from adapters.base import Account, Address, Attachment, ChatKind, Inbound, Quoted
from gateway.db.models import InboxRow

GATHER_SECONDS = 1.2
"""How long a message that may be only a part waits for the next: apps send the parts within a second."""

SENT_APART_SECONDS = 2.0
"""How far apart, by the platform's clock, the parts of one text are sent at most; Telegram's has whole seconds."""

_PARTS, _AT, _SENT = "parts", "last_part_at", "last_part_sent_at"  # in a payload, of a message that was put together
_BEHIND = "behind"  # in a payload, of one that came while another of its conversation was open


def to_json(inbound: Inbound) -> dict[str, Any]:
    """Return a message as a payload."""
    return asdict(inbound) | {"kind": inbound.kind.value, "sent_at": inbound.sent_at.timestamp()}


def from_json(payload: dict[str, Any]) -> Inbound:
    """Read a payload, also one of an earlier version; raises `KeyError`, `TypeError` or `ValueError`."""
    fields = {name: value for name, value in payload.items() if name not in (_PARTS, _AT, _SENT, _BEHIND)}
    return Inbound(
        **fields
        | {
            "address": Address(**payload["address"]),
            "account": Account(**payload["account"]),
            "kind": ChatKind(payload["kind"]),
            "sent_at": datetime.fromtimestamp(payload["sent_at"], UTC),
            "attachments": tuple(map(_attachment, payload["attachments"])),
            "quoted": Quoted(**payload["quoted"]) if payload.get("quoted") else None,
        }
    )


def ready_at(inbound: Inbound, *, now: float) -> float:
    """Return the time before which a message is not answered: none, unless more of it may follow."""
    return now + GATHER_SECONDS if inbound.more_may_follow else 0.0


def put_behind(row: InboxRow) -> None:
    """Note that a message waits behind another one."""
    row.payload = row.payload | {_BEHIND: True}


def is_behind(payload: dict[str, Any]) -> bool:
    """Whether a message came while another one of its conversation waited or was answered."""
    return bool(payload.get(_BEHIND))


def is_command(text: str) -> bool:
    """Whether a message is meant as a command: a slash and a letter, nothing like a path."""
    word = text.split(maxsplit=1)[0] if text.strip() else ""
    return word.startswith("/") and word[1:2].isalpha() and "/" not in word[1:]


def belongs(inbound: Inbound, head: InboxRow, *, now: float) -> bool:
    """Whether a message is a further part of the one that waits, the last of its sender's."""
    payload = head.payload
    if not payload.get("more_may_follow") or payload["account"] != asdict(inbound.account):
        return False
    if payload.get("forwarded_from", "") != inbound.forwarded_from:
        return False
    if payload.get("only_for_sender", False) != inbound.only_for_sender:  # one message has one answer
        return False
    if inbound.batch or payload.get("batch"):
        return bool(inbound.batch == payload.get("batch"))
    if inbound.in_place_of or inbound.quoted or is_command(inbound.own_words):
        return False  # apps cut texts alone, and only the first part answers something
    # Both clocks: after a time without connection, what was sent far apart comes at once.
    apart = inbound.sent_at.timestamp() - payload.get(_SENT, payload["sent_at"])
    at_once = now - payload.get(_AT, head.received_at) <= GATHER_SECONDS
    return bool(at_once and abs(apart) <= SENT_APART_SECONDS)


def take_up(head: InboxRow, inbound: Inbound, *, now: float) -> None:
    """Let the message that waits take up a further part of itself."""
    before = head.payload
    parts = before.get(_PARTS) or {head.external_id: before["text"]}
    parts = {**parts, inbound.external_id: inbound.text}
    part = to_json(inbound)
    head.payload = before | {
        _PARTS: parts,
        _AT: now,
        _SENT: part["sent_at"],
        "text": _joined(parts),
        "attachments": [*before["attachments"], *part["attachments"]],
        "more_may_follow": inbound.more_may_follow,
        "addressed": before["addressed"] or inbound.addressed,
        "quoted": before.get("quoted") or part["quoted"],
    }
    head.not_before = ready_at(inbound, now=now)


def amend(row: InboxRow, external_id: str, text: str) -> bool:
    """Put other words into a message, or into that part of it; False if they are the same as before."""
    parts = dict(row.payload.get(_PARTS) or {})
    if external_id in parts:
        parts[external_id] = text
        text = _joined(parts)
    if text == row.payload["text"]:
        return False
    row.payload = row.payload | {"text": text} | ({_PARTS: parts} if parts else {})
    return True


def _joined(parts: dict[str, str]) -> str:
    return "\n".join(text for text in parts.values() if text)


def _attachment(stored: dict[str, Any] | str) -> Attachment:
    return Attachment(kind=stored) if isinstance(stored, str) else Attachment(**stored)  # of an earlier version
