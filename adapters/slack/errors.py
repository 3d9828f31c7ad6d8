"""Slack's refusals and a broken connection, translated once into `adapters.errors`.

A request whose answer was lost is `Unsure` if it may have posted something and `Transient` if it only read.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import aiohttp
from slack_sdk.errors import SlackApiError

from adapters.errors import AdapterError, Misconfigured, Permanent, Transient, Unsure

_NEW_TOKEN = "copy the bot token (xoxb-…) again from OAuth & Permissions into SLACK_BOT_TOKEN"  # noqa: S105
_REINSTALL = "reinstall the app into the workspace, then copy the new bot token into SLACK_BOT_TOKEN"

CURES: Mapping[str, str] = MappingProxyType(
    {
        "invalid_auth": f"Slack does not know this token: {_NEW_TOKEN}",
        "not_authed": f"no token was sent: {_NEW_TOKEN}",
        "account_inactive": f"the token belongs to a removed app or workspace: {_REINSTALL}",
        "token_revoked": f"the token was revoked: {_REINSTALL}",
        "token_expired": f"the token has expired: {_REINSTALL}",
        "not_allowed_token_type": f"this kind of token may not do that: {_NEW_TOKEN}",
        "org_login_required": "the workspace is being moved to an organisation: ask its administrators",
        "ekm_access_denied": "the workspace's administrators have suspended access: ask them",
        "team_access_not_granted": "the app is not granted to this workspace: approve it there",
        "missing_scope": "the app lacks a scope: add it under OAuth & Permissions and reinstall the app",
    }
)
"""Errors that only the operator can mend, and how."""

_NOT_NOW = frozenset(
    {
        "ratelimited",
        "rate_limited",
        "message_limit_exceeded",
        "service_unavailable",
        "request_timeout",
        "team_added_to_org",
        "accesslimited",
    }
)
"""Refused before anything was done; worth another try."""

_MAYBE_DONE = frozenset({"internal_error", "fatal_error", ""})
"""Slack documents of the first two that part of the work may have been done before they were raised."""

_ADVICE: Mapping[str, str] = MappingProxyType(
    {
        "not_in_channel": "the bot is not in this channel: invite it with /invite",
        "channel_not_found": "the channel is gone, or private and the bot was not invited",
        "is_archived": "the channel is archived",
    }
)


def error_name(error: SlackApiError) -> str:
    """Return Slack's own word for the refusal, empty if the answer was no Slack answer."""
    data = getattr(error.response, "data", None)
    return str(data.get("error", "")) if isinstance(data, Mapping) else ""


def refusal_behind(error: AdapterError) -> str:
    """Return Slack's own word behind a translated error, empty if Slack did not refuse."""
    return error_name(error.__cause__) if isinstance(error.__cause__, SlackApiError) else ""


@contextmanager
def posting() -> Iterator[None]:
    """Translate what a changing request raises: a lost answer becomes `Unsure`."""
    try:
        yield
    except SlackApiError as error:
        raise _refusal(error, lost=Unsure) from error
    except _BROKEN as error:
        raise _broken(error, lost=Unsure) from error


@contextmanager
def reading() -> Iterator[None]:
    """Translate what a reading request raises: a lost answer becomes `Transient`, it may be asked again."""
    try:
        yield
    except SlackApiError as error:
        raise _refusal(error, lost=Transient) from error
    except _BROKEN as error:
        raise _broken(error, lost=Transient) from error


# AttributeError: the SDK calls .get() on a text/plain answer of status 200, as a proxy's login page sends it.
_BROKEN = (aiohttp.ClientError, TimeoutError, OSError, AttributeError)


def _broken(error: Exception, *, lost: type[AdapterError]) -> AdapterError:
    if isinstance(error, aiohttp.InvalidURL):
        return Misconfigured("SLACK_API_URL is no web address")
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return Transient(f"Slack can't be reached ({type(error).__name__})")
    return lost(f"Slack's answer was lost ({type(error).__name__})")


def _refusal(error: SlackApiError, *, lost: type[AdapterError]) -> AdapterError:
    name, response = error_name(error), error.response
    # The SDK hands over aiohttp's own response when the body was no JSON.
    status = response.status_code if hasattr(response, "status_code") else response.status
    if status == 429 or name in _NOT_NOW:
        return Transient(f"Slack: {name or 'ratelimited'}", retry_after=_retry_after(response))
    if name in CURES:
        return Misconfigured(f"Slack: {name}{_needed(response, name)}: {CURES[name]}")
    if status >= 500 or name in _MAYBE_DONE:
        if 400 <= status < 500:
            return Misconfigured(f"SLACK_API_URL does not lead to Slack's API (HTTP {status})")
        return lost(f"Slack: {name or 'no usable answer'} (HTTP {status})")
    return Permanent(f"Slack: {name}" + (f": {_ADVICE[name]}" if name in _ADVICE else ""))


def _needed(response: Any, name: str) -> str:
    needed = response.get("needed") if name == "missing_scope" else None
    return f" ({needed})" if needed else ""


def _retry_after(response: Any) -> float | None:
    try:
        return max(0.0, float(response.headers["Retry-After"]))
    except (KeyError, ValueError):
        return None
