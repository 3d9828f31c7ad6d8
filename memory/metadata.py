"""The frontmatter of a note: read with a safe loader, within bounds, and never with an error."""

import re
from collections.abc import Iterator
from typing import Any

import yaml
from frontmatter.default_handlers import SafeLoader, YAMLHandler

_MAX_CHARACTERS = 16 * 1024
_MAX_EVENTS = 1000
_MAX_DEPTH = 20
_LONGEST_NUMBER = 100  # characters, in whatever base: Python refuses to write out one of a few thousand digits
_PLAIN = re.compile(r"^([A-Za-z_][\w-]*):[ \t]+([^\s\"'\[{|>][^\n]*)$", re.MULTILINE | re.ASCII)
_FLAT = re.compile(r"(?:[A-Za-z_][\w-]*:(?:[ \t]++(?:[^\s\[{&*!|>][^\n]*+)?)?\r?(?:\n|\Z))*\Z", re.ASCII)
"""Lines of `key: value` alone: nothing in them can nest, refer or be tagged, so it need not be looked for."""


class _NoteHandler(YAMLHandler):
    """YAML between two `---` lines of which the first is the first line of the text."""

    FM_BOUNDARY = re.compile(r"(?:\A|(?<=\n))---[ \t]*(?:\r?\n|\Z)")


class _NoteLoader(SafeLoader):  # type: ignore[valid-type, misc]  # the one in C where there is one, else the other
    """The safe loader, to which a number is unreadable that Python would not write out again, in whatever base."""

    def construct_yaml_int(self, node: yaml.ScalarNode) -> object:
        if len(node.value) > _LONGEST_NUMBER:
            raise ValueError("a number is too long")
        return super().construct_yaml_int(node)


_NoteLoader.add_constructor("tag:yaml.org,2002:int", _NoteLoader.construct_yaml_int)


def parse(text: str) -> tuple[dict[str, object], str]:
    """Return metadata and body of a note; no metadata and the whole text if there is none to be read.

    Values are what YAML makes of them (a date, a number, a list), keys are text. Frontmatter over 16 KiB,
    with aliases or tags, nested deeply or with a number of over 100 characters counts as unreadable. Never raises.
    """
    handler = _NoteHandler()
    text = text.removeprefix("\ufeff")
    if not handler.detect(text):
        return {}, text
    try:
        head, body = handler.split(text)
    except ValueError:  # the closing line is missing
        return {}, text
    if len(head) > _MAX_CHARACTERS:
        return {}, text
    metadata = _load(handler, head)
    if metadata is None:
        metadata = _load(handler, _PLAIN.sub(_quoted, head))
    return ({}, text) if metadata is None else (metadata, body)


def head_of(text: str) -> str:
    """Return the lines of the frontmatter with those around it, whether it can be read or not; "" if there is none."""
    handler = _NoteHandler()
    if not handler.detect(text):
        return ""
    try:
        _, body = handler.split(text)
    except ValueError:  # the closing line is missing
        return ""
    return text[: len(text) - len(body)]


def _load(handler: _NoteHandler, head: str) -> dict[str, object] | None:
    try:
        if not _FLAT.match(head) and not _is_plain(yaml.parse(head, Loader=SafeLoader)):
            return None
        loaded = handler.load(head, Loader=_NoteLoader)
    except (yaml.YAMLError, ValueError, TypeError, OverflowError, RecursionError):
        return None  # besides its own errors, PyYAML lets through those of impossible dates and unhashable keys
    if loaded is None:
        return {}
    return {str(key): value for key, value in loaded.items()} if isinstance(loaded, dict) else None


def _is_plain(events: Iterator[Any]) -> bool:
    """Tell whether it is small, without aliases (which expand without bound) and tags (which may crash)."""
    depth = 0
    for count, event in enumerate(events):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if (
            isinstance(event, yaml.AliasEvent)
            or getattr(event, "tag", None)
            or depth > _MAX_DEPTH
            or count > _MAX_EVENTS
        ):
            return False
    return True


def _quoted(match: re.Match[str]) -> str:
    """Quote a plain value, which fails in YAML where it holds `: `, ` #` or begins with a sign."""
    value = match[2].rstrip().replace("'", "''")
    return f"{match[1]}: '{value}'"
