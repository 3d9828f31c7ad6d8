"""Runs the model's tools for one run, with the rights of that run.

| tool              | allowed                                                        |
| ----------------- | -------------------------------------------------------------- |
| read, glob, grep  | below `rights.read`                                            |
| write, edit, delete | Markdown below `rights.write`, never with `append_only`      |
| append            | Markdown below `rights.write`; with `append_only` that file alone |
| Agent             | in a person's turn only: forks and agents are given none       |
| anything else     | denied                                                         |

No run adds a secret to private memory (`Notes.without_secrets`). Those that act on a conversation take no more than a
few facts out of a note by writes and edits, nor by a deletion that nobody asked for (`memory.losses`). In a shared chat
a guard looks, besides, at whose facts a change takes out; see `gateway.tools.guard`. Where a person is asked before
their words reach a team, a change in T is staged (`drafts`) and waits for that.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
from anthropic.lib.tools import ToolError
from anthropic.lib.tools.agent_toolset import AgentToolContext, beta_glob_tool, beta_read_tool

from gateway.tools import search
from gateway.tools.failures import Failures, is_the_hosts
from gateway.tools.guard import watched
from gateway.tools.passages import passage
from memory import secret_scan
from memory.citations import without_marks
from memory.detection import MemoryKind, kind_of
from memory.errors import MemoryFault, PathRefused, WriteRefused
from memory.facts import facts, without
from memory.freshness import age_days, freshness_note
from memory.losses import Losses
from memory.notes import Note, Notes, Watch
from memory.paths import contained, in_team, readable_path, writable_path
from memory.ports import UNMETERED, Clock, Meter, Rights
from memory.scope import Scope
from memory.team_notes import TeamNotes

Tool = Callable[[Mapping[str, Any]], Awaitable[Any]]
AfterRead = Callable[[Path], Awaitable[str]]
"""Returns what is to be said after a file was read, such as rules for it."""
Taken = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Returns a tool's arguments as they are to be applied, without what the model put there for the host."""

_FILE_TOOLS = frozenset({"read", "write", "edit", "append", "delete", "glob", "grep"})
_CHAT, _AGENT_RUN = "chat", "agent"
_BOUNDED = frozenset({_CHAT, "extraction", _AGENT_RUN})
"""The runs in which one change may take out only a few facts; works of the night are judged by all that they did."""
_FORGET = (
    "The notes are cleared of it. What was said stays in the transcript and the day logs: `/forget` clears those too."
)
_STAGED = (
    "This change is staged, not shared: after your answer the person is shown it and asked. Until they confirm it, "
    "nobody else sees anything of it; so say that it waits for their word, not that it is shared."
)
_WAITS = "(As the file would be once the person confirms what is staged of it; the team does not see that yet.)"

log = structlog.get_logger(__name__)


Allowed = Callable[[str, Mapping[str, Any]], Awaitable[bool]]
"""Tells whether a tool may be run with these arguments, if need be after the person was asked."""


async def always(tool: str, arguments: Mapping[str, Any]) -> bool:
    """Allow everything that the rights of a run allow."""
    return True


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolResult:
    """What goes back to the model: text or content blocks."""

    content: Any
    is_error: bool = False


