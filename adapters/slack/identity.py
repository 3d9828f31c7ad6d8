"""Who we are in the workspace and what our token may do."""

from slack_sdk.web.async_client import AsyncWebClient

from adapters.errors import Misconfigured
from adapters.slack.errors import reading
from adapters.slack.inbound import Bot
from adapters.slack.manifest import ESSENTIAL_SCOPE, SCOPES

_CURE = "add it under OAuth & Permissions and reinstall the app"


async def identify(client: AsyncWebClient) -> tuple[Bot, str]:
    """Ask Slack who we are; return it with a note on missing scopes, empty if there is nothing to note.

    Raises `Misconfigured` if the token is refused, is no bot's, or may not post, `Transient` if Slack can't
    be reached.
    """
    with reading():
        answer = await client.auth_test()
    if not answer.get("bot_id"):
        raise Misconfigured("SLACK_BOT_TOKEN is no bot's token: copy the one that begins with xoxb-")
    note = _missing_scopes(answer.headers.get("x-oauth-scopes"))
    bot = Bot(
        team=str(answer["team_id"]),
        user=str(answer["user_id"]),
        bot=str(answer["bot_id"]),
        name=str(answer.get("user") or "bot"),
    )
    return bot, note


def _missing_scopes(header: str | None) -> str:
    if not header:
        return ""
    granted = {scope.strip() for scope in header.split(",")}
    if ESSENTIAL_SCOPE not in granted:
        raise Misconfigured(f"Slack: the bot's token lacks the scope {ESSENTIAL_SCOPE}: {_CURE}")
    missing = [scope for scope in SCOPES if scope not in granted]
    return f"the token lacks {', '.join(missing)}: {_CURE}" if missing else ""
