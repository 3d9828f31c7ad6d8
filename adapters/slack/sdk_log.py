"""The logger that Slack's libraries get: no contents, no tokens, no tickets.

At DEBUG the SDK prints whole messages, and its errors print the socket's address, whose ticket is a secret.
"""

import logging
import re

from slack_bolt.logger.messages import warning_client_prioritized_and_token_skipped

# Bolt reads SLACK_BOT_TOKEN from the environment by itself and then wonders why it is not used.
_EXPECTED = warning_client_prioritized_and_token_skipped()
_SECRET = re.compile(r"\b(xox[a-z]-|xapp-|xoxe\.)[\w.-]+|([?&](?:ticket|token|link_\w+)=)[^&\s'\"]+")


def sdk_logger() -> logging.Logger:
    """Return the logger for slack-sdk and slack-bolt, which never prints below INFO and never a secret."""
    logger = logging.getLogger("slack_bolt.reverie")
    logger.setLevel(max(logging.INFO, logging.getLogger().level))
    logger.addFilter(without_secrets)
    return logger


def without_secrets(record: logging.LogRecord) -> bool:
    """Cut secrets out of a record, and its traceback too: the exception's text holds the same address."""
    if record.getMessage() == _EXPECTED:
        return False
    record.msg, record.args = _SECRET.sub(r"\1\2…", record.getMessage()), None
    record.exc_info, record.exc_text = None, None
    return True
