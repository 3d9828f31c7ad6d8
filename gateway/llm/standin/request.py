"""A request as a model sees it: who said what, which notes were injected, which tools gave what.

The gateway injects notes inside `<reminder>` tags; what stands there was said by nobody.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gateway.llm.standin.validation import blocks_of

_REMINDER = re.compile(r"<reminder\b[^>]*>(.*?)</reminder>", re.DOTALL)
_MEMORY_DIR = re.compile(r"Memory directory: *[`\"']?(/[^\n`\"']*)")
_BARE_MEMORY_DIR = re.compile(r"(/[^\s`\"'<>()]*/memory)(?=[/\s`\"'.,)]|$)")
_NAMED_MEMORY_DIR = re.compile(r"\bfiles in [`\"'](/[^\n`\"']+)")
_PHRASE_END = re.compile(r"[.,;:]?(?:\s+\(|\s*$)|[.,;:]\s")
_MANIFEST_LINE = re.compile(
    r"^- (?:\[(?P<type>\w+)\] )?(?P<file>\S.*?\.md) \((?P<at>\d{4}-\d\d-\d\dT[\d:.]+Z)\)(?:: (?P<about>.*))?$"
)
_INDEX_LINE = re.compile(r"^\s*- \[(?P<title>[^\]]+)\]\((?P<file>[^)\s]+\.md)\)(?:\s*(?::|—|–|-)\s*(?P<hook>.*))?$")


@dataclass(frozen=True, kw_only=True)
class Result:
    """What one tool call gave."""

    name: str
    input: Mapping[str, Any]
    text: str
    is_error: bool

    @property
    def path(self) -> str:
        """The file or directory that the call was about, empty if none."""
        return str(self.input.get("file_path") or self.input.get("path") or "")


@dataclass(frozen=True, kw_only=True)
class Spoken:
    """One message: its role and its text, injected blocks apart."""

    role: str
    text: str
    injected: tuple[str, ...] = ()
    has_results: bool = False


@dataclass(frozen=True, kw_only=True)
class ManifestLine:
    """A note as a manifest names it."""

    file: str
    type: str
    about: str


@dataclass(frozen=True, kw_only=True)
class Pointer:
    """A line of an index."""

    title: str
    file: str
    hook: str


@dataclass(frozen=True)
class Conversation:
    """A validated request, to be read; nothing is kept between two requests."""

    body: Mapping[str, Any]

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> "Conversation":
        """Read a request body."""
        return cls(body)

    @cached_property
    def system(self) -> str:
        """The system prompt as one text."""
        return "\n\n".join(block["text"] for block in blocks_of(self.body.get("system")))

    @cached_property
    def tools(self) -> Mapping[str, Mapping[str, Any]]:
        """The schemas of the tools that may be called now, by name."""
        if (self.body.get("tool_choice") or {}).get("type") == "none":
            return {}
        return {tool["name"]: tool.get("input_schema") or {} for tool in self.body.get("tools") or ()}

    @cached_property
    def messages(self) -> Sequence[Spoken]:
        """All messages in order."""
        return [_spoken(message) for message in self.body["messages"]]

    @cached_property
    def prompt_span(self) -> tuple[int, int]:
        """Where the last thing that was asked stands: a run of user messages, [start, end)."""
        users = [i for i, said in enumerate(self.messages) if said.role == "user"]
        asking = [i for i in users if self.messages[i].text] or users[-1:]
        start = end = asking[-1]
        while start and self.messages[start - 1].role == "user" and not self.messages[start - 1].has_results:
            start -= 1
        return start, end + 1

    @property
    def prompt(self) -> str:
        """What was last asked, injected blocks left out."""
        start, end = self.prompt_span
        return "\n".join(said.text for said in self.messages[start:end] if said.text)

    @property
    def injected_before(self) -> Sequence[str]:
        """The blocks that were injected in earlier turns, newest first."""
        return [block for said in reversed(self.messages[: self.prompt_span[0]]) for block in said.injected]

    @property
    def injected(self) -> Sequence[str]:
        """The blocks that were injected beside what was last asked."""
        start, end = self.prompt_span
        after = next((i for i in range(end, len(self.messages)) if self.messages[i].role == "assistant"), None)
        stop = len(self.messages) if after is None else after
        return [block for said in self.messages[start:stop] for block in said.injected]

    @property
    def last_user_text(self) -> str:
        """All text of the last user turn, injected blocks included."""
        return "\n".join([*self.injected, self.prompt])

    @property
    def before(self) -> Sequence[Spoken]:
        """What was said before the last thing that was asked."""
        return self.messages[: self.prompt_span[0]]

    @cached_property
    def rounds(self) -> Sequence[Sequence[Result]]:
        """The tool rounds since then, oldest first."""
        calls: dict[str, Mapping[str, Any]] = {}
        rounds: list[list[Result]] = []
        for message in self.body["messages"][self.prompt_span[1] :]:
            blocks = blocks_of(message["content"])
            calls.update({block["id"]: block for block in blocks if block["type"] == "tool_use"})
            results = [_result(block, calls) for block in blocks if block["type"] == "tool_result"]
            if results:
                rounds.append(results)
        return rounds

    @property
    def memory_dir(self) -> str:
        """The memory directory that the prompt or else the system prompt names, empty if none."""
        for pattern, text in (
            (_MEMORY_DIR, self.prompt),
            (_MEMORY_DIR, self.system),
            (_NAMED_MEMORY_DIR, self.system),
            (_BARE_MEMORY_DIR, self.system),
        ):
            if found := pattern.search(text):
                return path_at(found.group(1))
        return ""


def path_at(text: str) -> str:
    """Return the path that a text begins with: up to a full stop, comma or bracket that ends the phrase."""
    return _PHRASE_END.split(text, maxsplit=1)[0].rstrip("/ ")


def manifest_lines(text: str) -> list[ManifestLine]:
    """Return the lines of a memory manifest within a text."""
    found = (_MANIFEST_LINE.match(line) for line in text.splitlines())
    return [
        ManifestLine(file=match["file"], type=match["type"] or "", about=(match["about"] or "").strip())
        for match in found
        if match
    ]


def pointers(text: str) -> list[Pointer]:
    """Return the index lines within a text, each file once."""
    found = [match for match in map(_INDEX_LINE.match, text.splitlines()) if match]
    lines = {m["file"]: Pointer(title=m["title"], file=m["file"], hook=(m["hook"] or "").strip()) for m in found}
    return list(lines.values())


def is_manifest_line(line: str) -> bool:
    """Tell whether a line names a note as a manifest does."""
    return bool(_MANIFEST_LINE.match(line))


def _spoken(message: Mapping[str, Any]) -> Spoken:
    blocks = blocks_of(message["content"])
    text = "\n".join(block["text"] for block in blocks if block["type"] == "text")
    return Spoken(
        role=message["role"],
        text=_REMINDER.sub("", text).strip(),
        injected=tuple(found.strip() for found in _REMINDER.findall(text)),
        has_results=any(block["type"] == "tool_result" for block in blocks),
    )


def _result(block: Mapping[str, Any], calls: Mapping[str, Mapping[str, Any]]) -> Result:
    call = calls.get(block["tool_use_id"], {"name": "", "input": {}})
    texts = [part["text"] for part in blocks_of(block.get("content")) if part["type"] == "text"]
    return Result(
        name=call["name"],
        input=call["input"],
        text="\n".join(texts),
        is_error=bool(block.get("is_error")),
    )
