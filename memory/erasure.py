"""Erasure on disk: what somebody asked to have forgotten leaves notes, indexes, day logs and what is kept to undo.

The host records what was forgotten and ends the sessions that know of it; see `memory.provenance.Ledger`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path, PurePosixPath

import yaml
from anyio import to_thread

from memory import dailylog
from memory import snapshot as snapshots
from memory.errors import Conflict
from memory.facts import facts, without
from memory.index import INDEX, pointer, pointers, with_pointer
from memory.index import without as without_pointers
from memory.metadata import parse
from memory.notes import NoteMissing, Notes
from memory.paths import TEAM
from memory.ports import Leases
from memory.prompt import read_text
from memory.provenance import Wording, fact_hash, stems
from memory.scan import LOGS, NoteHeader
from memory.scope import Scope

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


def read_files(scope: Scope, headers: Iterable[NoteHeader]) -> dict[str, str]:
    """Return the texts of notes and day logs by name, without the indexes; blocking. `headers` name those of T."""
    own = {path.relative_to(scope.memory_dir).as_posix(): saved.text for path, saved in _own(scope)}
    team = [header for header in headers if header.team and scope.team_dir is not None]
    return own | {header.name: read_text(scope.memory_dir, header.path, limit=_FILE_BYTES) for header in team}


def facts_of(text: str) -> list[str]:
    """Return a note's facts; of one that has none its description."""
    found = facts(text)
    about = str(parse(text)[0].get("description") or "")
    return found or ([about] if about else [])


def find(files: Mapping[str, str], words: str) -> list[Item]:
    """Return what fits the words best, at most `FOUND`; a note of which all facts fit is named as a whole."""
    split = {note: facts_of(text) for note, text in files.items()}
    wording = Wording(fact for found in split.values() for fact in found)
    scored: dict[str, tuple[float, Item]] = {}
    for note, found in split.items():
        scores = [wording.share_of_known(words, f"{fact} {_title(note)}") for fact in found]
        if found and len(found) > 1 and min(scores) >= _ENOUGH and not note.startswith(f"{LOGS}/"):
            scored.setdefault(note, (max(scores), Item(note=note, text=found[0])))
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
    whole = frozenset(item.note for item in items if not item.hash and item.note in split)
    hashes = {item.hash for item in items if item.hash}
    everything = tuple(fact for found in split.values() for fact in found)
    texts = [fact for fact in everything if fact_hash(fact) in hashes]
    texts += [fact for note in sorted(whole) for fact in split[note]]
    return Gone(notes=whole, texts=tuple(dict.fromkeys(texts)), corpus=everything)


def holding(files: Mapping[str, str], what: Gone) -> list[str]:
    """Return the names of the notes that will lose something; day logs are not named."""
    notes = (note for note in files if not note.startswith(f"{LOGS}/"))
    return [note for note in notes if note in what.notes or any(map(what.same, facts_of(files[note])))]


async def erase(
    scope: Scope, what: Gone, held: Sequence[str], *, messages: frozenset[int], notes: Notes, leases: Leases
) -> None:
    """Take it out of the notes that are `held`, out of their indexes, the day logs and the snapshots of dreams.

    Doing it again changes nothing, so that one that was cut short can be repeated. Raises what `Notes` raises.
    """
    await to_thread.run_sync(scrub_snapshots, scope, what)
    for note in held:
        await _erase_from(scope, note, what, notes)
    for folder in (scope.memory_dir, scope.team_dir):
        if folder is not None:
            await _clear_index(scope, folder, what, notes)
    async with leases.hold(f"memory:{scope.memory_dir}", seconds=30.0, wait=30.0):
        await to_thread.run_sync(partial(dailylog.scrub, scope, messages=messages, tells=what.tells))
    await to_thread.run_sync(scrub_snapshots, scope, what)  # one may have been taken meanwhile


async def _erase_from(scope: Scope, note: str, what: Gone, notes: Notes) -> None:
    path = scope.memory_dir / note
    for _ in range(_TRIES):
        try:
            present = await notes.read(scope, path)
            left = "" if note in what.notes else redacted(present.text, what.same, what.betrays, title=_title(note))
            if not left:
                await notes.delete(scope, path, expected=present.hash)
            elif left != present.text:
                await notes.write(scope, path, left, expected=present.hash)
        except NoteMissing:
            return
        except Conflict:
            continue
        return
    raise Conflict(f"the note {note} did not stand still", actual="")


async def _clear_index(scope: Scope, folder: Path, what: Gone, notes: Notes) -> None:
    try:
        present = await notes.read(scope, folder / INDEX)
    except NoteMissing:
        return
    prefix = f"{TEAM}/" if folder == scope.team_dir else ""
    text = _index_without(present.text, what, what.notes, prefix=prefix)
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
