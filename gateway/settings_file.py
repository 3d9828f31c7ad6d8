"""`reverie.toml` as text: some values are set, and every other line stays as its owner wrote it."""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

TEMPLATE = """\
# Reverie's settings. What is left out has its default; the environment goes before this file.
# Keep it to yourself: it holds secrets.

# timezone = ""

[model]
# The key of the Anthropic API, or of the server at base_url.
# api_key = ""
# Any server that speaks the Messages API; without it the public one.
# base_url = ""

# [telegram]
# From @BotFather.
# token = ""

# [slack]
# OAuth & Permissions, Bot User OAuth Token (xoxb-…).
# bot_token = ""
# Basic Information, App-Level Tokens (xapp-…): Socket Mode, which needs no public address.
# app_token = ""
# Basic Information, Signing Secret: instead of app_token, when Slack calls /slack/events.
# signing_secret = ""

[access]
# These may always write to the bot; others need a pairing code: reverie access approve CODE.
# owners = []
"""

Value = str | Sequence[str] | None
"""None takes a setting out."""

_HEADER = re.compile(r"\s*(#\s*)?\[{1,2}[\w.\"' -]+\]{1,2}\s*(#.*)?$")


def amended(text: str, values: Mapping[tuple[str, str], Value]) -> str:
    """Return the file with these values, by section (empty: before the first) and key.

    A setting takes the place of its line, or of the comment that keeps a place for it, or comes first in its section.
    Raises `ValueError` if the file is no TOML, or is laid out so that this would change something else.
    """
    expected = tomllib.loads(text)
    lines = text.splitlines()
    for (section, key), value in values.items():
        _put(lines, section, key, value)
        _expect(expected, section, key, value)
    written = "\n".join(lines) + "\n"
    if tomllib.loads(written) != expected:
        raise ValueError("its lines can't be told apart")
    return written


def _expect(tree: dict[str, Any], section: str, key: str, value: Value) -> None:
    table = tree.setdefault(section, {}) if section else tree
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value if isinstance(value, str) else list(value)


def _put(lines: list[str], section: str, key: str, value: Value) -> None:
    start, end = _section(lines, section)
    new = f'# {key} = ""' if value is None else f"{key} = {_toml(value)}"
    for pattern in (rf"\s*{key}\s*=", rf"\s*#\s*{key}\s*="):
        for number in range(start, end):
            if re.match(pattern, lines[number]):
                lines[number : _end_of_value(lines, number, end)] = [new]
                return
    if section:
        lines.insert(start, new)
    else:
        first = next((number for number in range(start, end) if lines[number].strip()[:1] not in {"", "#"}), end)
        lines[first:first] = [new, ""]


def _section(lines: list[str], section: str) -> tuple[int, int]:
    """Return where the section's lines begin and end; one that is not there, or commented out, is opened."""
    start = 0
    if section:
        start = _header(lines, rf"\s*\[{section}\]") or _header(lines, rf"\s*#\s*\[{section}\]")
        if not start:
            lines += ["", f"[{section}]"]
            start = len(lines)
        lines[start - 1] = re.sub(r"^\s*#\s*", "", lines[start - 1])
    return start, next((number for number in range(start, len(lines)) if _HEADER.match(lines[number])), len(lines))


def _header(lines: Sequence[str], pattern: str) -> int:
    """Return the number of the line after the header, 0 if there is none."""
    return next((number + 1 for number, line in enumerate(lines) if re.match(pattern, line)), 0)


def _end_of_value(lines: Sequence[str], number: int, end: int) -> int:
    """Return the line after a value, which may go over several."""
    for after in range(number + 1, end + 1):
        try:
            tomllib.loads("\n".join(lines[number:after]))
        except tomllib.TOMLDecodeError:
            continue
        return after
    return number + 1


def _toml(value: str | Sequence[str]) -> str:
    if not isinstance(value, str):
        return f"[{', '.join(_toml(item) for item in value)}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # else JSON's string is TOML's
