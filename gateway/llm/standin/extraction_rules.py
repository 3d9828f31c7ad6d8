"""The extraction run by rules: keep lasting statements as indexed notes, or in the day's log.

One round reads, the next writes, the last says what was done. A write that failed is read and tried once
more.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.llm.standin.answers import Answer, ToolCall
from gateway.llm.standin.facts import Fact, facts_in
from gateway.llm.standin.request import (
    Conversation,
    ManifestLine,
    Pointer,
    Result,
    is_manifest_line,
    manifest_lines,
    path_at,
    pointers,
)

MAX_ROUNDS = 4
INDEX = "MEMORY.md"
_LAST = re.compile(r"\blast\s+~?\s*(\d+)\b|~\s*(\d+) messages", re.IGNORECASE)
_DEFAULT_MESSAGES = 10
_DAY_LOG = re.compile(r"Day log: *[`\"']?(/[^\n`\"']*)")
TEAM_DIRECTORY = re.compile(r"(?:Team directory: *|\bshared with a project in )[`\"']?(/[^\n`\"']*)")
_TEAM_CLOSED = ("team directory is read-only", "team directory is only for what the person has asked to share")
_CLOCK = re.compile(r"(?<![\d:])((?:[01]\d|2[0-3]):[0-5]\d)(?![\d])")
_ABSENT = re.compile(r"no such|not found|n't exist|not exist|missing|no file|cannot find|nothing there", re.IGNORECASE)
_JUST_WRITTEN = re.compile(r"^Just written\b.*$", re.MULTILINE)
_FILE = re.compile(r"[^\s`/]+\.md\b")
_AGE_NOTE = re.compile(r"\A[^\n]*\b\d+ days (?:ago|old)\b[^\n]*\n\n")
_EMPTY = "(the file is empty)"
_NUMBERED = re.compile(r"^\s*\d+(?:\t|→|: |\| )")
_HOOK_LENGTH = 100
_SOURCE = re.compile(r"(?:^\d{4}-\d\d-\d\d: |; )(\d+) (?:[^;\n]*? )?([0-2]\d:[0-5]\d)\b", re.MULTILINE)
_NUMBERED_SOURCES = "[from 3]"
"""What a run's message shows where it asks for the number of each fact's message."""


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """Notes to write, by absolute path, beside the index they need lines in."""

    index: str
    notes: Mapping[str, Fact]
    marks: Mapping[str, str]
    """What the run's message asks for behind each fact, by its words."""
    known: frozenset[str]


def extract(talk: Conversation) -> Answer:
    """Answer one turn of an extraction run."""
    heard = _heard(talk)
    facts, marks = facts_in(heard), _marks(talk, heard)
    existing = manifest_lines(talk.last_user_text)
    listed = pointers(talk.system)
    written = set(_FILE.findall("".join(_JUST_WRITTEN.findall(talk.prompt))))
    facts = [fact for fact in facts if not _is_known(fact, existing, listed) and fact.file not in written]
    if not facts:
        return Answer(text="Nothing new to keep.")
    if log := _DAY_LOG.search(talk.prompt):
        return _append_to_log(talk, facts, marks, path_at(log.group(1)))
    if "write" not in talk.tools:
        return Answer(text="There is something to keep, but no tool `write` to keep it with.")
    directory = _directory_for(talk, facts)
    plan = _Plan(
        index=f"{directory}/{INDEX}",
        notes={f"{directory}/{fact.file}": fact for fact in facts},
        marks=marks,
        known=frozenset(
            f"{talk.memory_dir}/{file}" for file in [*(n.file for n in existing), *(n.file for n in listed)]
        ),
    )
    return _next_turn(talk, plan)


def _directory_for(talk: Conversation, facts: Sequence[Fact]) -> str:
    """What is about the project alone goes to the team, where the run may write there."""
    told = f"{talk.prompt}\n{talk.system}"
    team = TEAM_DIRECTORY.search(told)
    closed = any(words in told for words in _TEAM_CLOSED)
    shared = team is not None and not closed and all(fact.type == "project" for fact in facts)
    return path_at(team.group(1)) if team and shared else str(talk.memory_dir)


def _next_turn(talk: Conversation, plan: _Plan) -> Answer:
    writes = [result for turn in talk.rounds for result in turn if result.name in ("write", "edit")]
    done = {result.path for result in writes if not result.is_error}
    open_ = [path for path in (*plan.notes, plan.index) if path not in done]
    last = talk.rounds[-1] if talk.rounds else ()
    if not open_:
        return Answer(text="Saved: " + ", ".join(fact.title for fact in plan.notes.values()) + ".")
    if len(talk.rounds) >= MAX_ROUNDS:
        return Answer(text="Some of it could not be saved: " + "; ".join(r.text for r in writes if r.is_error))
    if not last or any(result.name != "read" for result in last):
        wanted = [path for path in open_ if path == plan.index or path in plan.known or last]
        return Answer(tools=[ToolCall(name="read", input={"file_path": path}) for path in wanted])
    notes = [
        ToolCall(name="write", input={"file_path": path, "content": _note(fact, plan.marks[fact.quoted])})
        for path, fact in plan.notes.items()
        if path in open_
    ]
    index = [] if plan.index in done else _index_call(talk, plan, last)
    if not notes and not index:
        return Answer(text="The index is as it should be.")
    return Answer(tools=[*notes, *index])


