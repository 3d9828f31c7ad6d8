"""Erasure on disk: what somebody asked to have forgotten leaves notes, indexes, day logs and what is kept to undo.

The host records what was forgotten and ends the sessions that know of it; see `memory.provenance.Ledger`.
"""

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path, PurePosixPath

import yaml
from anyio import to_thread

from memory import dailylog
from memory import snapshot as snapshots
from memory.agent_memory import AGENT_MEMORY, AGENT_MEMORY_LOCAL
from memory.errors import Conflict
from memory.facts import facts, without
from memory.index import INDEX, pointer, pointers, with_pointer
from memory.index import without as without_pointers
from memory.metadata import parse
from memory.notes import NoteMissing, Notes
from memory.paths import TEAM, folder_name
from memory.ports import Leases
from memory.prompt import read_text
from memory.provenance import Wording, fact_hash, stems
from memory.scan import LOGS, NoteHeader
from memory.scope import Mode, Scope

FOUND = 5
"""How many notes and facts a search names: what a person can look over before saying yes."""

_ENOUGH = 0.5  # the share of the words looked for that a fact must have, of those that any note has
_FILE_BYTES = 1024 * 1024
_DESCRIPTION = 100
_TELLING = 4  # letters; shorter words are mostly grammar
_TRIES = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """Something that can be forgotten: a whole note, or one fact wherever it stands if `hash` is given."""

    note: str
    """Relative to the memory directory; of a fact that stands in several, one of them."""
    hash: str = ""
    text: str = ""
    """The fact, or the note's first words: to be shown, never kept."""
    facts: tuple[str, ...] = ()
    """Of a whole note the hashes of the facts that it had when it was shown: no other one is forgotten."""


@dataclass(frozen=True, kw_only=True)
class Gone:
    """What is to be forgotten: the names of whole notes, and facts in their words."""

    notes: frozenset[str]
    texts: tuple[str, ...]
    corpus: tuple[str, ...]
    """All facts of the memory: what is said in many of them tells little of one."""

    @cached_property
    def hashes(self) -> frozenset[str]:
        """The hashes of the facts."""
        return frozenset(map(fact_hash, self.texts))

    @cached_property
    def _wording(self) -> Wording:
        return Wording(self.corpus)

    @cached_property
    def _own_words(self) -> frozenset[str]:
        stay = (fact for fact in self.corpus if not self.same(fact))
        own = frozenset[str]().union(*map(stems, self.texts)).difference(*map(stems, stay))
        return frozenset(stem for stem in own if len(stem) >= _TELLING or not stem.isascii())

    def same(self, fact: str) -> bool:
        """Return whether this is one of the facts."""
        return fact_hash(fact) in self.hashes

    def tells(self, text: str) -> bool:
        """Return whether a text says one of the facts, be it in other words."""
        return self.same(text) or any(self._wording.tells(text, fact) for fact in self.texts)

    def betrays(self, text: str) -> bool:
        """Return whether a header or a line of an index tells a fact, or has a word that no other fact has."""
        return self.tells(text) or not self._own_words.isdisjoint(stems(text))

    def told_in(self, text: str) -> bool:
        """Return whether a line of a text tells one of the facts."""
        return any(self.tells(line) for line in text.splitlines() if line.strip())

    def shorn(self, prompt: str) -> str:
        """Return a prompt without those lines of the indexes in it that betray a fact."""
        gone = {line for line, _ in pointers(prompt) if self.betrays(line)}
        return "".join(line for line in prompt.splitlines(keepends=True) if line.rstrip("\r\n") not in gone)


def read_files(scope: Scope, headers: Iterable[NoteHeader]) -> dict[str, str]:
    """Return the texts of notes and day logs by name, without the indexes; blocking. `headers` name those of T."""
    own = {path.relative_to(scope.memory_dir).as_posix(): saved.text for path, saved in _own(scope)}
    team = [header for header in headers if header.team and scope.team_dir is not None]
    return own | {header.name: read_text(scope.memory_dir, header.path, limit=_FILE_BYTES) for header in team}


