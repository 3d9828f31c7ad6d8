"""What is left of a stored message when something in it was forgotten: it must still be one that a model takes."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

_FORGOTTEN = "(forgotten)"


def blank() -> list[dict[str, Any]]:
    """Return the content of a message of which nothing is left."""
    return [{"type": "text", "text": _FORGOTTEN}]


def redacted(
    contents: Sequence[list[dict[str, Any]]], tells: Callable[[str], bool], *, words: Sequence[int]
) -> list[list[dict[str, Any]]]:
    """Return the contents of a session's messages without the blocks that tell it; blocking.

    `words` says of each message how many blocks at its end stay as they are. A call of a tool and its result lose only
    what they hold, as each needs the other, and both do if one tells. What the model thought goes with anything that
    goes beside it: it was signed with that.
    """
    calls = {
        block["id" if block["type"] == "tool_use" else "tool_use_id"]
        for content in contents
        for block in content
        if block["type"] in ("tool_use", "tool_result") and _tells(block, tells)
    }
    return [
        _redacted(content, tells, calls, end=len(content) - kept) for content, kept in zip(contents, words, strict=True)
    ]


def _redacted(
    content: list[dict[str, Any]], tells: Callable[[str], bool], calls: Collection[str], *, end: int
) -> list[dict[str, Any]]:
    left = [_left(block, tells, calls) if place < end else block for place, block in enumerate(content)]
    if left == content:
        return content
    return [block for block in left if "thinking" not in block["type"]] or blank()


def texts_in(value: object) -> Iterator[str]:
    """Yield every text within a message's content."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from texts_in(each)


def _tells(block: dict[str, Any], tells: Callable[[str], bool]) -> bool:
    return any(map(tells, texts_in(block)))


def _left(block: dict[str, Any], tells: Callable[[str], bool], calls: Collection[str]) -> dict[str, Any]:
    match block["type"]:
        case "tool_use":
            return {**block, "input": {}} if block["id"] in calls else block
        case "tool_result":
            return {**block, "content": _FORGOTTEN} if block["tool_use_id"] in calls else block
    return {"type": "text", "text": _FORGOTTEN} if _tells(block, tells) else block
