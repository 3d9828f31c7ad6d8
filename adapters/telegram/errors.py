"""Telegram's errors in our words, and what a post can do about them.

what happened                                        ours
429 with retry_after                                 Transient, with that wait
403: blocked, kicked, not a member                   Permanent
400: chat not found, topic closed, no rights, …      Permanent, unless `cured` knows a way round
413: the file is too large                           Permanent, unless `cured` posts without it
401, 404: the token is not (or no longer) valid      Misconfigured
409: someone else polls, or a webhook is set         Transient
could not connect, no free connection                Transient: nothing was sent
no or half an answer, timeout after sending, 5xx     Unsure: it may have been carried out
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any

import httpx
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TelegramError,
)

from adapters.errors import AdapterError, Misconfigured, Permanent, Transient, Unsure

_NOT_SENT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
)


_NOTHING_TO_EDIT = (
    "message to edit not found",
    "message can't be edited",
    "no text in the message",
    "message_id_invalid",
)
_NO_TOPIC = ("message thread not found", "topic_deleted", "topic_id_invalid")
_NOTHING_TO_ANSWER = ("message to be replied not found", "message to reply not found", "reply_message_id_invalid")
_TOO_LARGE = "entity too large"
_MAY_NOT_SEND = "not enough rights to send"


class Carrying(StrEnum):
    """How the file of a part goes along."""

    PICTURE = "picture"
    DOCUMENT = "document"
    NOTHING = "nothing"
    """There is none, or it can't be sent there, which the text then says."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """Where and how a part is to be posted; `message_id` is to be replaced by it, `reply_to` is what it answers."""

    chat: int
    thread: int | None = None
    message_id: int | None = None
    reply_to: int | None = None
    formatted: bool = True
    carrying: Carrying = Carrying.NOTHING


def translated(error: TelegramError) -> AdapterError:
    """Return our error for one of the library's."""
    cause = described(error)
    match error:
        case RetryAfter():
            return Transient(f"Telegram asks to wait: {cause}", retry_after=seconds_to_wait(error))
        case InvalidToken():
            return Misconfigured(
                "Telegram refuses the bot token: copy the current one from @BotFather "
                "(/mybots, then API Token) into TELEGRAM_BOT_TOKEN"
            )
        case Forbidden() | BadRequest() | ChatMigrated():
            return Permanent(f"Telegram refuses: {cause}")
        case Conflict():
            return Transient(f"Telegram is in use elsewhere: {cause}")
    return _unanswered(error)


def _unanswered(error: TelegramError) -> AdapterError:
    cause = described(error)
    if is_too_large(error):
        return Permanent(f"Telegram refuses: {cause}")
    if isinstance(error.__cause__, _NOT_SENT):
        return Transient(f"Telegram can't be reached: {cause}")
    return Unsure(f"Telegram gave no usable answer: {cause}")


def cured(error: TelegramError, target: Target) -> Target | None:
    """Return where the same part can be posted instead, or None; each cure works once, so cures come to an end.

    - The group became a supergroup: there, and anew, for there the numbers of messages mean others.
    - The message to replace is gone: anew.
    - The topic was deleted: into the chat, where the answer is seen at least (a *closed* topic is a person's will, and
      stays closed).
    - What it answers was deleted: without naming it.
    - A picture is none for Telegram, or too large, or forbidden there: as a document, then without it.
    - Entities were not understood: the bare text.
    """
    better = target
    said = str(error).lower()
    if isinstance(error, ChatMigrated):
        better = replace(target, chat=error.new_chat_id, message_id=None, reply_to=None)
    elif is_too_large(error):
        better = replace(target, carrying=Carrying.NOTHING)
    elif isinstance(error, BadRequest):
        better = _cured(said, target)
    return better if better != target else None


def _cured(said: str, target: Target) -> Target:
    without: tuple[tuple[Sequence[str], dict[str, Any]], ...] = (
        (_NOTHING_TO_EDIT, {"message_id": None}),
        (_NO_TOPIC, {"thread": None}),
        (_NOTHING_TO_ANSWER, {"reply_to": None}),
    )
    for words, better in without:
        if any(each in said for each in words):
            return replace(target, **better)
    if target.carrying is Carrying.PICTURE and ("photo" in said or "image" in said):
        return replace(target, carrying=Carrying.DOCUMENT)
    if target.carrying is Carrying.DOCUMENT and _MAY_NOT_SEND in said:
        return replace(target, carrying=Carrying.NOTHING)
    return replace(target, formatted=False) if "entit" in said else target


def is_too_large(error: TelegramError) -> bool:
    """Say whether a request was larger than the server takes: then nothing of it was carried out."""
    return isinstance(error, NetworkError) and _TOO_LARGE in str(error).lower()


def is_unchanged(error: TelegramError) -> bool:
    """Say whether an edit failed only because the message shows that text already."""
    return isinstance(error, BadRequest) and "message is not modified" in str(error).lower()


def seconds_to_wait(error: RetryAfter) -> float:
    """Return how long Telegram wants to be left alone (the library is on its way from numbers to timedelta)."""
    wait = error.retry_after
    return wait.total_seconds() if isinstance(wait, timedelta) else float(wait)


def described(error: BaseException) -> str:
    """Return an error in one line for logs; never its request, whose address holds the token."""
    said = str(error) if isinstance(error, TelegramError) and not isinstance(error, InvalidToken) else ""
    cause = type(error.__cause__).__name__ if error.__cause__ is not None else ""
    return ": ".join(word for word in (type(error).__name__, said or cause) if word)