def places(scope: Scope, home: Path) -> dict[str, Scope]:
    """Return where something may stand, by what the names of the notes there begin with; blocking.

    That is the memory itself, and what agents keep for the same principal. `home` is $REVERIE_HOME.
    """
    own = Path(os.path.realpath(home)) / "homes" / folder_name(scope.principal)
    found = {f"@{path.name}/": path for path in own.glob(f"{AGENT_MEMORY}/*")}
    local = own.glob(f"projects/*/{AGENT_MEMORY_LOCAL}/*")
    found |= {f"@{path.parents[1].name}/{path.name}/": path for path in local}
    return {"": scope} | {
        start: replace(scope, memory_dir=path, team_dir=None, mode=Mode.AUTO, readable=(path,), writable=(path,))
        for start, path in sorted(found.items())
        if path.is_dir() and os.path.realpath(path) == str(path)
    }


def read_places(found: Mapping[str, Scope], headers: Iterable[NoteHeader]) -> dict[str, str]:
    """Return `read_files` of all these places; blocking."""
    return {
        f"{start}{name}": text
        for start, place in found.items()
        for name, text in read_files(place, () if start else headers).items()
    }


def facts_of(text: str) -> list[str]:
    """Return a note's facts; of one that has none its description."""
    found = facts(text)
    about = str(parse(text)[0].get("description") or "")
    return found or ([about] if about else [])


def whole(note: str, text: str) -> Item:
    """Return a note as an item, as it stands now."""
    found = facts_of(text)
    return Item(note=note, text=next(iter(found), ""), facts=tuple(map(fact_hash, found)))


def find(files: Mapping[str, str], words: str) -> list[Item]:
    """Return what fits the words best, at most `FOUND`; a note of which all facts fit is named as a whole."""
    split = {note: facts_of(text) for note, text in files.items()}
    wording = Wording(fact for found in split.values() for fact in found)
    scored: dict[str, tuple[float, Item]] = {}
    for note, found in split.items():
        scores = [wording.share_of_known(words, f"{fact} {_title(note)}") for fact in found]
        if found and len(found) > 1 and min(scores) >= _ENOUGH and not note.startswith(f"{LOGS}/"):
            scored.setdefault(note, (max(scores), whole(note, files[note])))
            continue
        for fact, score in zip(found, scores, strict=True):
            item = Item(note=note, hash=fact_hash(fact), text=fact)
            if score >= _ENOUGH:
                scored.setdefault(item.hash, (score, item))
    best = sorted(scored.values(), key=lambda pair: -pair[0])
    return [item for _, item in best[:FOUND]]


def gone(files: Mapping[str, str], items: Iterable[Item]) -> Gone:
    """Return what these items are in the present notes; what is not there any more is left out."""
    split = {note: facts_of(text) for note, text in files.items()}
    items = tuple(items)
    hashes = {item.hash for item in items if item.hash}.union(*(item.facts for item in items))
    named = {item.note for item in items if not item.hash and item.note in split}
    notes = frozenset(note for note in named if hashes.issuperset(map(fact_hash, split[note])))
    everything = tuple(fact for found in split.values() for fact in found)
    texts = [fact for fact in everything if fact_hash(fact) in hashes]
    return Gone(notes=notes, texts=tuple(dict.fromkeys(texts)), corpus=everything)


def holding(files: Mapping[str, str], what: Gone) -> list[str]:
    """Return the names of the notes that will lose something; day logs are not named."""
    notes = (note for note in files if not note.startswith(f"{LOGS}/"))
    return [note for note in notes if note in what.notes or any(map(what.same, facts_of(files[note])))]


async def erase_everywhere(
    found: Mapping[str, Scope],
    what: Gone,
    held: Sequence[str],
    *,
    messages: frozenset[int],
    notes: Notes,
    leases: Leases,
) -> None:
    """Do `erase` in the memory itself, and at each other of these places that holds something of it."""
    for start, place in found.items():
        here = [note.removeprefix(start) for note in held if _start(note, found) == start]
        if here or not start:
            whole_notes = frozenset(note.removeprefix(start) for note in what.notes if _start(note, found) == start)
            part = replace(what, notes=whole_notes)
            await erase(place, part, here, messages=messages, notes=notes, leases=leases)


def _start(note: str, found: Mapping[str, Scope]) -> str:
    return max((start for start in found if note.startswith(start)), key=len)


