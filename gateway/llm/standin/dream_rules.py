"""The dream by rules: exact duplicates are merged, the index is made to match the files.

Rounds: index, file list and the day logs that the prompt names, the notes, the merging, the index again, its mending.
It invents nothing and rewrites no sentence, so what is in a log stays there.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gateway.llm.standin.answers import Answer, ToolCall
from gateway.llm.standin.extraction_rules import INDEX, text_of
from gateway.llm.standin.request import Conversation, Result, pointers

MAX_NOTES = 60
_APART = ("logs/", "team/", "sessions/")
_FRONTMATTER = re.compile(r"\A---[ \t]*\n(.*?)\n---[ \t]*\n?", re.DOTALL)
_LOG = re.compile(r"^- (/.+\.md)$", re.MULTILINE)
_FIELD = re.compile(r"^(name|description):\s*(.+?)\s*$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class _Merge:
    """The calls that merge repeated facts, and how many repeats they take away."""

    calls: Sequence[ToolCall]
    repeats: int


@dataclass(frozen=True, kw_only=True)
class _Mend:
    """The call that makes the index match the files, and what it changes."""

    calls: Sequence[ToolCall]
    dropped: int
    added: int


def dream(talk: Conversation) -> Answer:
    """Answer one turn of a consolidation run."""
    directory, rounds = talk.memory_dir, talk.rounds
    if not {"read", "glob", "write"} <= set(talk.tools):
        return Answer(text="Nothing changed: the tools `read`, `glob` and `write` are needed.")
    index = ToolCall(name="read", input={"file_path": f"{directory}/{INDEX}"})
    if not rounds:
        notes = ToolCall(name="glob", input={"pattern": "**/*.md", "path": directory})
        return Answer(tools=[index, notes, *_logs(talk, directory)])
    if any(result.name == "glob" and result.is_error for result in rounds[0]):
        return Answer(text="Nothing changed: the notes could not be listed.")
    names = _listed(talk, directory)
    if len(rounds) == 1 and names:
        return Answer(tools=[ToolCall(name="read", input={"file_path": f"{directory}/{n}"}) for n in names])
    return _tidy(talk, index, names)


def _logs(talk: Conversation, directory: str) -> list[ToolCall]:
    """Return the calls that read the day logs which a night is to take up; a dream names none."""
    named = (path for path in dict.fromkeys(_LOG.findall(talk.prompt)) if path.startswith(f"{directory}/logs/"))
    return [ToolCall(name="read", input={"file_path": path}) for path in named]


def _tidy(talk: Conversation, index: ToolCall, names: Sequence[str]) -> Answer:
    """Merge first, then read the index again, as deleting a note may have changed it, and mend that."""
    directory, rounds = talk.memory_dir, talk.rounds
    notes = _read_notes(rounds[1], directory) if names and len(rounds) > 1 else {}
    merge = _merge(talk, directory, notes)
    at = 2 if names else 1
    read = rounds[0]
    gone: set[str] = set()
    if merge.calls:
        if len(rounds) == at:
            return Answer(tools=merge.calls)
        gone = {r.path.removeprefix(f"{directory}/") for r in rounds[at] if _is_deletion(r) and not r.is_error}
        if len(rounds) == at + 1:
            return Answer(tools=[index])
        read, at = rounds[at + 1], at + 2
    mend = _mend(directory, [name for name in names if name not in gone], notes, read)
    if mend.calls and len(rounds) == at:
        return Answer(tools=mend.calls)
    return _last_word(talk, merge, mend)


def _last_word(talk: Conversation, merge: _Merge, mend: _Mend) -> Answer:
    changes = (result for turn in talk.rounds for result in turn if result.name not in ("read", "glob"))
    failed = [result.text for result in changes if result.is_error]
    if failed:
        return Answer(text=f"Not all could be tidied: {'; '.join(failed)}")
    told = (
        (merge.repeats, "merged {} repeated fact(s)"),
        (mend.dropped, "dropped {} index line(s) without a file"),
        (mend.added, "added {} missing index line(s)"),
    )
    parts = [text.format(count) for count, text in told if count]
    joined = " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
    return Answer(text=f"{joined[:1].upper()}{joined[1:]}." if joined else "Nothing changed.")


def _is_deletion(result: Result) -> bool:
    return "delete" in result.name or result.name == "remove"


def _read_notes(reads: Sequence[Result], directory: str) -> dict[str, str]:
    """The notes by their name below the directory; an unreadable one is left out."""
    read = (result for result in reads if result.name == "read" and not result.is_error)
    return {result.path.removeprefix(f"{directory}/"): text_of(result) for result in read}


def _listed(talk: Conversation, directory: str) -> list[str]:
    """Names of the notes, relative to the directory, whichever way `glob` writes them."""
    listing = next((result.text for result in talk.rounds[0] if result.name == "glob"), "")
    names = (line.strip().removeprefix("- ").removeprefix(f"{directory}/") for line in listing.splitlines())
    notes = {n.removeprefix("./") for n in names if n.endswith(".md") and not n.startswith("/")}
    return sorted(n for n in notes if n != INDEX and not n.startswith(_APART))[:MAX_NOTES]


def _merge(talk: Conversation, directory: str, notes: Mapping[str, str]) -> _Merge:
    """Keep each fact where it stands first, notes of the index before others.

    A note that is left with none goes, if there is a tool to delete it.
    """
    listed = {pointer.file for result in talk.rounds[0][:1] for pointer in pointers(text_of(result))}
    delete = next((name for name in talk.tools if "delete" in name or name == "remove"), None)
    seen: set[str] = set()
    calls: list[ToolCall] = []
    repeats = 0
    for name in sorted(notes, key=lambda name: (name not in listed, name)):
        head = _FRONTMATTER.match(notes[name])
        lines = notes[name][head.end() if head else 0 :].splitlines()
        keys = [" ".join(line.strip(" \t-*•").split()).casefold() for line in lines]
        kept = [line for i, line in enumerate(lines) if not keys[i] or keys[i] not in seen | set(keys[:i])]
        seen.update(filter(None, keys))
        path = f"{directory}/{name}"
        if len(kept) == len(lines):
            continue
        if any(line.strip() for line in kept):
            content = (head.group(0) if head else "") + "\n".join(kept).rstrip("\n") + "\n"
            calls.append(ToolCall(name="write", input={"file_path": path, "content": content}))
        elif delete:
            calls.append(ToolCall(name=delete, input={_path_field(talk, delete): path}))
        else:
            continue
        repeats += len(lines) - len(kept)
    return _Merge(calls=calls, repeats=repeats)


def _path_field(talk: Conversation, tool: str) -> str:
    properties = talk.tools[tool].get("properties") or {}
    return next((name for name in properties if "path" in name or "file" in name), "file_path")


def _mend(directory: str, names: Sequence[str], notes: Mapping[str, str], reads: Sequence[Result]) -> _Mend:
    read = next((result for result in reads if result.name == "read"), None)
    lines = text_of(read).splitlines() if read and not read.is_error else []
    listed = {pointer.file for line in lines for pointer in pointers(line)}
    stale = [line for line in lines if any(_is_stale(p.file, set(names)) for p in pointers(line))]
    missing = [name for name in names if name not in listed and name in notes]
    kept = [line for line in lines if line not in stale]
    content = "\n".join([*kept, *(_line_for(name, notes[name]) for name in missing)]).strip("\n") + "\n"
    call = ToolCall(name="write", input={"file_path": f"{directory}/{INDEX}", "content": content})
    return _Mend(calls=[call] if stale or missing else [], dropped=len(stale), added=len(missing))


def _is_stale(file: str, there: set[str]) -> bool:
    return file not in there and not file.startswith(_APART)


def _line_for(name: str, note: str) -> str:
    head = _FRONTMATTER.match(note)
    fields = {m[1]: m[2].strip("\"'") for m in _FIELD.finditer(head.group(1) if head else "")}
    title = fields.get("name") or name.removesuffix(".md").replace("-", " ")
    return f"- [{title}]({name}): {fields.get('description', 'a note')[:100]}"