class Toolbox:
    """The tools of one run. It remembers what the run has read, so that a write knows what it replaces."""

    def __init__(
        self,
        scope: Scope,
        rights: Rights,
        notes: Notes,
        clock: Clock,
        *,
        agent: Tool | None = None,
        after_read: AfterRead | None = None,
        guard: Watch | None = None,
        watches: Sequence[Watch] = (),
        meter: Meter = UNMETERED,
        run: str = _CHAT,
        drafts: TeamNotes | None = None,
        taken: Taken | None = None,
        allowed: Allowed = always,
    ) -> None:
        """Take the parts; `run` is the word under which the meter counts what is used here.

        `guard` may refuse a change, which `watches` then don't see. `drafts` take the changes of T that `rights` leave
        out; without them those are refused. `allowed` is asked before a tool is run. The tools are called with what
        `taken` makes of their arguments; by itself it leaves out marks of a source, as no note ever holds one.
        """
        self._scope = scope
        self._rights = rights
        notes = notes.without_secrets()
        losses = Losses() if run in _BOUNDED else None
        self._notes = watched(notes, *filter(None, (guard, losses, *watches)))
        # What a person asks for in the chat may go as a whole; nobody has asked a run of the host's for it.
        self._deleting = watched(notes, *filter(None, (guard, *watches))) if run == _CHAT else self._notes
        self._drafts = drafts
        self._taken = taken or without_marks
        self._permits = allowed
        self._clock = clock
        self._seen: dict[Path, str] = {}
        self._written: dict[Path, None] = {}
        self._left_out: list[str] = []
        self._opened: dict[str, float] = {}
        self._failures = Failures(scope.memory_dir)
        outside = [root for root in rights.read if root != scope.memory_dir]
        self._context = AgentToolContext(workdir=scope.memory_dir, allowed_roots=outside)
        self._after_read = after_read
        self._meter = meter
        self._run = run
        self._tools: dict[str, Tool] = {
            "read": self._read,
            "write": self._write,
            "edit": self._edit,
            "append": self._append,
            "delete": self._delete,
            "glob": self._glob,
            "grep": self._grep,
        } | ({"Agent": agent} if agent else {})

    @property
    def written(self) -> tuple[Path, ...]:
        """The files that were written or deleted, or whose write was cut off, each once, in order; none only staged."""
        return tuple(self._written)

    @property
    def failed(self) -> tuple[Path, ...]:
        """The files whose write failed for no fault of the model, and was not made good; also what can't be staged."""
        return self._failures.paths

    @property
    def left_out(self) -> tuple[str, ...]:
        """The kind of each secret that was left out of what was written."""
        return tuple(self._left_out)

    @property
    def opened(self) -> Mapping[str, float]:
        """The mtimes of the notes of A that stand in the run as they are, read or written, by name."""
        return self._opened

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Run one tool; whatever goes wrong is told to the model and never raised."""
        arguments = self._taken(arguments) if isinstance(arguments, Mapping) else arguments
        tool = self._tools.get(name)
        if tool is None:
            return self._denied(name, f"There is no tool {name!r}. Use one of: {', '.join(self._tools)}.")
        if not await self._permits(name, arguments):
            return self._denied(name, f"The person has not allowed {name}. Go on without it, and say so.")
        try:
            with self._failures.noting(name, arguments):
                result = ToolResult(content=await tool(arguments))
            self._meter_use(name, arguments)
            return result
        except (PathRefused, WriteRefused) as error:
            if is_the_hosts(error):
                return ToolResult(content=str(error), is_error=True)
            return self._denied(name, str(error))
        except (MemoryFault, ToolError, KeyError, TypeError, ValueError, OSError, RecursionError) as error:
            return ToolResult(content=_told(name, error), is_error=True)

    async def _read(self, given: Mapping[str, Any]) -> Any:
        path = self._readable(_text(given, "file_path"))
        waiting = await self._drafts.waiting(self._scope, path) if self._drafts is not None else None
        if waiting is not None:
            self._seen[path] = waiting.hash
            return f"{_WAITS}\n\n{waiting.text}"
        if path.suffix == ".md" and path.is_relative_to(self._scope.memory_dir) and path.is_file():
            note = await self._notes.read(self._scope, path)
            self._saw(note)
            age = age_days(note.mtime_ns / 1e9, self._clock().timestamp())
            parts = (freshness_note(age), passage(note.text, given.get("view_range")))
            text: Any = "\n\n".join(filter(None, parts))
        else:
            text = await _apart(beta_read_tool(self._context), dict(given) | {"file_path": str(path)})
        if not isinstance(text, str):
            return text
        rules = await self._after_read(path) if self._after_read else ""
        return "\n\n".join(filter(None, (text.strip() and text, rules))) or "(the file is empty)"

    async def _write(self, given: Mapping[str, Any]) -> str:
        path = self._writable(_text(given, "file_path"))
        with self._noting(path):
            note = await self._on(path).write(self._scope, path, _text(given, "content"), expected=self._seen.get(path))
        return self._done(note, "written")

    async def _edit(self, given: Mapping[str, Any]) -> str:
        path = self._writable(_text(given, "file_path"))
        with self._noting(path):
            note = await self._on(path).edit(
                self._scope,
                path,
                _text(given, "old_string"),
                _text(given, "new_string"),
                expected=None,
                replace_all=bool(given.get("replace_all", False)),
            )
        return self._done(note, "edited")

    async def _append(self, given: Mapping[str, Any]) -> str:
        path = self._writable(_text(given, "file_path"), appending=True)
        content = _text(given, "content")
        with self._noting(path):
            if path == self._rights.append_only and path.is_file():
                there = await self._notes.read(self._scope, path)
                content = await asyncio.to_thread(_not_logged, there.text, content)
                if not content.strip():
                    return f"{path} holds that already."
            note = await self._on(path).append(self._scope, path, content)
        return self._done(note, "added to")

    async def _delete(self, given: Mapping[str, Any]) -> str:
        path = self._writable(_text(given, "file_path"))
        with self._noting(path):
            notes = self._drafts if self._drafts is not None and self._stages(path) else self._deleting
            await notes.delete(self._scope, path, expected=self._seen.get(path))
        self._seen.pop(path, None)
        if self._stages(path):
            return f"{path}: {_STAGED}"
        return f"{path} is deleted. {_FORGET}" if self._run == _CHAT else f"{path} is deleted."

    async def _glob(self, given: Mapping[str, Any]) -> Any:
        where = self._readable(_text({"path": ".", **given}, "path") or ".")
        found = await _apart(beta_glob_tool(self._context), {"pattern": _text(given, "pattern"), "path": str(where)})
        return "\n".join(line for line in found.splitlines() if self._may_read(line)) or "no matches"

    async def _grep(self, given: Mapping[str, Any]) -> str:
        where = self._readable(_text({"path": ".", **given}, "path") or ".")
        return await search.grep(_text(given, "pattern"), where, allowed=self._may_read)

    def _readable(self, given: str) -> Path:
        path = readable_path(self._scope, given)
        return contained(str(path), base=self._scope.memory_dir, roots=self._rights.read)

    def _may_read(self, path: str) -> bool:
        try:
            self._readable(path)
        except PathRefused:
            return False
        return True

    def _writable(self, given: str, *, appending: bool = False) -> Path:
        path = writable_path(self._scope, given)
        only = self._rights.append_only
        if only is not None:
            if appending and path == only:
                return path
            raise WriteRefused(f"in this run the only thing that may be written is {only}, by appending to it")
        if self._stages(path) and self._drafts is None:
            raise WriteRefused("team memory can't be written from here; say it in a chat of the team")
        return contained(str(path), base=self._scope.memory_dir, roots=self._rights.write)

    def _stages(self, path: Path) -> bool:
        """Whether a change of this file is not this run's to make, as it is the team's."""
        return in_team(self._scope, path) and self._scope.team_dir not in self._rights.write

    def _on(self, path: Path) -> Notes:
        return self._drafts if self._drafts is not None and self._stages(path) else self._notes

    @contextmanager
    def _noting(self, path: Path) -> Iterator[None]:
        """Note the write of `path` if it succeeds, and if it is cancelled: it may have been done all the same."""
        if self._stages(path):
            yield
            return
        try:
            yield
        except asyncio.CancelledError:
            self._written[path] = None
            raise
        self._written[path] = None

    def _saw(self, note: Note) -> None:
        self._seen[note.path] = note.hash
        self._opened[note.path.relative_to(self._scope.memory_dir).as_posix()] = note.mtime_ns / 1e9

    def _done(self, note: Note, verb: str) -> str:
        self._seen[note.path] = note.hash
        if self._stages(note.path):
            return f"{note.path}: {_STAGED}"
        self._left_out += note.left_out
        return "\n".join([f"{note.path} is {verb}.", *note.warnings, *([_secrets(note)] if note.left_out else [])])

    def _meter_use(self, name: str, given: Mapping[str, Any]) -> None:
        kind = kind_of(self._scope, str(given.get("file_path") or given.get("path") or "."))
        if kind is not None and name in _FILE_TOOLS:
            kinds = (kind, MemoryKind.PERSONAL) if kind is MemoryKind.TEAM else (kind,)  # T is part of A
            for memory in (MemoryKind.AGENT,) if self._run == _AGENT_RUN else kinds:
                self._meter.count("memory_tool_calls", tool=name, memory=memory.value, run=self._run)

    def _denied(self, name: str, reason: str) -> ToolResult:
        log.info("tool_denied", tool=name if name in self._tools else "unknown")
        self._meter.count("tools_denied", tool=name, run=self._run)
        return ToolResult(content=reason, is_error=True)


def _told(name: str, error: Exception) -> Any:
    match error:
        case ToolError():
            return error.content
        case MemoryFault():
            return str(error)
        case KeyError():
            return f"{name}: the argument {error} is missing"
        case OSError():
            return f"{name}: {error.strerror or 'the file system failed'}"
    return f"{name}: {error}"


def _secrets(note: Note) -> str:
    kinds = ", ".join(dict.fromkeys(note.left_out))
    return (
        f"What looked like a secret ({kinds}) was left out, as notes are plain text: a mark stands in its place. Leave "
        "it so, and if a person reads your answer, tell them."
    )


def _not_logged(log_text: str, text: str) -> str:
    """Return what of a text a log does not hold word for word: a run that is tried again adds nothing twice."""
    there = frozenset(facts(log_text))
    return without(text, lambda fact: secret_scan.redact(fact) in there)


def _text(given: Mapping[str, Any], argument: str) -> str:
    value = given[argument]
    if not isinstance(value, str):
        raise TypeError(f"the argument {argument!r} must be text")
    return value


async def _apart(tool: Any, arguments: dict[str, Any]) -> Any:
    """Run one of the SDK's file tools in a thread with a loop of its own: they walk directories without yielding."""
    return await asyncio.to_thread(lambda: asyncio.run(tool.call(arguments)))
