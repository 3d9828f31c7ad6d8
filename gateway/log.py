"""Logging: structlog, one line per event, facts as fields; tokens and contents never."""

import logging
import re
import sys
from collections.abc import Collection, MutableMapping
from typing import Any, TextIO

import structlog

_SECRETS = re.compile(
    r"\d{6,12}(?::|%3A)[A-Za-z0-9_-]{30,}"  # Telegram bot token, which client libraries put into URLs
    r"|xox[a-z]-[A-Za-z0-9-]+|xapp-[A-Za-z0-9-]+"  # Slack
    r"|sk-ant-[A-Za-z0-9_-]+|\bsk-[A-Za-z0-9_-]{8,}"  # Anthropic, and most servers that speak its API
    r"|(?<=://)[^\s/]*:[^\s/]*(?=@)"  # user:password in a URL, up to the last @: a password may hold one
)


def redact(text: str, secrets: Collection[str] = ()) -> str:
    """Replace whatever has the shape of one of our tokens, and the given secrets themselves."""
    for secret in secrets:
        text = text.replace(secret, "[redacted]")
    return _SECRETS.sub("[redacted]", text)


def _name_errors(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    named = {key: f"{type(error).__name__}: {error}" for key, error in event.items() if isinstance(error, Exception)}
    event.update(named)
    return event


def configure(
    *, level: str = "INFO", json: bool = False, stream: TextIO | None = None, secrets: Collection[str] = ()
) -> None:
    """Set logging up for the process. The libraries' own loggers speak from WARNING on, through the same redaction.

    `secrets` are the configured tokens, which need not have a shape that can be told.
    """

    def redact_line(_: Any, __: str, line: Any) -> str:
        return redact(str(line), secrets)

    out = stream or sys.stderr
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _name_errors,
    ]
    # Redaction comes after rendering: whatever a token was hidden in, it is text by then.
    rendering: list[structlog.typing.Processor] = [_renderer(json=json, colors=out.isatty()), redact_line]
    numeric = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[*shared, *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(numeric),
        logger_factory=structlog.PrintLoggerFactory(file=out),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(out)
    foreign = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering]
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processors=foreign, foreign_pre_chain=shared))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)


def _renderer(*, json: bool, colors: bool) -> structlog.typing.Processor:
    if json:
        return structlog.processors.JSONRenderer()
    return structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)
