"""What memory asks of its host. Each port is the fewest methods that memory needs, with its guarantee.

The gateway implements them; doubles of those with a guarantee to keep are in `memory.doubles`.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Protocol

from memory.scope import Scope


class Clock(Protocol):
    """The time, passed in so that tests own it."""

    def __call__(self) -> datetime:
        """Return the present moment, timezone-aware, in UTC."""


class Ask(Protocol):
    """A small side query to the model with an answer of a fixed form."""

    async def __call__(
        self, scope: Scope, *, purpose: str, system: str, user: str, schema: Mapping[str, Any], max_tokens: int
    ) -> Mapping[str, Any]:
        """Return the object that the schema describes; raises `SideCallFailed` on anything else."""


class Outcome(StrEnum):
    """How a fork or run ended."""

    COMPLETED = "completed"
    TURN_CAP = "turn_cap"
    ABORTED = "aborted"
    REFUSED = "refused"
    """The model will never accept this request: it is of no use to try again."""
    FAILED = "failed"
    SPENT = "spent"
    """It was out of tokens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunReport:
    """What a fork or run did. `written` holds the files that were really written or deleted, absolute, each once."""

    outcome: Outcome
    written: tuple[Path, ...]
    text: str
    turns: int
    failed: tuple[Path, ...] = ()
    """The files that could not be written for reasons of the host, such as a full disk or a lost lease, each once.

    What the model was denied, or has asked for wrongly, is not among them, nor what it has made good in the same run.
    """
    left_out: tuple[str, ...] = ()
    """The kind of each secret that was left out of what was written."""
    opened: tuple[str, ...] = ()
    """The notes and day logs of A that it has read, by name, each once."""
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Rights:
    """What a run may do when it executes a tool; the tool *list* never changes, it is part of the cached prefix.

    `read` and `write` are directories. A tool that is in no row of the table in `gateway/tools` is denied.
    """

    read: tuple[Path, ...]
    write: tuple[Path, ...]
    append_only: Path | None = None
    """If set, the one file that may be written, and only by adding to its end (a day log)."""


class Progress(Protocol):
    """Told after each tool of a run, at once, and before a cancelled run ends: what it wrote is never unknown."""

    async def __call__(self, *, turn: int, text: str, tools: int, written: Sequence[Path]) -> None:
        """Note how far the run is.

        `turn` counts model turns from 1, `tools` the tools so far, `text` is the model's latest. `written` holds all
        files of the run so far, as in `RunReport`, and a file whose write was cut off and may have been done.
        """


class Changes(Protocol):
    """Sees the changes of one run; structurally a `memory.notes.Watch`."""

    async def __call__(self, scope: Scope, path: Path, *, before: str, after: str) -> None:
        """See a change right before it is made; `after` is empty for a deletion. May refuse it with `WriteRefused`."""


class Budget(Protocol):
    """The tokens that may be used for something, asked before each request to the model."""

    async def __call__(self, spent: int) -> bool:
        """Return whether a run that has used `spent` tokens so far may go on."""


class Unlimited:
    """A budget that never ends."""

    async def __call__(self, spent: int) -> bool:
        """Let it go on."""
        return True


UNLIMITED = Unlimited()


class Fork(Protocol):
    """A run that extends one finished turn's request byte for byte, so that the prompt cache is shared."""

    async def __call__(self, prompt: str, *, rights: Rights, max_turns: int) -> RunReport:
        """Append one user message and run; never raises for a model error: the report says FAILED."""


