from datetime import timedelta

import httpx
import pytest
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TelegramError,
    TimedOut,
)

from adapters.errors import AdapterError, Misconfigured, Permanent, Transient, Unsure
from adapters.telegram.errors import Carrying, Target, cured, described, translated


def caused(error: TelegramError, cause: Exception) -> TelegramError:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "ours"),
    [
        (Forbidden("bot was blocked"), Permanent),
        (BadRequest("Chat not found"), Permanent),
        (InvalidToken(), Misconfigured),
        (Conflict("terminated"), Transient),
        (caused(NetworkError("x"), httpx.ConnectError("x")), Transient),
        (caused(TimedOut(), httpx.ConnectTimeout("x")), Transient),
        (caused(TimedOut(), httpx.PoolTimeout("x")), Transient),
        (caused(TimedOut(), httpx.ReadTimeout("x")), Unsure),
        (caused(TimedOut(), httpx.WriteTimeout("x")), Unsure),
        (caused(NetworkError("x"), httpx.ReadError("x")), Unsure),
        (caused(NetworkError("x"), httpx.RemoteProtocolError("x")), Unsure),
        (NetworkError("Bad Gateway"), Unsure),
        (NetworkError("Request Entity Too Large"), Permanent),
        (BadRequest("Not enough rights to send text messages to the chat"), Permanent),
        (BadRequest("TOPIC_CLOSED"), Permanent),
        (Forbidden("bot was kicked from the supergroup chat"), Permanent),
        (TelegramError("Invalid server response"), Unsure),
    ],
)
def test_each_error_says_whether_to_try_again(error: TelegramError, ours: type[AdapterError]) -> None:
    assert type(translated(error)) is ours


def test_the_wait_that_telegram_asks_for_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTB_TIMEDELTA", "true")
    ours = translated(RetryAfter(timedelta(seconds=17)))
    assert isinstance(ours, Transient)
    assert ours.retry_after == 17


@pytest.mark.parametrize(
    ("error", "better"),
    [
        (ChatMigrated(-100), Target(chat=-100, thread=4)),
        (BadRequest("Message to edit not found"), Target(chat=1, thread=4)),
        (BadRequest("Message thread not found"), Target(chat=1, message_id=5)),
        (BadRequest("Can't parse entities: x"), Target(chat=1, thread=4, message_id=5, formatted=False)),
    ],
)
def test_a_cure_works_once(error: TelegramError, better: Target) -> None:
    target = Target(chat=1, thread=4, message_id=5)
    assert cured(error, target) == better
    assert cured(error, better) is None


@pytest.mark.parametrize(
    ("error", "carrying", "better"),
    [
        (BadRequest("PHOTO_INVALID_DIMENSIONS"), Carrying.PICTURE, Carrying.DOCUMENT),
        (BadRequest("IMAGE_PROCESS_FAILED"), Carrying.PICTURE, Carrying.DOCUMENT),
        (BadRequest("not enough rights to send photos to the chat"), Carrying.PICTURE, Carrying.DOCUMENT),
        (BadRequest("not enough rights to send documents to the chat"), Carrying.DOCUMENT, Carrying.NOTHING),
        (NetworkError("Request Entity Too Large"), Carrying.PICTURE, Carrying.NOTHING),
    ],
)
def test_a_file_that_is_refused_goes_in_another_way_or_stays_behind(
    error: TelegramError, carrying: Carrying, better: Carrying
) -> None:
    assert cured(error, Target(chat=1, carrying=carrying)) == Target(chat=1, carrying=better)
    assert cured(error, Target(chat=1)) is None


@pytest.mark.parametrize(
    ("words", "better"),
    [
        ("there is no text in the message to edit", Target(chat=1, thread=4, reply_to=6)),
        ("MESSAGE_ID_INVALID", Target(chat=1, thread=4, reply_to=6)),
        ("message to be replied not found", Target(chat=1, thread=4, message_id=5)),
        ("TOPIC_DELETED", Target(chat=1, message_id=5, reply_to=6)),
    ],
)
def test_what_is_gone_is_left_out_and_everything_else_is_kept(words: str, better: Target) -> None:
    assert cured(BadRequest(words), Target(chat=1, thread=4, message_id=5, reply_to=6)) == better


@pytest.mark.parametrize("error", [BadRequest("TOPIC_CLOSED"), Forbidden("kicked"), NetworkError("Bad Gateway")])
def test_nothing_is_gone_round_that_a_person_decided_or_that_is_unsure(error: TelegramError) -> None:
    assert cured(error, Target(chat=1, thread=4, message_id=5)) is None


def test_a_refused_token_is_not_repeated() -> None:
    assert "123:secret" not in described(InvalidToken("The token `123:secret` was rejected by the server."))