async def erase(
    scope: Scope, what: Gone, held: Sequence[str], *, messages: frozenset[int], notes: Notes, leases: Leases
) -> None:
    """Take it out of the notes that are `held`, out of their indexes, the day logs and the snapshots of dreams.

    Doing it again changes nothing, so that one that was cut short can be repeated. Raises what `Notes` raises.
    """
    await to_thread.run_sync(scrub_snapshots, scope, what)
    left_nothing = {note for note in held if await _erase_from(scope, note, what, notes)}
    for folder in (scope.memory_dir, scope.team_dir):
        if folder is not None:
            await _clear_index(scope, folder, what, left_nothing, notes)
    async with leases.hold(f"memory:{scope.memory_dir}", seconds=30.0, wait=30.0):
        tells = what.same if scope.shared else what.tells  # one person's words may hold another's
        await to_thread.run_sync(partial(dailylog.scrub, scope, messages=messages, same=what.same, tells=tells))
    await to_thread.run_sync(scrub_snapshots, scope, what)  # one may have been taken meanwhile


async def _erase_from(scope: Scope, note: str, what: Gone, notes: Notes) -> bool:
    """Take it out of a note, and return whether the note is gone; what was added to it since stays."""
    path = scope.memory_dir / note
    for _ in range(_TRIES):
        try:
            present = await notes.read(scope, path)
            nothing = note in what.notes and all(map(what.same, facts_of(present.text)))
            left = "" if nothing else redacted(present.text, what.same, what.betrays, title=_title(note))
            if not left:
                await notes.delete(scope, path, expected=present.hash)
            elif left != present.text:
                await notes.write(scope, path, left, expected=present.hash)
        except NoteMissing:
            return True
        except Conflict:
            continue
        return not left
    raise Conflict(f"the note {note} did not stand still", actual="")


async def _clear_index(scope: Scope, folder: Path, what: Gone, left_nothing: Collection[str], notes: Notes) -> None:
    try:
        present = await notes.read(scope, folder / INDEX)
    except NoteMissing:
        return
    prefix = f"{TEAM}/" if folder == scope.team_dir else ""
    text = _index_without(present.text, what, left_nothing, prefix=prefix)
    if text != present.text:
        await notes.write(scope, folder / INDEX, text, expected=present.hash)


def redacted(text: str, same: Callable[[str], bool], betrays: Callable[[str], bool], *, title: str) -> str:
    """Return a note without the facts that are the `same`, and without what `betrays` them in its header.

    Returns "" if no fact is left. `title` stands in for a name that tells too much.
    """
    left = without(text, same)
    metadata, body = parse(left)
    header = {key: value for key, value in metadata.items() if isinstance(value, str) and betrays(value)}
    found = facts(left)
    if not found and (header or left != text):
        return ""
    if not header:
        return left
    instead = {"name": title, "description": found[0][:_DESCRIPTION]}
    kept = {key: instead.get(key, "") if key in header else value for key, value in metadata.items()}
    return f"---\n{yaml.safe_dump(kept, allow_unicode=True, sort_keys=False)}---\n{body}"


def scrub_snapshots(scope: Scope, what: Gone) -> None:
    """Take it out of all that dreams have kept to compare and to undo; blocking."""
    home = snapshots.kept_beside(scope)
    for state in home.glob("*/*") if home.is_dir() else ():
        with suppress(FileNotFoundError):  # a dream that ends may be throwing its snapshot away
            _scrub_state(state, what)


def _scrub_state(state: Path, what: Gone) -> None:
    """Scrub one state, indexes last: they lose the lines of notes of which nothing was left."""
    left_nothing = set(what.notes)
    for path in sorted(state.rglob("*.md"), key=lambda path: (path.name == INDEX, path)):
        name, text = path.relative_to(state).as_posix(), path.read_bytes().decode()
        if path.name == INDEX:
            left = _index_without(text, what, left_nothing)
        elif name in what.notes:
            left = None
        else:
            left = redacted(text, what.tells, what.betrays, title=_title(name)) or (None if text.strip() else text)
        if left is None:
            left_nothing.add(name)
            path.unlink()
        elif left != text:
            path.write_text(left, encoding="utf-8", newline="")


def _index_without(text: str, what: Gone, notes: Collection[str], *, prefix: str = "") -> str:
    """Drop the lines of notes that are gone; a line that betrays a fact keeps only the name of its file."""
    text = without_pointers(text, lambda _, target: prefix + target in notes)
    for line, target in pointers(text):
        if what.betrays(line.partition("](")[0]) or what.betrays(line.partition(")")[2]):
            text = with_pointer(text, pointer(_title(target), target, ""), target)
    return text


def _own(scope: Scope) -> list[tuple[Path, snapshots.Saved]]:
    return [(path, saved) for path, saved in snapshots.read_all(scope).items() if path.name != INDEX]


def _title(note: str) -> str:
    return PurePosixPath(note).stem.replace("-", " ").replace("_", " ")
