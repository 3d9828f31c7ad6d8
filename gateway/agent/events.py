"""What a running agent tells whoever shows it."""

from dataclasses import dataclass

from gateway.history import Line
from gateway.llm.client import Tokens
from memory.ports import Outcome


@dataclass(frozen=True, kw_only=True, slots=True)
class TextSoFar:
    """The whole answer as far as it is written, Markdown."""

    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolStarted:
    """The model has asked for a tool; `call` is unique within the run."""

    name: str
    call: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolEnded:
    """A tool has run; `turn` is the request that asked for it, from 1."""

    name: str
    call: str
    failed: bool
    turn: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """The run is over. `lines` are the messages to store, `turns` the requests that it took."""

    outcome: Outcome
    text: str
    lines: tuple[Line, ...]
    tokens: Tokens
    turns: int
    context: int = 0
    """Tokens of the last request and its answer together: what the next turn's request begins with."""


Event = TextSoFar | ToolStarted | ToolEnded | Finished
