"""Telegram's errors in our words, and what a post can do about them.

what happened                                        ours
429 with retry_after                                 Transient, with that wait
403: blocked, kicked, not a member                   Permanent
400: chat not found, topic closed, no rights, …      Permanent, unless `cured` knows a way round
401, 404: the token is not (or no longer) valid      Misconfigured
409: someone else polls, or a webhook is set         Transient
could not connect, no free connection                Transient: nothing was sent
no or half an answer, timeout after sending, 5xx     Unsure: it may have been carried out
"""

from dataclasses import dataclass, replace
from datetime import timedelta

import httpx
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    Forbidden,
    InvalidToken,
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """Where and how a part is to be posted; `message_id` is to be replaced by it, `reply_to` is what it answers."""

    chat: int
    thread: int | None = None
    message_id: int | None = None
    reply_to: int | None = None
    formatted: bool = True


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
    if isinstance(error.__cause__, _NOT_SENT):
        return Transient(f"Telegram can't be reached: {cause}")
    return Unsure(f"Telegram gave no usable answer: {cause}")


def cured(error: TelegramError, target: Target) -> Target | None:
    """Return where the same part can be posted instead, or None; each cure works once, so cures come to an end.

    - The group became a supergroup: there, and anew, for there the numbers of messages mean others.
    - The message to replace is gone: anew.
    - The topic was deleted: into the chat, where the answer is seen at least (a *closed* topic is a person's will, and
      stays closed).
    - Entities were not understood: the bare text.
    """
    better = target
    said = str(error).lower()
    if isinstance(error, ChatMigrated):
        better = replace(target, chat=error.new_chat_id, message_id=None, reply_to=None)
    elif isinstance(error, BadRequest):
        if "message to edit not found" in said or "message can't be edited" in said:
            better = replace(target, message_id=None)
        elif "message thread not found" in said:
            better = replace(target, thread=None)
        elif "entit" in said:
            better = replace(target, formatted=False)
    return better if better != target else None


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
