"""/why: which notes shaped the last answer, how old they are and who said what is in them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from anyio import to_thread

from gateway.commands.table import Asked, Handler, Reply
from gateway.provenance import Provenance
from gateway.settings import Settings
from memory.agent_memory import agent_scope, shown_as
from memory.agents import load_agents
from memory.errors import PathRefused
from memory.facts import facts_of
from memory.freshness import age_days, age_words
from memory.paths import readable_path
from memory.ports import Clock
from memory.prompt import NOTE_BYTES, read_text
from memory.provenance import Source, fact_hash
from memory.scan import NoteHeader, Scans
from memory.scope import Scope

_NAMED = 5
UNKNOWN = "unknown who said it"

_Notes = Mapping[str, tuple[Scope, NoteHeader]]
"""The notes by the names that they were shown under, each with the scope in which it can be read."""


@dataclass(frozen=True, kw_only=True)
class WhyCommand:
    """The handler; it reads nothing outside the asker's scope and its agents' memories."""

    provenance: Provenance
    scanner: Scans
    clock: Clock
    settings: Settings

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """The handlers by name."""
        return {"why": self.why}

    async def why(self, asked: Asked) -> Reply:
        """List the notes that stood before the model when it last answered here."""
        scope = asked.scope
        if not scope.enabled:
            return Reply(text="Memory is switched off here: no note shaped my answer.")
        shaping = await self.provenance.shaping(scope, str(asked.claim.inbound.address))
        if shaping is None:
            return Reply(text="I have not answered anything here yet.")
        notes = await self._notes(scope, (*shaping.recalled, *shaping.earlier))
        opened = await to_thread.run_sync(partial(_names, scope, shaping.read))
        parts = [
            await self._part(notes, "Recalled for my last answer:", shaping.recalled),
            await self._part(notes, "Opened by me for it:", [name for name in opened if name in notes]),
            await self._part(notes, "Recalled earlier in this conversation:", shaping.earlier),
        ]
        text = "\n\n".join(part for part in parts if part) or "No note came along with my last answer."
        index = f"The index of all notes (`{scope.index.name}`) is always in front of me."
        return Reply(text=f"{text}\n\n{index}")

    async def _notes(self, scope: Scope, shown: Sequence[str]) -> _Notes:
        notes = {header.name: (scope, header) for header in await self.scanner.scan(scope)}
        if not any(name.startswith("@") for name in shown):
            return notes
        agents = await to_thread.run_sync(load_agents, self.settings.home, scope.project_root)
        for agent in agents.found:
            memory = await to_thread.run_sync(partial(agent_scope, scope, agent, home=self.settings.memory_base))
            if memory.enabled and any(name.startswith(shown_as(agent.name)) for name in shown):
                headers = await self.scanner.scan(memory)
                notes |= {shown_as(agent.name, header.name): (memory, header) for header in headers}
        return notes

    async def _part(self, notes: _Notes, title: str, names: Iterable[str]) -> str:
        wanted = [name for name in names if name.endswith(".md")]  # others are no notes of memory
        lines = [await self._line(name, *notes[name]) for name in wanted if name in notes]
        missing = len(wanted) - len(lines)
        if missing:  # a name may tell what was forgotten
            lines.append(f"- {missing} that {'is' if missing == 1 else 'are'} no longer there")
        return "\n".join([title, "", *lines]) if lines else ""

    async def _line(self, name: str, scope: Scope, header: NoteHeader) -> str:
        text = await to_thread.run_sync(partial(read_text, scope.memory_dir, header.path, limit=NOTE_BYTES))
        hashes = list(dict.fromkeys(map(fact_hash, facts_of(text))))
        sources = await self.provenance.sources(scope, hashes)
        age = age_words(age_days(header.mtime, self.clock().timestamp()))
        team = ", team memory" if header.team else ""
        return f"- `{name}` (saved {age}{team}): {_who(hashes, sources)}"


def _names(scope: Scope, paths: Sequence[str]) -> list[str]:
    """Return the names of those paths that lie in the memory directory; blocking."""
    names = []
    for given in paths:
        try:
            path = readable_path(scope, given)
        except PathRefused:
            continue
        if path.is_relative_to(scope.memory_dir):
            names.append(path.relative_to(scope.memory_dir).as_posix())
    return names


def _who(hashes: Sequence[str], sources: Mapping[str, Sequence[Source]]) -> str:
    said = dict.fromkeys(
        f"{each.speaker or each.account}, {each.at:%Y-%m-%d}" for fact in hashes for each in sources.get(fact, ())
    )
    unknown = sum(1 for fact in hashes if fact not in sources)
    if not said:
        return UNKNOWN
    listed = "; ".join(list(said)[:_NAMED])
    more = f"; and {len(said) - _NAMED} more" if len(said) > _NAMED else ""
    rest = f"; of {unknown} of {len(hashes)} facts {UNKNOWN}" if unknown else ""
    return f"said by {listed}{more}{rest}"
