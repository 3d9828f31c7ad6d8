"""What Reverie posts in Slack, as parts: Markdown cut into messages, the buttons under the last, a file with the first.

A part is `{"text", "blocks"}`, with `"file"` where one goes along; all of it is JSON, for it waits in a database.
"""

import json
from collections.abc import Sequence
from typing import Any

from adapters.base import Button, OutFile
from adapters.text.slack import MAX_TEXT, render

_MAX_LABEL = 75  # characters of a button; Slack takes no more
_MOST_BUTTONS = 25  # in one row of them
_MOST_BLOCKS = 49  # of a message, with room for a label
_MAX_BLOCKS = (
    12_700  # bytes of all blocks; the renderer leaves 700 of them, Slack refuses somewhat above (not documented)
)

Part = dict[str, Any]


def parts_of(markdown: str, *, buttons: Sequence[Button], file: OutFile | None) -> list[Part]:
    """Return the messages that show Markdown; a part of its own has the buttons where there is no room for them."""
    parts = render(markdown)
    if file is not None:
        parts[0] |= {"file": {"path": str(file.path), "name": file.name, "media_type": file.media_type}}
    if buttons:
        rows = [_row(some) for some in _rows(buttons)]
        if "file" in parts[-1] or not _fit([*parts[-1]["blocks"], *rows]):
            parts.append({"text": " · ".join(_label(button) for button in buttons)[:MAX_TEXT], "blocks": []})
        parts[-1]["blocks"] = [*parts[-1]["blocks"], *rows]
    return parts


def _fit(blocks: Sequence[Part]) -> bool:
    return len(blocks) <= _MOST_BLOCKS and len(json.dumps(blocks, ensure_ascii=False).encode()) <= _MAX_BLOCKS


def _rows(buttons: Sequence[Button]) -> list[Sequence[Button]]:
    return [buttons[at : at + _MOST_BUTTONS] for at in range(0, len(buttons), _MOST_BUTTONS)]


def _row(buttons: Sequence[Button]) -> Part:
    return {"type": "actions", "elements": [_button(button) for button in buttons]}


def _button(button: Button) -> Part:
    return {
        "type": "button",
        "text": {"type": "plain_text", "text": _label(button), "emoji": True},
        "action_id": button.token,
        "value": button.token,
    }


def _label(button: Button) -> str:
    label = button.label.strip() or "…"
    return label if len(label) <= _MAX_LABEL else f"{label[: _MAX_LABEL - 1]}…"
