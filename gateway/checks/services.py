"""What is reached over the network: Telegram, Slack, the model, and the clocks of them all."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import anthropic
import httpx
import httpx2
import telegram
from anthropic.types import Message
from telegram.error import InvalidToken, RetryAfter, TelegramError

from adapters.errors import AdapterError
from adapters.slack.client import web_client
from adapters.slack.errors import CURES, reading, refusal_behind
from adapters.slack.manifest import ESSENTIAL_SCOPE, SCOPES
from adapters.slack.settings import SlackSettings
from adapters.telegram.connection import connect
from adapters.telegram.errors import described, translated
from adapters.telegram.settings import TelegramSettings
from gateway.checks.finding import Finding, Limits, fail, off, ok, warn
from gateway.settings import ModelSettings, Settings

_PUBLIC_MODEL = "https://api.anthropic.com"
_NETWORK = "Check this machine's network and proxy, and"


# --- Telegram ---


async def check_telegram(settings: TelegramSettings, *, groups: bool) -> list[Finding]:
    """Ask who we are and whether a webhook is set; `groups` says whether the bot may be used in groups."""
    bot = connect(settings)
    try:
        await bot.initialize()
        webhook = await bot.get_webhook_info()
        me = bot.bot
    except InvalidToken:
        cure = "Copy the current one from @BotFather (/mybots, API Token) into TELEGRAM_BOT_TOKEN"
        said = f"{settings.api_url} refuses the bot token"
        return [fail("telegram", said, f"{cure}, and check TELEGRAM_API_URL if it is set.")]
    except RetryAfter as error:
        return [warn("telegram", f"{settings.api_url} answers, but is busy: {described(error)}", "Try again later.")]
    except TelegramError as error:
        said = f"{settings.api_url}: {translated(error)}"
        return [fail("telegram", said, f"{_NETWORK} TELEGRAM_API_URL if it is set.")]
    finally:
        await bot.shutdown()
    return [
        ok("telegram", f"the token is that of @{me.username}"),
        *(_privacy(me) if groups else ()),
        *_webhook(webhook, settings),
    ]


def _privacy(me: telegram.User) -> list[Finding]:
    if me.can_read_all_group_messages:
        return [ok("telegram groups", "the bot sees every message of its groups")]
    said = "privacy mode is on: in groups the bot sees only mentions, replies to it and commands"
    cure = (
        "If it shall follow the talk: @BotFather, /setprivacy, Disable; then remove it from the group and add it again."
    )
    return [warn("telegram groups", said, cure)]


def _webhook(info: telegram.WebhookInfo, settings: TelegramSettings) -> list[Finding]:
    if info.url and info.url != settings.webhook_url:
        said = f"messages go to a webhook at {urlsplit(info.url).hostname}, so another program may use this bot"
        cure = "Stop that program, or make a bot of its own for it: Reverie takes the webhook over when it starts."
        return [warn("telegram webhook", said, cure)]
    if info.url and info.last_error_message:
        said = f"Telegram could not call the webhook: {info.last_error_message}"
        return [warn("telegram webhook", said, "Check that its address leads to the gateway's HTTP port.")]
    return []


# --- Slack ---


async def check_slack(settings: SlackSettings, limits: Limits) -> list[Finding]:
    """Try both tokens and compare the scopes with those that the manifest asks for."""
    return [
        found
        for part in await asyncio.gather(_bot_token(settings, limits), _way_in(settings, limits))
        for found in part
    ]


async def _bot_token(settings: SlackSettings, limits: Limits) -> list[Finding]:
    token = settings.bot_token.get_secret_value()
    try:
        with reading():
            answer = await web_client(settings, token=token, answer_within=limits.answer_within).auth_test()
    except AdapterError as error:
        return [_refused_by_slack("slack", error, "SLACK_BOT_TOKEN")]
    if not answer.get("bot_id"):
        cure = "Copy the one that begins with xoxb- from OAuth & Permissions into SLACK_BOT_TOKEN."
        return [fail("slack", "the token is no bot's", cure)]
    who = ok("slack", f"the token is that of {answer.get('user')} in {answer.get('team')} ({answer.get('team_id')})")
    return [who, _scopes(answer.headers.get("x-oauth-scopes"))]


def _scopes(header: str | None) -> Finding:
    if not header:
        return off("slack scopes", "the server does not say which ones the token has")
    granted = {scope.strip() for scope in header.split(",")}
    missing = [scope for scope in SCOPES if scope not in granted]
    if not missing:
        return ok("slack scopes", "all of them are granted")
    said = "; ".join(f"without {scope} the bot can't {SCOPES[scope]}" for scope in missing)
    cure = f"Add {', '.join(missing)} under OAuth & Permissions, Bot Token Scopes, and reinstall the app."
    return (fail if ESSENTIAL_SCOPE in missing else warn)("slack scopes", said, cure)


async def _way_in(settings: SlackSettings, limits: Limits) -> list[Finding]:
    if settings.app_token is None:
        if settings.signing_secret is not None:
            return [ok("slack events", "Slack calls /slack/events; only Slack can tell whether it gets there")]
        cure = "Set SLACK_APP_TOKEN (Socket Mode) or SLACK_SIGNING_SECRET (HTTP events)."
        return [fail("slack events", "Slack has no way in", cure)]
    try:
        with reading():
            client = web_client(settings, token=None, answer_within=limits.answer_within)
            await client.apps_connections_open(app_token=settings.app_token.get_secret_value())
    except AdapterError as error:
        return [_refused_by_slack("slack events", error, "SLACK_APP_TOKEN")]
    return [ok("slack events", "Socket Mode is on")]


def _refused_by_slack(check: str, error: AdapterError, name: str) -> Finding:
    refusal = refusal_behind(error)
    if not refusal:
        return fail(check, str(error), f"{_NETWORK} SLACK_API_URL if it is set.")
    if name == "SLACK_APP_TOKEN":
        cure = "Check SLACK_APP_TOKEN (xapp-…, with the scope connections:write) and that Socket Mode is on."
    else:
        cure = CURES.get(refusal, f"Check {name}.")
    return fail(check, f"Slack refuses {name} ({refusal})", cure)


# --- the model ---


async def check_model(settings: ModelSettings, limits: Limits) -> list[Finding]:
    """Ask each model for one token: the one request that every server of the Messages API must answer."""
    wanted = {"model": settings.chat, "model for recall": settings.recall}
    key = settings.api_key.get_secret_value() if settings.api_key else "none"
    try:
        async with anthropic.AsyncAnthropic(
            api_key=key, base_url=settings.base_url, timeout=limits.answer_within, max_retries=0
        ) as client:
            return await asyncio.gather(*(_ask(client, check, model) for check, model in wanted.items()))
    except httpx2.InvalidURL as error:
        return [fail("model", f"{settings.base_url} is no web address: {error}", "Mend ANTHROPIC_BASE_URL.")]


async def _ask(client: anthropic.AsyncAnthropic, check: str, model: str) -> Finding:
    base = str(client.base_url).rstrip("/")
    elsewhere = f"{base} does not speak the Messages API"
    try:
        answer: object = await client.messages.create(
            model=model, max_tokens=1, messages=[{"role": "user", "content": "Say hi."}]
        )
    except anthropic.APIStatusError as error:
        return _model_refusal(check, model, base, error)
    except anthropic.APIConnectionError as error:
        said = f"{base} can't be reached: {type(error.__cause__ or error).__name__}"
        return fail(check, said, f"{_NETWORK} ANTHROPIC_BASE_URL if it is set.")
    except (anthropic.AnthropicError, ValueError):
        return fail(check, elsewhere, "Check ANTHROPIC_BASE_URL.")
    if not isinstance(answer, Message):  # the SDK hands over whatever came as text
        return fail(check, elsewhere, "Check ANTHROPIC_BASE_URL.")
    return ok(check, f"{model} answers at {base}")


def _model_refusal(check: str, model: str, base: str, error: anthropic.APIStatusError) -> Finding:
    body = error.body if isinstance(error.body, dict) else {}
    inner = body.get("error")
    reason = str(inner.get("message") or "") if isinstance(inner, dict) else ""
    code = error.status_code
    if code in (401, 403):
        return fail(check, f"{base} refuses our key ({code})", "Check ANTHROPIC_API_KEY: make a new key if need be.")
    if code == 404 and model in reason:
        cure = "Write another one into model.chat or model.recall (REVERIE_MODEL__CHAT, REVERIE_MODEL__RECALL)."
        return fail(check, f"{base} does not know the model {model}", cure)
    if code in (404, 405):
        return fail(check, f"{base} does not speak the Messages API ({code})", "Check ANTHROPIC_BASE_URL.")
    if code in (408, 409, 429) or code >= 500:
        return warn(check, f"{base} can't answer now ({code}: {reason})", "Try again later; messages wait for it.")
    return fail(check, f"{base} refuses {model} ({code}: {reason})", "Mend what it names, in your account or settings.")


# --- the clock ---


async def check_clock(settings: Settings, limits: Limits, now: Callable[[], datetime]) -> list[Finding]:
    """Compare the clock with that of the first server that tells the time."""
    servers = [
        *([settings.telegram.api_url] if settings.telegram else []),
        *([settings.slack.api_url] if settings.slack else []),
        *([settings.model.base_url or _PUBLIC_MODEL] if settings.model.is_set else []),
    ]
    async with httpx.AsyncClient(timeout=limits.answer_within) as client:
        told = await asyncio.gather(*(_seconds_apart(client, server, now) for server in servers))
    known = [apart for apart in told if apart is not None]
    if not known:
        return [off("clock", "no server told the time to compare it with")]
    if abs(known[0]) <= limits.clock_apart:
        return [ok("clock", "right to the minute")]
    ahead = "ahead" if known[0] > 0 else "behind"
    said = f"the clock is {abs(known[0]):.0f} s {ahead}: signed requests are refused, and jobs run at wrong times"
    return [warn("clock", said, "Turn on time synchronisation: timedatectl set-ntp true.")]


async def _seconds_apart(client: httpx.AsyncClient, server: str, now: Callable[[], datetime]) -> float | None:
    try:
        answer = await client.head(server)
        told = parsedate_to_datetime(answer.headers["date"])
    except (httpx.HTTPError, httpx.InvalidURL, KeyError, ValueError):
        return None
    return (now() - told.replace(tzinfo=told.tzinfo or UTC)).total_seconds()
