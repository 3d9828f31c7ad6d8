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
from adapters.telegram.errors import Target, cured, described, translated


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


@pytest.mark.parametrize("error", [BadRequest("TOPIC_CLOSED"), Forbidden("kicked"), NetworkError("Bad Gateway")])
def test_nothing_is_gone_round_that_a_person_decided_or_that_is_unsure(error: TelegramError) -> None:
    assert cured(error, Target(chat=1, thread=4, message_id=5)) is None


def test_a_refused_token_is_not_repeated() -> None:
    assert "123:secret" not in described(InvalidToken("The token `123:secret` was rejected by the server."))
