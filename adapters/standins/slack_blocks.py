"""What Slack checks in a message before it takes it: text, blocks, stream chunks and metadata.

Sizes are counted in characters, but for all blocks of a message together, which count as UTF-8 bytes of their JSON:
Slack does not document that limit nor its unit, and bytes are the stricter reading. The limits are those of Slack's
reference pages, but for two that only the reports of users tell: that one (13 000) and the text of an edit (4 000).
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

Block = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """The sizes that Slack enforces, in characters unless the name says otherwise."""

    text: int = 40_000
    update_text: int = 4_000
    markdown_text: int = 12_000
    all_blocks: int = 13_000
    block_count: int = 50
    section_text: int = 3_000
    section_field: int = 2_000
    header_text: int = 150
    block_id: int = 255
    metadata: int = 16_384
    chunk_title: int = 256
    button_text: int = 75
    action_id: int = 255
    button_value: int = 2_000


class RefusalError(Exception):
    """Slack's answer `ok: false`; `error` is its name, `facts` what the answer carries besides."""

    def __init__(self, error: str, **facts: Any) -> None:
        super().__init__(error)
        self.error = error
        self.facts = facts


def invalid_arguments(message: str) -> RefusalError:
    """Return the refusal of an argument that is missing or has the wrong form."""
    return RefusalError("invalid_arguments", response_metadata={"messages": [f"[ERROR] {message}"]})


def check_blocks(blocks: object, limits: Limits) -> list[dict[str, Any]]:
    """Return the blocks of a message if Slack takes them; `RefusalError` names each fault and its place."""
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise RefusalError("invalid_blocks_format")
    if len(json.dumps(blocks, ensure_ascii=False, separators=(",", ":")).encode()) > limits.all_blocks:
        raise RefusalError("msg_blocks_too_long")
    faults = [*_faults_of_all(blocks, limits)]
    for at, block in enumerate(blocks):
        faults += [f"{fault} [json-pointer:/blocks/{at}]" for fault in _faults_of(block, limits)]
    if faults:
        raise RefusalError(
            "invalid_blocks",
            errors=faults,
            response_metadata={"messages": [f"[ERROR] {fault}" for fault in faults]},
        )
    return blocks


def _faults_of_all(blocks: Sequence[Block], limits: Limits) -> Iterator[str]:
    if len(blocks) > limits.block_count:
        yield f"no more than {limits.block_count} items allowed [json-pointer:/blocks]"
    ids = [block["block_id"] for block in blocks if block.get("block_id")]
    if len(ids) != len(set(map(str, ids))):
        yield "block_id must be unique [json-pointer:/blocks]"
    markdown = sum(len(str(block.get("text", ""))) for block in blocks if block.get("type") == "markdown")
    if markdown > limits.markdown_text:
        yield f"markdown text must be less than {limits.markdown_text + 1} characters [json-pointer:/blocks]"
    if sum(block.get("type") == "table" for block in blocks) > 1:
        yield "only_one_table_allowed [json-pointer:/blocks]"


def _faults_of(block: Block, limits: Limits) -> Iterator[str]:
    kind = block.get("type")
    if not isinstance(kind, str) or kind not in _CHECKS:
        yield f"unsupported type: {kind}"
        return
    block_id = block.get("block_id", "")
    if not isinstance(block_id, str) or len(block_id) > limits.block_id:
        yield f"block_id must be less than {limits.block_id + 1} characters"
    yield from _CHECKS[kind](block, limits)


def _text_object(value: object, longest: int, kinds: tuple[str, ...] = ("mrkdwn", "plain_text")) -> Iterator[str]:
    if not isinstance(value, dict) or value.get("type") not in kinds:
        yield f"text must be an object of type {' or '.join(kinds)}"
        return
    text = value.get("text")
    if not isinstance(text, str) or not text:
        yield "must be more than 0 characters"
    elif len(text) > longest:
        yield f"must be less than {longest + 1} characters"


def _section(block: Block, limits: Limits) -> Iterator[str]:
    fields = block.get("fields")
    if block.get("text") is None and not fields:
        yield "missing required field: text"
    if block.get("text") is not None:
        yield from _text_object(block["text"], limits.section_text)
    if fields is not None:
        yield from _items(block, "fields", most=10)
        for field in fields if isinstance(fields, list) else ():
            yield from _text_object(field, limits.section_field)


def _header(block: Block, limits: Limits) -> Iterator[str]:
    yield from _text_object(block.get("text"), limits.header_text, ("plain_text",))


def _markdown(block: Block, _: Limits) -> Iterator[str]:
    if not isinstance(block.get("text"), str) or not block["text"]:
        yield "must be more than 0 characters"


def _image(block: Block, _: Limits) -> Iterator[str]:
    if not block.get("image_url") and not block.get("slack_file"):
        yield "missing required field: image_url"
    if not block.get("alt_text"):
        yield "missing required field: alt_text"


def _context(block: Block, limits: Limits) -> Iterator[str]:
    yield from _items(block, "elements", most=10)
    for element in block.get("elements") or ():
        if isinstance(element, dict) and element.get("type") == "image":
            yield from _image(element, limits)
        else:
            yield from _text_object(element, limits.section_text)