def _heard(talk: Conversation) -> list[str]:
    """What people said in the messages that the prompt asks to look at."""
    found = _LAST.search(talk.prompt)
    count = int(found.group(1) or found.group(2)) if found else _DEFAULT_MESSAGES
    said = [spoken for spoken in talk.before if spoken.text and spoken.role != "system"]
    return [spoken.text for spoken in said[-max(1, count) :] if spoken.role == "user"]


def _is_known(fact: Fact, existing: Sequence[ManifestLine], listed: Sequence[Pointer]) -> bool:
    """Whether the list of notes or the index has the fact; where both have a note, the list is the newer one."""
    about = {_one_line(fact.quoted).casefold(), _hook(fact).casefold()}
    newer = {line.file for line in existing}
    return any(line.about.casefold() in about for line in existing) or any(
        line.hook.casefold() in about for line in listed if line.file not in newer
    )


def _marks(talk: Conversation, heard: Sequence[str]) -> Mapping[str, str]:
    """Return the number of the message that each fact is found in first, as a run's message asks for it."""
    asked = _NUMBERED_SOURCES in talk.prompt
    said = [(number, fact.quoted) for number, text in enumerate(heard, start=1) for fact in facts_in([text])]
    return {words: f" [from {number}]" if asked else "" for number, words in reversed(said)}


def _note(fact: Fact, mark: str) -> str:
    header = f"name: {_yaml(fact.title)}\ndescription: {_yaml(_one_line(fact.quoted))}\ntype: {fact.type}"
    return f"---\n{header}\n---\n\n{fact.quoted}{mark}\n"


def _yaml(text: str) -> str:
    """A double-quoted YAML scalar."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _pointer(fact: Fact) -> str:
    title = fact.title.replace("[", "(").replace("]", ")")
    return f"- [{title}]({fact.file}): {_hook(fact)}"


def _hook(fact: Fact) -> str:
    hook = _one_line(fact.quoted)
    return hook if len(hook) <= _HOOK_LENGTH else hook[: _HOOK_LENGTH - 1].rstrip() + "…"


def text_of(result: Result) -> str:
    """What a read gave: the file alone, without a word on its age before it and without line numbers."""
    text = _AGE_NOTE.sub("", result.text)
    lines = [] if text == _EMPTY else text.splitlines()
    if lines and all(_NUMBERED.match(line) for line in lines):
        lines = [_NUMBERED.sub("", line) for line in lines]
    return "\n".join(lines)


def _index_call(talk: Conversation, plan: _Plan, reads: Sequence[Result]) -> list[ToolCall]:
    """Give each note its line: by an edit of the last pointer where that is clear, else the whole file."""
    read = next((result for result in reads if result.path == plan.index), None)
    if read is None or (read.is_error and not _ABSENT.search(read.text)):
        return []  # an index that can't be read must not be written over
    old = "" if read.is_error else text_of(read)
    lines = {fact.file: _pointer(fact) for fact in plan.notes.values()}
    present = {pointer.file for pointer in pointers(old)}
    last = next((line for line in reversed(old.splitlines()) if line.lstrip().startswith("- [")), "")
    if last and "edit" in talk.tools and not present & set(lines) and old.count(last) == 1:
        new = "\n".join([last, *lines.values()])
        return [ToolCall(name="edit", input={"file_path": plan.index, "old_string": last, "new_string": new})]
    kept = [line for line in old.splitlines() if not present & {p.file for p in pointers(line)} & set(lines)]
    kept = kept if any("- [" in line for line in kept) else [line for line in kept if line.startswith("#")]
    content = "\n".join([*kept, *lines.values()]) + "\n"
    return [ToolCall(name="write", input={"file_path": plan.index, "content": content})]


def _append_to_log(talk: Conversation, facts: Sequence[Fact], marks: Mapping[str, str], path: str) -> Answer:
    """Add bullets to the day's log: by `append` where it is offered, else by reading and writing the file."""
    times = {f" [from {number}]": f"{clock} " for number, clock in _SOURCE.findall(talk.prompt)}
    clock = _CLOCK.findall("\n".join(x for x in talk.prompt.splitlines() if not is_manifest_line(x)))
    stamp = f"{clock[-1]} " if clock else ""
    said = [(times.get(marks[fact.quoted], stamp), f"{fact.quoted}{marks[fact.quoted]}") for fact in facts]
    bullets = "".join(f"- {when}{words}\n" for when, words in said)
    last = talk.rounds[-1] if talk.rounds else ()
    if any(result.name in ("append", "write") for result in last):
        failed = [result.text for result in last if result.is_error]
        if not failed or len(talk.rounds) > 1:
            return Answer(text="The log could not be written: " + "; ".join(failed) if failed else "Logged.")
    if "append" in talk.tools:
        return Answer(tools=[ToolCall(name="append", input=_append_input(talk.tools["append"], path, bullets))])
    if not last:
        return Answer(tools=[ToolCall(name="read", input={"file_path": path})])
    read = last[0]
    if read.is_error and not _ABSENT.search(read.text):
        return Answer(text=f"The log could not be read: {read.text}")
    old = "" if read.is_error else text_of(read).rstrip("\n") + "\n"
    return Answer(tools=[ToolCall(name="write", input={"file_path": path, "content": old.lstrip("\n") + bullets})])


def _append_input(schema: Mapping[str, Any], path: str, text: str) -> dict[str, Any]:
    """Fill the tool's own fields: the one that names a path, and the other required one."""
    required = list(schema.get("required") or schema.get("properties") or ())
    place = next((name for name in required if "path" in name or "file" in name), None)
    content = next((name for name in required if name != place), "content")
    return {**({place: path} if place else {}), content: text}