class Run(Protocol):
    """A fresh run of the agent with the same tools and a prompt of its own."""

    async def __call__(
        self,
        scope: Scope,
        *,
        purpose: str,
        system: str,
        prompt: str,
        rights: Rights,
        max_turns: int,
        progress: Progress | None = None,
        changes: Changes | None = None,
        budget: Budget = UNLIMITED,
    ) -> RunReport:
        """Run to the end; never raises for a model error: the report says FAILED, or SPENT where the budget ended."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """One stored message as memory sees it: human or bot text only, injected notes left out."""

    message_id: int
    session_id: int
    role: str
    """`user` or `assistant`."""
    speaker: str
    """The display name, data only; empty for the bot."""
    text: str
    at: datetime


class History(Protocol):
    """The stored transcripts of a scope. Reads only what belongs to the scope's principal and project."""

    async def sittings_since(self, scope: Scope, since: datetime, *, enough: int) -> Sequence[datetime]:
        """Return when those stretches of the scope's conversations without an hour's silence ended that did so after.

        The newest first, and at most `enough`, so that no more of a long history is read than is needed to know that
        there are so many.
        """

    async def said_between(self, scope: Scope, start: datetime, end: datetime) -> Sequence[Said]:
        """Return what was said in [start, end), oldest first."""


class Fence(Protocol):
    """Proof that a lease is held: a number that only grows."""

    @property
    def token(self) -> int:
        """The number; greater than that of every earlier holder."""

    async def check(self) -> None:
        """Raise `LeaseLost` unless this token is still the newest for its name. Called right before each replace."""


class Leases(Protocol):
    """Exclusion across processes, held in the database."""

    def hold(self, name: str, *, seconds: float, wait: float) -> AbstractAsyncContextManager[Fence]:
        """Hold the named lease; renews itself while held; raises `LeaseLost` if not had within `wait` seconds."""


class Notice(Protocol):
    """One short line to whoever the scope belongs to."""

    async def __call__(self, scope: Scope, text: str) -> None:
        """Put the line into the outbox; delivered later, once."""


Counted = Literal[
    "memory_loaded",
    "memory_disabled",
    "memory_toggled",
    "team_memory_disabled",
    "agent_memory_loaded",
    "memory_tool_calls",
    "tools_denied",
    "extractions",
    "extraction_skips",
    "extraction_turns_coalesced",
    "extracted_files",
    "extracted_memories",
    "dreams",
    "dream_facts",
    "dream_bytes",
    "dreams_undone",
    "run_tokens",
    "instruction_files_loaded",
    "instruction_files_unreadable",
    "job_runs",
    "team_sync_files",
    "team_pushes_suppressed",
    "team_sync_starts",
    "team_pulls",
    "team_entries_capped",
    "team_secrets_skipped",
    "team_secrets_received",
    "team_requests",
]
"""What is counted; the host knows the labels of each and the few values that a label can have."""

Observed = Literal[
    "memory_files",
    "memory_folders",
    "agent_list_lines",
    "agent_list_bytes",
    "recall_seconds",
    "recall_candidates",
    "recall_chosen",
    "recall_age_days",
    "extraction_seconds",
    "extraction_messages",
    "extraction_turns",
    "dream_hours",
    "dream_seconds",
    "dream_survival_ratio",
    "run_seconds",
    "run_cache_hit_ratio",
    "job_seconds",
    "team_sync_seconds",
    "team_sync_start_files",
    "team_push_batches",
    "team_push_retries",
    "team_entries_allowed",
    "team_entries_received",
]
"""What is measured, each in the unit of its name."""


class Meter(Protocol):
    """Takes the figures of what happens. A label's value is a word of the program, never a content, path or name."""

    def count(self, what: Counted, number: float = 1, /, **labels: str) -> None:
        """Add to a counter; never raises for a value of a label."""

    def observe(self, what: Observed, value: float, /, **labels: str) -> None:
        """Take one measurement; never raises for a value of a label."""


class Unmetered:
    """A `Meter` for whoever keeps no figures."""

    def count(self, what: Counted, number: float = 1, /, **labels: str) -> None:
        """Do nothing."""

    def observe(self, what: Observed, value: float, /, **labels: str) -> None:
        """Do nothing."""


UNMETERED = Unmetered()
