"""Parts of a note's text, counted and bounded as the SDK's `read` does it with files that are UTF-8."""

from typing import Any

from anthropic.lib.tools.agent_toolset import DEFAULT_MAX_FILE_BYTES


def passage(text: str, view_range: Any = None) -> str:
    """Return the lines from the first to the last of a range, counted from 1 (-1: to the end), or all of the text.

    Raises `TypeError` if it is no range, and `ValueError` for more than 256 KiB.
    """
    if view_range:
        first, last = _range(view_range)
        lines = text.split("\n")
        text = "\n".join(lines[max(0, first - 1) : last if last > 0 else len(lines)])
    size = len(text.encode())
    if size > DEFAULT_MAX_FILE_BYTES:
        raise ValueError(f"{size} bytes are more than can be read at once: give a view_range, such as [1, 500]")
    return text


def _range(given: Any) -> tuple[int, int]:
    match given:
        case [int(first), int(last)]:
            return first, last
    raise TypeError("view_range must be [first line, last line]")
