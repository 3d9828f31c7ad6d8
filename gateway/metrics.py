"""The figures that `/metrics` shows: what happens in memory, counted and measured, and never a word of it.

Each label has a closed set of values, given here. Whatever else a caller might hand over, the name of a tool that a
model made up for one, is counted as "other"; so no content, path, name or secret can get into a figure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.exposition import choose_encoder

from memory.ports import Counted, Observed, Outcome
from memory.secret_scan import RULES
from memory.team.remote import Answer
from memory.team.server import OUTCOMES

OTHER = "other"
"""Stands for every value of a label that is not in its set."""

_PREFIX = "reverie"
_OUTCOMES = (*(outcome.value for outcome in Outcome), "error")
_PURPOSES = ("extraction", "dream", "distil", "tidy", "recall", "agent")
_RUNS = ("chat", *_PURPOSES)
_TOOLS = ("read", "write", "edit", "append", "delete", "glob", "grep", "Agent")
_MEMORIES = ("personal", "team", "agent")
_SKIPS = ("disabled", "nothing_new", "throttled", "direct_write")
_DREAMS = ("changed", "unchanged", "refused", "spent", "failed", "stopped", "aborted", "gated", "busy")
_SYNCED = ("written", "removed", "conflicts", "pushed", "deleted", "skipped")

_JOBS = (
    "close_day",
    "distil",
    "dream",
    "team_sync",
    "tidy_team",
    "end_sessions",
    "leave_teams",
    "recover_dreams",
    "forget_logs",
    "forget_runs",
    "clear_away",
)
_RAN = ("done", "failed", "missed", "lost", "busy")

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800)
_NUMBERS = (0, 1, 2, 3, 5, 10, 20, 50, 100, 200, 1000, 10_000)
_BYTES = (0, 1000, 2000, 5000, 10_000, 15_000, 20_000, 25_000)
_DAYS = (0, 1, 2, 7, 30, 90, 365)
_HOURS = (24, 25, 36, 48, 72, 168, 720)
_RATIOS = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """What a figure tells, the values that each of its labels may have, and the bounds of its buckets."""

    tells: str
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    buckets: Sequence[float] = _NUMBERS


COUNTED: Mapping[Counted, Figure] = {
    "memory_loaded": Figure(
        tells="Indexes put into a session's prompt, and lists of notes into a sub-agent's, by what was cut off",
        labels={"memory": _MEMORIES, "cut": ("none", "lines", "bytes", "both")},
    ),
    "memory_disabled": Figure(
        tells="Sessions that began without memory, by what turned it off",
        labels={"by": ("environment", "setting", "preference")},
    ),
    "memory_toggled": Figure(
        tells="Switches of memory that somebody turned in a chat",
        labels={"by": ("ignore", "mode"), "to": ("on", "off", "auto", "log", "default")},
    ),
    "team_memory_disabled": Figure(
        tells="Sessions in a project's chat that began without its team memory, by what turned it off",
        labels={"by": ("environment", "setting", "preference", "membership")},
    ),
    "agent_memory_loaded": Figure(
        tells="Memories put into a sub-agent's prompt", labels={"scope": ("user", "project", "local")}
    ),
    "memory_tool_calls": Figure(
        tells="Tools that were used on memory; those on team memory, which is part of a scope's own, count under both",
        labels={"tool": _TOOLS, "memory": _MEMORIES, "run": _RUNS},
    ),
    "tools_denied": Figure(tells="Tools that were refused", labels={"tool": _TOOLS, "run": _RUNS}),
    "extractions": Figure(tells="Extraction runs, by how they ended", labels={"outcome": _OUTCOMES}),
    "extraction_skips": Figure(tells="Due extractions that were not run", labels={"reason": _SKIPS}),
    "extraction_turns_coalesced": Figure(tells="Turns that ended while a run of their session was in progress"),
    "extracted_files": Figure(tells="Files that extraction wrote or deleted"),
    "extracted_memories": Figure(tells="Notes that extraction saved", labels={"memory": ("personal", "team")}),
    "dreams": Figure(tells="Dreams that were asked for, by how they ended", labels={"outcome": _DREAMS}),
    "dream_facts": Figure(
        tells="Facts that dreams had before them, and what became of them", labels={"fate": ("kept", "removed")}
    ),
    "dream_bytes": Figure(
        tells="Size of the memories that dreams have changed, before and after", labels={"when": ("before", "after")}
    ),
    "dreams_undone": Figure(tells="Dreams that were taken back by hand"),
    "run_tokens": Figure(
        tells="Tokens of what the model does for memory",
        labels={"purpose": _PURPOSES, "kind": ("input", "output", "cache_read", "cache_write")},
    ),
    "instruction_files_loaded": Figure(
        tells="Instruction files put into a session's prompt", labels={"layer": ("managed", "user", "project", "local")}
    ),
    "instruction_files_unreadable": Figure(
        tells="Instruction files and folders that the system did not let be read, at a session's start",
        labels={"layer": ("managed", "user", "project", "local")},
    ),
    "job_runs": Figure(tells="Slots of scheduled jobs, by what became of them", labels={"job": _JOBS, "outcome": _RAN}),
    "team_sync_files": Figure(tells="Files of team memory, by what an exchange did", labels={"what": _SYNCED}),
    "team_pushes_suppressed": Figure(tells="Pushes that rested because they would only fail again"),
    "team_sync_starts": Figure(
        tells="First pulls of a copy of team memory since the process began",
        labels={"pulled": ("yes", "no"), "server": ("content", "empty", "unknown")},
    ),
    "team_pulls": Figure(tells="Pulls that came to their end", labels={"found": [answer.value for answer in Answer]}),
    "team_entries_capped": Figure(tells="Notes that were not pushed because the server takes no more"),
    "team_secrets_skipped": Figure(
        tells="Secrets because of which a note was neither pushed nor taken, by their rule", labels={"rule": RULES}
    ),
    "team_secrets_received": Figure(
        tells="Secrets that others have put into the team memory kept here, by their rule", labels={"rule": RULES}
    ),
    "team_requests": Figure(
        tells="Requests to the team memory that is kept here, by what came of them",
        labels={"method": ("GET", "PUT"), "outcome": tuple(OUTCOMES.values())},
    ),
}
OBSERVED: Mapping[Observed, Figure] = {
    "memory_files": Figure(tells="Files of a memory at a session's start", labels={"memory": _MEMORIES}),
    "memory_folders": Figure(tells="Folders of a memory at a session's start", labels={"memory": _MEMORIES}),
    "agent_list_lines": Figure(tells="Lines of the list of notes in a sub-agent's prompt"),
    "agent_list_bytes": Figure(tells="Size of the list of notes in a sub-agent's prompt", buckets=_BYTES),
    "recall_seconds": Figure(tells="How long a message waited for its notes", buckets=_SECONDS),
    "recall_candidates": Figure(tells="Notes that were offered to the selector"),
    "recall_chosen": Figure(
        tells="Notes that were chosen for a message, none included, by what came of asking the selector",
        labels={"source": ("selector", "local", "none"), "answer": ("in_time", "late", "broken", "unasked")},
    ),
    "recall_age_days": Figure(tells="Age of the chosen notes", buckets=_DAYS),
    "extraction_seconds": Figure(tells="Duration of a run", labels={"outcome": _OUTCOMES}, buckets=_SECONDS),
    "extraction_messages": Figure(tells="Messages that a run was asked to look at"),
    "extraction_turns": Figure(tells="Turns that a run took"),
    "dream_hours": Figure(tells="Time since the consolidation before", buckets=_HOURS),
    "dream_seconds": Figure(tells="Duration of a dream", buckets=_SECONDS),
    "dream_survival_ratio": Figure(
        tells="Share of the facts that a dream left, whether or not it was kept",
        labels={"outcome": _DREAMS},
        buckets=_RATIOS,
    ),
    "run_seconds": Figure(
        tells="Duration of what the model does for memory",
        labels={"purpose": _PURPOSES, "outcome": _OUTCOMES},
        buckets=_SECONDS,
    ),
    "run_cache_hit_ratio": Figure(
        tells="Share of a run's input that was read from the prompt cache",
        labels={"purpose": _PURPOSES},
        buckets=_RATIOS,
    ),
    "job_seconds": Figure(tells="Duration of a scheduled job's run", labels={"job": _JOBS}, buckets=_SECONDS),
    "team_sync_seconds": Figure(
        tells="Duration of an exchange of team memory",
        labels={
            "direction": ("sync", "pull", "push"),
            "outcome": ("ok", "no_answer", "conflict", "too_many", "denied", "refused", "unavailable", "malformed"),
        },
        buckets=_SECONDS,
    ),
    "team_sync_start_files": Figure(tells="Notes of a copy of team memory at its first pull"),
    "team_push_batches": Figure(tells="Requests that a push took"),
    "team_push_retries": Figure(tells="How often a push was sent again because somebody else had written"),
    "team_entries_allowed": Figure(tells="How many entries a server takes, when it refused more"),
    "team_entries_received": Figure(tells="How many entries there would have been, when a server refused them"),
}


class Metrics:
    """The figures of one gateway; a `memory.ports.Meter`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Put the figures into `registry`, which must not hold them yet."""
        self._registry = registry
        self._counters = {
            name: Counter(f"{_PREFIX}_{name}", figure.tells, tuple(figure.labels), registry=registry)
            for name, figure in COUNTED.items()
        }
        self._histograms = {
            name: Histogram(
                f"{_PREFIX}_{name}", figure.tells, tuple(figure.labels), registry=registry, buckets=figure.buckets
            )
            for name, figure in OBSERVED.items()
        }

    def count(self, what: Counted, number: float = 1, /, **labels: str) -> None:
        """Add to a counter; see `memory.ports.Meter`."""
        counter, words = self._counters[what], _words(COUNTED[what], labels)
        (counter.labels(**words) if words else counter).inc(number)

    def observe(self, what: Observed, value: float, /, **labels: str) -> None:
        """Take one measurement; see `memory.ports.Meter`."""
        histogram, words = self._histograms[what], _words(OBSERVED[what], labels)
        (histogram.labels(**words) if words else histogram).observe(value)

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """Return all figures in the text format that an `Accept` header asks for, and its content type."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type


def _words(figure: Figure, given: Mapping[str, str]) -> dict[str, str]:
    return {label: value if (value := given.get(label, OTHER)) in of else OTHER for label, of in figure.labels.items()}
