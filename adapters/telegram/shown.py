"""What is shown of an answer while it is written: its end, and what the bot is doing while no text comes."""

from collections.abc import Mapping
from typing import Any

from adapters.base import Step, StepState
from adapters.text.telegram import Growing, TelegramPart

NO_TEXT = "\u2060"
"""What stands for the text while there is none: the loop of live answers passes over an empty one."""

_BEFORE = "…\n"
"""Stands before the end of a text whose beginning is not shown."""

_MAX_TITLE = 60  # characters; with these the longest part still fits into a message


class Shown:
    """One answer as it grows; what has not changed is not rendered again."""

    def __init__(self) -> None:
        self._growing = Growing()
        self._running: dict[str, Step] = {}

    def note(self, step: Step) -> None:
        """Take the newest state of a step."""
        if step.state is StepState.RUNNING:
            self._running[step.id] = step
        else:
            self._running.pop(step.id, None)

    def of(self, markdown: str) -> TelegramPart | None:
        """Return the end of the text so far, with the last step that goes on; None if there is nothing to show."""
        line = _line(list(self._running.values())[-1]) if self._running else ""
        if markdown == NO_TEXT:
            return TelegramPart(text=line) if line else None
        parts = self._growing.render(markdown)
        last = parts[-1] if len(parts) == 1 else _moved(parts[-1])
        return TelegramPart(text=f"{last.text}\n\n{line}", entities=last.entities) if line else last


def _line(step: Step) -> str:
    title = step.title.strip()[:_MAX_TITLE]
    return f"· {title[:1].lower()}{title[1:]}…"


def _moved(part: TelegramPart) -> TelegramPart:
    entities: tuple[Mapping[str, Any], ...] = part.entities
    return TelegramPart(
        text=f"{_BEFORE}{part.text}",
        entities=tuple({**entity, "offset": entity["offset"] + len(_BEFORE)} for entity in entities),
    )
