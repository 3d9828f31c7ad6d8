"""Slack's refusals, translated."""

from typing import Any

import aiohttp
import pytest
from multidict import CIMultiDict
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from adapters.errors import AdapterError, Misconfigured, Permanent, Transient, Unsure
from adapters.slack.errors import posting, reading, refusal_behind


def refused(data: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> SlackApiError:
    response = AsyncSlackResponse(
        client=AsyncWebClient(),
        http_verb="POST",
        api_url="https://slack.example/api/chat.postMessage",
        req_args={},
        data=data,
        headers=CIMultiDict(headers or {}),  # type: ignore[arg-type]
        status_code=status,
    )
    return SlackApiError("refused", response)  # type: ignore[no-untyped-call]


def translated(error: Exception, *, reads: bool = False) -> AdapterError:
    with pytest.raises(AdapterError) as caught, reading() if reads else posting():
        raise error
    return caught.value


@pytest.mark.parametrize("name", ["channel_not_found", "is_archived", "msg_too_long", "no_such_word_yet"])
def test_a_plain_refusal_is_for_good(name: str) -> None:
    error = translated(refused({"ok": False, "error": name}))
    assert isinstance(error, Permanent)
    assert name in str(error)
    assert refusal_behind(error) == name


@pytest.mark.parametrize("name", ["invalid_auth", "token_revoked", "account_inactive", "missing_scope"])
def test_a_refused_token_names_its_cure(name: str) -> None:
    error = translated(refused({"ok": False, "error": name, "needed": "chat:write"}))
    assert isinstance(error, Misconfigured)
    assert name in str(error)
    assert "OAuth & Permissions" in str(error) or "reinstall" in str(error)
    assert ("chat:write" in str(error)) == (name == "missing_scope")


def test_a_flood_limit_says_how_long_to_wait() -> None:
    answer = {"ok": False, "error": "ratelimited"}
    error = translated(refused(answer, status=429, headers={"Retry-After": "17"}))
    assert isinstance(error, Transient)
    assert error.retry_after == 17.0
    unsaid = translated(refused("slow down", status=429))
    assert isinstance(unsaid, Transient)
    assert unsaid.retry_after is None


@pytest.mark.parametrize(
    "error",
    [
        refused({}, status=503),
        refused("<html>", status=502),
        refused({"ok": False, "error": "internal_error"}),
        refused({"ok": False, "error": "fatal_error"}),
        aiohttp.ServerDisconnectedError(),
        aiohttp.ClientPayloadError(),
        aiohttp.ServerTimeoutError(),
        TimeoutError(),
        AttributeError("'str' object has no attribute 'get'"),
    ],
    ids=repr,
)
def test_a_lost_answer_is_unsure_for_a_post_and_transient_for_a_question(error: Exception) -> None:
    assert isinstance(translated(error), Unsure)
    assert isinstance(translated(error, reads=True), Transient)


def test_what_never_reached_slack_was_not_done() -> None:
    assert isinstance(translated(aiohttp.ConnectionTimeoutError()), Transient)


def test_an_address_that_is_not_slack_is_the_operators_to_mend() -> None:
    assert isinstance(translated(refused({}, status=404)), Misconfigured)
    assert isinstance(translated(aiohttp.InvalidURL("x")), Misconfigured)
