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

# Each switch of memory with its default: what holds as long as its line stays a comment.
[memory]
# False: no memory at all, for nobody.
# auto_memory_enabled = true
# "log": what is new goes into a log of the day, which the night sorts into notes.
# memory_mode = "auto"
# Unset: each person's and chat's own folder in homes/. With {principal} as a folder of its own, elsewhere:
# auto_memory_directory = "/srv/memory/{principal}/{project}"
# extra_guidelines = ""
# skip_index = false
# search_past_context = false

# Notes that come along with a message.
# recall_enabled = true
# recall_deadline = 2.0
# recall_fallback = true
# recall_max_notes = 5
# recall_note_lines = 200
# recall_note_bytes = 4096
# recall_session_units = 61440
# scan_limit = 200

# Notes that are taken after an answer, and what is told of that: off, summary or full.
# extraction_enabled = true
# extraction_throttle = 1
# extraction_max_turns = 5
# extraction_drain = 60.0
# notices = "summary"

# Agents that the assistant sets to work.
# agent_max_turns = 20
# agent_snapshots = true

# The dream, which puts notes in order at night, and the sorting of day logs.
# auto_dream_enabled = true
# dream_min_hours = 24.0
# dream_min_sittings = 5
# dream_scan_minutes = 10.0
# dream_max_turns = 30
# dream_max_minutes = 60.0
# dream_max_removed = 0.2
# dream_tokens_per_run = 1000000
# dream_tokens_per_night = 5000000
# distil_max_turns = 30
# Unset: for ever. Else so many days:
# log_keep_days = 365

# What the chats and members of a project share. Writes from private chats: ask, direct or off.
# team_memory_enabled = true
# team_writes = "ask"
# Unset: this gateway's own store. Else another server, and the token that it gave out:
# team_server_url = "https://team.example.org"
# team_token = ""
# More headers for it, if it wants any: { "beta" = "its value" }
# team_headers = {}
# team_grants = {}
# team_timeout = 30.0
# team_pull_deadline = 2.0
# team_pull_minutes = 15.0
# Unset: as many as the server takes. Else:
# team_max_entries = 1000
# team_watch = true
# team_debounce = 2.0
# team_tidy_enabled = true
# team_tidy_max_turns = 30

# write_max_bytes = 1048576
# lease_seconds = 30.0
# lease_wait = 45.0
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
