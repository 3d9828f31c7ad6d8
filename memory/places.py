"""Where something of a principal may stand: the memory itself, and what agents keep beside it."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from memory import snapshot as snapshots
from memory.agent_memory import agent_scope
from memory.agents import Agent, AgentMemory
from memory.disk import walk
from memory.errors import MemoryFault
from memory.index import is_index
from memory.paths import AGENT_MEMORY, AGENT_MEMORY_LOCAL, TEAM, folder_name
from memory.prompt import NOTE_BYTES, read_text
from memory.scan import NoteHeader
from memory.scope import Mode, Scope


def read_files(scope: Scope, headers: Iterable[NoteHeader]) -> dict[str, str]:
    """Return the texts of notes, indexes and day logs by name; blocking. `headers` name the notes of T.

    Of a file that is no text it is what can be read of it, so that it is known where something stands.
    """
    saved = snapshots.read_all(scope).items()
    own = {path.relative_to(scope.memory_dir).as_posix(): each.text for path, each in saved}
    team = {header.name for header in headers if header.team and scope.team_dir is not None}
    others = {name for name in _names(scope) if name not in own and (is_index(name) or not in_folder(name, TEAM))}
    return own | {
        name: read_text(scope.memory_dir, scope.memory_dir / name, limit=NOTE_BYTES) for name in sorted(team | others)
    }


def in_folder(name: str, folder: str) -> bool:
    """Return whether a note of this name lies in this folder, directly or deeper."""
    return name.startswith(f"{folder}/")


def _names(scope: Scope) -> Iterator[str]:
    def entered(folder: str) -> bool:
        hidden = folder.rpartition("/")[2].startswith(".")
        return not hidden and (folder != TEAM or scope.team_dir is not None)

    for _, folder, entry in walk(scope.memory_dir, enter=entered):
        if not entry.name.startswith("."):
            yield folder + entry.name


def places(scope: Scope, home: Path) -> dict[str, Scope]:
    """Return where something may stand, by what the names of the notes there begin with; blocking.

    That is the memory itself, what agents keep for the same principal, and what they keep for the project. `home` is
    $REVERIE_HOME. A place that may not be changed from here has no writable directory.
    """
    own = Path(os.path.realpath(home)) / "homes" / folder_name(scope.principal)
    found = {f"@{path.name}/": path for path in own.glob(f"{AGENT_MEMORY}/*")}
    local = own.glob(f"projects/*/{AGENT_MEMORY_LOCAL}/*")
    found |= {f"@{path.parents[1].name}/{path.name}/": path for path in local}
    private = {
        start: replace(scope, memory_dir=path, team_dir=None, mode=Mode.AUTO, readable=(path,), writable=(path,))
        for start, path in sorted(found.items())
        if path.is_dir() and os.path.realpath(path) == str(path)
    }
    return {"": scope} | private | dict(_of_the_project(scope, home))


def _of_the_project(scope: Scope, home: Path) -> Iterator[tuple[str, Scope]]:
    """Yield the agents' memory that a project shares, each with the rights that the agent itself would have here."""

    def of(name: str) -> Scope:
        agent = Agent(name=name, description="", prompt="", memory=AgentMemory.PROJECT)
        return agent_scope(scope, agent, home=home)

    anyones = of("agent")
    folder = anyones.memory_dir.parent
    for path in sorted(folder.iterdir()) if anyones.enabled and folder.is_dir() else ():
        with suppress(MemoryFault):  # no agent has such a name
            place = of(path.name)
            if place.enabled and path.is_dir():
                # A colon is in no folder's name. As team memory a note with an old secret could not be rewritten.
                yield f"@project:{path.name}/", replace(place, team_dir=None, readable=place.readable[:1])


def read_places(found: Mapping[str, Scope], headers: Iterable[NoteHeader]) -> dict[str, str]:
    """Return `read_files` of all these places; blocking."""
    return {
        f"{start}{name}": text
        for start, place in found.items()
        for name, text in read_files(place, () if start else headers).items()
    }


def fixed(found: Mapping[str, Scope], held: Iterable[str]) -> list[str]:
    """Return those of the notes that lie where nothing may be changed from here."""
    return [note for note in held if not found[start_of(note, found)].writable]


def start_of(note: str, found: Mapping[str, Scope]) -> str:
    """Return with what a note's name begins, of the places that were `found`."""
    return max((start for start in found if note.startswith(start)), key=len)
