"""The Web API client, set up so that it repeats nothing, logs no secret and asks no proxy that it should not."""

from urllib.parse import urlsplit
from urllib.request import proxy_bypass

from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack.sdk_log import sdk_logger
from adapters.slack.settings import SlackSettings


def web_client(settings: SlackSettings, *, token: str | None, answer_within: float = 30.0) -> AsyncWebClient:
    """Make the client; `answer_within` is in seconds and holds while the caller gives it no session of its own.

    No request is repeated by the SDK: a repeated post is a double answer.
    """
    client = AsyncWebClient(
        token=token, base_url=settings.api_url, timeout=int(answer_within), logger=sdk_logger(), retry_handlers=[]
    )
    # The SDK takes a proxy from the environment and overlooks NO_PROXY.
    host = urlsplit(settings.api_url).hostname or ""
    if proxy_bypass(host) or host in {"127.0.0.1", "::1", "localhost"}:
        client.proxy = None
    return client
