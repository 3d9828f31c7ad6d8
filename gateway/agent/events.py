"""What a running agent tells whoever shows it."""

from dataclasses import dataclass, field

from gateway.history import Line
from gateway.llm.client import Tokens
from memory.ports import Outcome


@dataclass(frozen=True, kw_only=True, slots=True)
class TextSoFar:
    """The whole answer as far as it is written, Markdown."""

    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolStarted:
    """The model has asked for a tool."""

    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """The run is over. `lines` are the messages to store;"""

    outcome: Outcome
    text: str
    lines: tuple[Line, ...]
    tokens: Tokens
    turns: int
    used_tools: tuple[str, ...] = field(default=())


Event = TextSoFar | ToolStarted | Finished