def _actions(block: Block, limits: Limits) -> Iterator[str]:
    yield from _items(block, "elements", most=25)
    elements = [element for element in block.get("elements") or () if isinstance(element, dict)]
    ids = [element["action_id"] for element in elements if element.get("action_id")]
    if len(ids) != len(set(ids)):
        yield "action_id must be unique"
    for element in elements:
        if element.get("type") == "button":
            yield from _button(element, limits)


def _button(element: Block, limits: Limits) -> Iterator[str]:
    yield from _text_object(element.get("text"), limits.button_text, ("plain_text",))
    if len(str(element.get("action_id", ""))) > limits.action_id:
        yield f"action_id must be less than {limits.action_id + 1} characters"
    if len(str(element.get("value", ""))) > limits.button_value:
        yield f"value must be less than {limits.button_value + 1} characters"


_RICH_TEXT = frozenset({"rich_text_section", "rich_text_list", "rich_text_preformatted", "rich_text_quote"})


def _rich_text(block: Block, _: Limits) -> Iterator[str]:
    elements = block.get("elements")
    if not isinstance(elements, list):
        yield "missing required field: elements"
        return
    for element in elements:
        if not isinstance(element, dict) or element.get("type") not in _RICH_TEXT:
            yield "unsupported rich text element"


def _table(block: Block, _: Limits) -> Iterator[str]:
    yield from _items(block, "rows", most=100)
    for row in block.get("rows") or ():
        if not isinstance(row, list) or not 1 <= len(row) <= 20:
            yield "a row must have between 1 and 20 cells"


def _needs(*names: str) -> "Check":
    def check(block: Block, _: Limits) -> Iterator[str]:
        for name in names:
            if not block.get(name):
                yield f"missing required field: {name}"

    return check


def _items(block: Block, name: str, *, most: int) -> Iterator[str]:
    items = block.get(name)
    if not isinstance(items, list) or not 1 <= len(items) <= most:
        yield f"{name} must have between 1 and {most} items"


Check = Callable[[Block, Limits], Iterator[str]]

_CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        "actions": _actions,
        "alert": _needs(),
        "call": _needs("call_id"),
        "card": _needs(),
        "carousel": _needs("elements"),
        "container": _needs(),
        "context": _context,
        "context_actions": _needs("elements"),
        "divider": _needs(),
        "file": _needs("external_id", "source"),
        "header": _header,
        "image": _image,
        "input": _needs("label", "element"),
        "markdown": _markdown,
        "plan": _needs("title"),
        "rich_text": _rich_text,
        "section": _section,
        "table": _table,
        "task_card": _needs("task_id", "title"),
        "video": _needs("alt_text", "title", "thumbnail_url", "video_url"),
    }
)


def check_metadata(metadata: object, limits: Limits) -> dict[str, Any]:
    """Return a message's metadata if it has an event type and a payload; raises `RefusalError`."""
    if not isinstance(metadata, dict):
        raise RefusalError("invalid_metadata_format")
    if metadata and not (
        isinstance(metadata.get("event_type"), str) and isinstance(metadata.get("event_payload"), dict)
    ):
        raise RefusalError("invalid_metadata_schema")
    if len(json.dumps(metadata)) > limits.metadata:
        raise RefusalError("metadata_too_large")
    return metadata


@dataclass(kw_only=True, slots=True)
class Streamed:
    """What the chunks of one call add to a stream: text, blocks below it, and the newest state of tasks by id."""

    text: str = ""
    blocks: list[dict[str, Any]] = field(default_factory=list)
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)


TASK_STATUSES = frozenset({"pending", "in_progress", "complete", "error"})


def read_chunks(chunks: object, limits: Limits) -> Streamed:
    """Return what stream chunks add; raises `RefusalError` on a chunk that Slack lacks."""
    if not isinstance(chunks, list) or not chunks:
        raise RefusalError("invalid_chunks")
    added = Streamed()
    for chunk in chunks:
        kind = chunk.get("type") if isinstance(chunk, dict) else None
        if kind == "markdown_text" and isinstance(chunk.get("text"), str):
            added.text += chunk["text"]
        elif kind == "blocks":
            added.blocks += check_blocks(chunk.get("blocks"), limits)
        elif kind == "task_update" and _is_task(chunk, limits):
            added.tasks[chunk["id"]] = {name: value for name, value in chunk.items() if name != "type"}
        elif kind != "plan_update" or not _is_titled(chunk, limits):
            raise RefusalError("invalid_chunks")
    if len(added.text) > limits.markdown_text:
        raise RefusalError("msg_too_long")
    return added


def _is_task(chunk: Block, limits: Limits) -> bool:
    named = isinstance(chunk.get("id"), str) and bool(chunk["id"])
    return named and _is_titled(chunk, limits) and chunk.get("status") in TASK_STATUSES


def _is_titled(chunk: Block, limits: Limits) -> bool:
    return 1 <= len(str(chunk.get("title", ""))) <= limits.chunk_title
