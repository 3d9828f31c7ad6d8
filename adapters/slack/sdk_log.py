"""The logger that Slack's libraries get: no contents, no tokens, no tickets.

At DEBUG the SDK prints whole messages, and its errors print the socket's address, whose ticket is a secret.
"""

import logging
import re

from slack_bolt.logger.messages import warning_client_prioritized_and_token_skipped

# Bolt reads SLACK_BOT_TOKEN from the environment by itself and then wonders why it is not used.
_EXPECTED = warning_client_prioritized_and_token_skipped()
_CONNECTION = re.compile(
    r"Failed to (receive or enqueue|check the current session|retrieve WSS URL|connect|send a ping|close the old)"
    r"|The (current |old )?session \(.*?\) (seems to be|has been abandoned)|Received CLOSE event|A new session \("
    r"|The aiohttp client session is closed|Rate limited"
)
_SECRET = re.compile(r"\b(xox[a-z]-|xapp-|xoxe\.)[\w.-]+|([?&](?:ticket|token|link_\w+)=)[^&\s'\"]+")


def sdk_logger() -> logging.Logger:
    """Return the logger for slack-sdk and slack-bolt, which never prints below INFO and never a secret."""
    logger = logging.getLogger("slack_bolt.reverie")
    logger.setLevel(max(logging.INFO, logging.getLogger().level))
    logger.addFilter(without_secrets)
    return logger


class Trouble(logging.Filter):
    """Takes the SDK's lines about a connection that fails out of the log and keeps the last of them.

    The SDK writes an error with each of its attempts, from two loops at once, for as long as Slack is away.
    """

    last = ""
    """The line, without secrets; empty if there was none."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Drop what is about the connection, and cut secrets out of the rest."""
        if not without_secrets(record):
            return False
        if not _CONNECTION.match(record.msg):
            return True
        if record.levelno >= logging.WARNING:
            self.last = record.msg
        return False


def socket_logger() -> tuple[logging.Logger, Trouble]:
    """Return the logger for a Socket Mode connection and what it keeps; the filter is to be removed at its end."""
    logger, trouble = sdk_logger().getChild("socket"), Trouble()
    logger.addFilter(trouble)
    return logger, trouble


def without_secrets(record: logging.LogRecord) -> bool:
    """Cut secrets out of a record, and its traceback too: the exception's text holds the same address."""
    if record.getMessage() == _EXPECTED:
        return False
    record.msg, record.args = _SECRET.sub(r"\1\2…", record.getMessage()), None
    record.exc_info, record.exc_text = None, None
    return True
