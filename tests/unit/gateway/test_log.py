import io
import json
import logging
from collections.abc import Callable, Iterator

import pytest
import structlog

from gateway.log import configure, redact

TELEGRAM = "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1"
SECRETS = [
    TELEGRAM,
    TELEGRAM.replace(":", "%3A"),
    "xoxb-17653672481-19874698323-pdFZKVeTuE8sk7oOcHrzqqgy",
    "xapp-1-A111-222-abcdef",
    "sk-ant-api03-R2D2c3po_-AA",
    "sk-proj-1234567890",
]


@pytest.fixture
def logged() -> Iterator[Callable[..., io.StringIO]]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level

    def start(*, level: str = "INFO", json: bool = False) -> io.StringIO:
        stream = io.StringIO()
        configure(level=level, json=json, stream=stream)
        return stream

    yield start
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


def refuse() -> None:
    raise ValueError(f"refused {TELEGRAM}")


@pytest.mark.parametrize("secret", SECRETS)
def test_a_token_is_taken_out_wherever_it_stands(secret: str) -> None:
    redacted = redact(f"GET https://host/{secret}/getMe ({secret}) failed")
    assert secret not in redacted
    assert redacted.endswith(") failed")


def test_the_password_in_a_url_is_taken_out() -> None:
    assert redact("postgresql+asyncpg://ann:p%20w@db/reverie") == "postgresql+asyncpg://[redacted]@db/reverie"


@pytest.mark.parametrize("text", ["task-management-system", "2026-05-01T12:00:00.123456Z", "http://127.0.0.1:8710/x"])
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("as_json", [True, False])
def test_tokens_never_reach_the_log_from_our_own_events(logged: Callable[..., io.StringIO], as_json: bool) -> None:
    stream = logged(json=as_json)
    log = structlog.get_logger("test")
    log.info("started", url=f"https://host/bot{TELEGRAM}/getMe", nested={"list": [TELEGRAM]}, error=OSError(TELEGRAM))
    try:
        refuse()
    except ValueError:
        log.exception("failed")
    written = stream.getvalue()
    assert "AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1" not in written
    assert written.count("[redacted]") >= 4
    assert "OSError: [redacted]" in written
    assert "Traceback" in written


@pytest.mark.parametrize("as_json", [True, False])
def test_tokens_never_reach_the_log_from_libraries(logged: Callable[..., io.StringIO], as_json: bool) -> None:
    stream = logged(json=as_json)
    library = logging.getLogger("httpx")
    library.warning("HTTP Request: POST %s", f"https://host/bot{TELEGRAM}/getMe")
    try:
        refuse()
    except ValueError:
        library.exception("failed with %s", {"token": TELEGRAM})
    written = stream.getvalue()
    assert "AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1" not in written
    assert "HTTP Request: POST https://host/bot[redacted]/getMe" in written
    assert "ValueError: refused [redacted]" in written


def test_libraries_speak_from_warning_on(logged: Callable[..., io.StringIO]) -> None:
    stream = logged(level="DEBUG")
    logging.getLogger("httpx").info("chatter")
    structlog.get_logger("test").debug("ours")
    assert "chatter" not in stream.getvalue()
    assert "ours" in stream.getvalue()


def test_json_is_one_object_per_line_with_the_facts_as_fields(logged: Callable[..., io.StringIO]) -> None:
    stream = logged(json=True)
    structlog.get_logger("test").warning("outbox_retry", outbox_id=7, error=OSError("away"))
    logging.getLogger("slack_sdk").error("socket closed")
    ours, theirs = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (ours["event"], ours["level"], ours["outbox_id"], ours["error"]) == (
        "outbox_retry",
        "warning",
        7,
        "OSError: away",
    )
    assert (theirs["event"], theirs["level"]) == ("socket closed", "error")


def test_what_is_below_the_level_is_not_written(logged: Callable[..., io.StringIO]) -> None:
    stream = logged(level="ERROR")
    structlog.get_logger("test").warning("quiet")
    assert stream.getvalue() == ""
