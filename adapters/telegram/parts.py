"""What is posted in Telegram, as parts: Markdown cut into messages, buttons under the last, a file with the first.

A part is `{"text", "entities"}`, with `"keyboard"` and `"file"` where they belong to it; all of it is JSON, for it
waits in a database.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from adapters.base import Button, OutFile
from adapters.text.telegram import HARD_UNITS, MAX_CAPTION, MAX_UNITS, render, utf16_units

_LABEL_ROOM = HARD_UNITS - MAX_UNITS  # what a part leaves for a label; a caption does so too
_ROW_UNITS = 30  # what a phone shows of the labels of one row without cutting them
_ROW_BUTTONS = 8  # the apps show no more side by side
_MOST_BUTTONS = 100  # of one message
_MAX_LABEL = 60

Part = dict[str, Any]


def parts_of(markdown: str, *, buttons: Sequence[Button], file: OutFile | None) -> list[Part]:
    """Return the messages that show Markdown; more buttons than one message takes go below messages of their own."""
    first = MAX_UNITS if file is None else MAX_CAPTION - _LABEL_ROOM
    parts: list[Part] = [{"text": part.text, "entities": list(part.entities)} for part in render(markdown, first=first)]
    if file is not None:
        parts[0] |= {"file": {"path": str(file.path), "name": file.name, "media_type": file.media_type}}
        if not markdown.strip():
            parts[0]["text"] = ""  # a file may go without words
    for at in range(0, len(buttons), _MOST_BUTTONS):
        if at:
            parts.append({"text": "…", "entities": []})
        parts[-1]["keyboard"] = _keyboard(buttons[at : at + _MOST_BUTTONS])
    return parts


def labelled(part: Mapping[str, Any], label: str) -> Part:
    """Return the part with the label as its last line, cut to what a message, or a caption, still takes."""
    most = MAX_CAPTION if "file" in part else HARD_UNITS
    room = most - utf16_units(f"{part['text']}\n")
    return {**part, "text": f"{part['text']}\n{label[: max(room // 2, 0)]}"}  # a character has at most two units


def _keyboard(buttons: Iterable[Button]) -> list[list[Part]]:
    """Put buttons side by side as long as their labels can be read."""
    rows: list[list[Part]] = []
    room = 0
    for button in buttons:
        label = _cut(button.label.strip() or "…")
        width = utf16_units(label) + 2
        if not rows or width > room or len(rows[-1]) == _ROW_BUTTONS:
            rows.append([])
            room = _ROW_UNITS
        rows[-1].append({"text": label, "callback_data": button.token})
        room -= width
    return rows


def _cut(label: str) -> str:
    return label if len(label) <= _MAX_LABEL else f"{label[: _MAX_LABEL - 1]}…"
