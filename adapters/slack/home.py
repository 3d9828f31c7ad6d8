"""The home tab of the app: what a person may see there, as Slack's blocks."""

import json
from collections.abc import Iterable
from typing import Any

from adapters.text.slack import render

MAX_BLOCKS = 100
"""Blocks of a home tab."""

MAX_BYTES = 200_000
"""Bytes of them as JSON. Slack documents none; this is below what users report to be refused."""

_MORE = {"type": "context", "elements": [{"type": "plain_text", "text": "There is more than fits on this page."}]}


def home_view(markdown: str) -> dict[str, Any]:
    """Return the view that shows Markdown, cut where a home tab ends."""
    return {"type": "home", "blocks": list(_fitting(block for part in render(markdown) for block in part["blocks"]))}


def _fitting(blocks: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    size = 0
    for count, block in enumerate(blocks):
        size += len(json.dumps(block))
        if count >= MAX_BLOCKS - 1 or size > MAX_BYTES:
            yield _MORE
            return
        yield block
