"""Who said each fact: from which human sentence a new one stems, and where an old one went in a rewrite.

A fact is a list item or a paragraph (`memory.facts`). It is known by the hash of its text, in which case, blanks
and the punctuation behind it do not count: a sign, a number or a date more makes another fact of it.
"""

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol, TypeVar

from memory.errors import WriteRefused
from memory.fact_stamp import bare, labelled, several, stamped
from memory.facts import described, facts, facts_of
from memory.index import is_index
from memory.log_marks import adds_mark
from memory.relative_days import unresolved
from memory.scan import LOGS
from memory.scope import Scope
from memory.wording import CARRIED, Wording

T = TypeVar("T")

SUPPORTED = 0.4
"""How much of a fact's words one human sentence must hold to be its source.

One word in three is chance, two in five are not. Low, as notes are in other words than what was said.
"""

_MOST = 0.5
_TRAILING = ".。!！,;:… "
_SHOWN = 80


@dataclass(frozen=True, kw_only=True, slots=True)
class Spoken:
    """A sentence of a human that a fact may stem from."""

    message_id: int
    """0 while it is not stored: it is that of the turn under way."""
    account: str
    """As `telegram:42`; the speaker's name is data only."""
    speaker: str
    text: str
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Who said a fact, and when; `message_id` is None where only the speaker is known."""

    account: str
    speaker: str
    message_id: int | None
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Placed:
    """A fact and the note it stands in, named relative to the memory directory."""

    note: str
    fact: str

    @property
    def hash(self) -> str:
        """The fact's hash."""
        return fact_hash(self.fact)


@dataclass(frozen=True, kw_only=True, slots=True)
class Moved:
    """A fact that took the place of another one, or of itself in another note."""

    old: Placed
    new: Placed


class Ledger(Protocol):
    """The host's record of who said what and what was forgotten, as the works of the night need it."""

    async def carry(self, scope: Scope, moves: Sequence[Moved]) -> None:
        """Give each new fact the source of the old one, where none is recorded for it yet."""

    async def erased_since(self, scope: Scope, moment: datetime) -> bool:
        """Return whether anything of this scope was forgotten at or after `moment`."""

    async def logged(self, scope: Scope, lines: Mapping[int, Placed]) -> None:
        """Give each line of a log, by the message that it repeats, that message as its source."""


class NoLedger:
    """A ledger for a memory of which no record is kept."""

    async def carry(self, scope: Scope, moves: Sequence[Moved]) -> None:
        """Keep nothing."""

    async def erased_since(self, scope: Scope, moment: datetime) -> bool:
        """Know of nothing."""
        return False

    async def logged(self, scope: Scope, lines: Mapping[int, Placed]) -> None:
        """Keep nothing."""


def normal(fact: str) -> str:
    """Return a fact in one form: case, blanks and the punctuation behind it do not count, all other signs do."""
    return " ".join(unicodedata.normalize("NFC", fact).lower().split()).rstrip(_TRAILING)


def fact_hash(fact: str) -> str:
    """Return the hash by which a fact is known: SHA-256 of its normal form, in hex."""
    return hashlib.sha256(normal(fact).encode("utf-8", "surrogatepass")).hexdigest()


def origin(fact: str, *, gone: Sequence[Placed], heard: Sequence[Spoken]) -> Placed | Spoken | None:
    """Return what a fact stems from: the same one that stood elsewhere, a human sentence, or an older wording.

    Where both an older fact and a sentence are like it, the sentence counts if it holds most of what is new: then it
    corrects that fact; else the run has only reworded it.
    """
    same = fact_hash(fact)
    for old in gone:
        if old.hash == same:
            return old
    wording = Wording([fact, *(old.fact for old in gone), *(spoken.text for spoken in heard)])
    words = bare(fact)
    said = _best(heard, [wording.share(words, spoken.text) for spoken in heard], at_least=SUPPORTED)
    older = _best(gone, [wording.share(words, bare(old.fact)) for old in gone], at_least=CARRIED)
    if older is None or said is None:
        return older or said
    new = wording.share_of_new(words, said.text, besides=bare(older.fact))
    return said if new >= _MOST else older


def _best(among: Sequence[T], shares: Sequence[float], *, at_least: float) -> T | None:
    """Return the one with the greatest share, the latest of several; None if all are below."""
    best = max(shares, default=0.0)
    return [each for each, share in zip(among, shares, strict=True) if share == best][-1] if best >= at_least else None


def source(spoken: Spoken) -> Source:
    """Return a sentence as the source of a fact."""
    number = spoken.message_id or None
    return Source(account=spoken.account, speaker=spoken.speaker, message_id=number, at=spoken.at)


def named_in(fact: str) -> list[str]:
    """Return who stands with a fact as the ones who said it: in the stamp behind it, or before it as in a log."""
    stamp, label = stamped(fact), labelled(fact)
    before = label.name if label is not None and label.timed else ""
    return several((stamp.name if stamp is not None else "") or before)


def called(heard: Sequence[Spoken], name: str) -> list[Spoken]:
    """Return what was said by those of this name, or else by those whose name begins with it."""
    exact = [spoken for spoken in heard if _plain(spoken.speaker) == _plain(name)]
    return exact or [spoken for spoken in heard if goes_by(spoken.speaker, name)]


def goes_by(speaker: str, name: str) -> bool:
    """Return whether somebody of this name may be meant by that one: by the whole of it, or by how it begins."""
    return f"{_plain(speaker)} ".startswith(f"{_plain(name)} ")


def _plain(name: str) -> str:
    return " ".join(name.split()).casefold()


def sole_speaker(heard: Sequence[Spoken]) -> Source | None:
    """Return who must have said it, where one person alone has spoken; in which message is then not known."""
    if len({spoken.account for spoken in heard}) != 1:
        return None
    last = heard[-1]
    message = (last.message_id or None) if len(heard) == 1 else None
    return Source(account=last.account, speaker=last.speaker, message_id=message, at=last.at)


def moves(before: Mapping[str, Sequence[str]], after: Mapping[str, Sequence[str]]) -> list[Moved]:
    """Return where facts went in a rewrite of notes, given by name: exact words first, else the best likeness.

    What can be like a new fact is a fact that vanished, or a line of a day log, which stays where it is.
    """
    placed = [Placed(note=note, fact=fact) for note, found in before.items() for fact in found]
    by_hash = {old.hash: old for old in reversed(placed)}
    there = {(old.note, old.hash) for old in placed}
    left = {fact_hash(fact) for found in after.values() for fact in found}
    gone = [old for old in placed if old.hash not in left]
    logs = [old for old in placed if old.note.startswith(f"{LOGS}/")]
    found: list[Moved] = []
    for note, now in after.items():
        for new in (Placed(note=note, fact=fact) for fact in now):
            if (new.note, new.hash) in there:
                continue
            old = by_hash.get(new.hash) or _older(new, gone) or _older(new, logs)
            if old is not None:
                found.append(Moved(old=old, new=new))
    return found


def _older(new: Placed, among: Sequence[Placed]) -> Placed | None:
    found = origin(new.fact, gone=among, heard=())
    return found if isinstance(found, Placed) else None


Erased = Callable[[], Awaitable[bool]]
"""Returns whether anything that a run may have read was forgotten since the run began."""
Keep = Callable[["Witness", Sequence[Placed]], Awaitable[None]]
"""Records who said the facts that a change is about to put into a note, as far as the witness knows."""


class Witness:
    """Sees each change that a run makes to notes; see `memory.notes.Watch`.

    `added` and `gone` hold what is new and what went, in sum over the run. With `erased` no new line passes once
    something was forgotten, be it a pointer or part of a header: the run may have read it before, and word it anew.
    With `today`, the day on which it is told what it notes, a fact in which a day has no date is refused once. `keep`
    is called before the change is made, so that whatever ends the run after it leaves no fact without its author.
    """

    def __init__(self, erased: Erased | None = None, *, today: str = "", keep: Keep | None = None) -> None:
        self._erased = erased
        self._today = today
        self._keep = keep
        self.kept: set[tuple[str, str]] = set()
        """The facts, by note and hash, of which `keep` has recorded a source: the first known of them there."""
        self._undated: set[str] = set()
        self._added: dict[tuple[str, str], Placed] = {}
        self._gone: dict[tuple[str, str], Placed] = {}

    @property
    def added(self) -> Sequence[Placed]:
        """The facts that the run put where they were not before."""
        return tuple(self._added.values())

    @property
    def gone(self) -> Sequence[Placed]:
        """The facts that it took from where they were."""
        return tuple(self._gone.values())

    async def __call__(self, scope: Scope, path: Path, *, before: str, after: str) -> None:
        """Take note of a change that is about to be made."""
        if self._erased is not None and _adds(before, after) and await self._erased():
            raise WriteRefused("something was forgotten meanwhile, and this may tell it: nothing new is noted any more")
        if not path.is_relative_to(scope.memory_dir):
            return
        note = path.relative_to(scope.memory_dir).as_posix()
        if note.startswith(f"{LOGS}/") and adds_mark(before, after):
            raise WriteRefused("a mark such as `<!-- m7 -->` names the message of a line: leave it out of what you add")
        came, went = came_and_went(note, before, after)
        moved_here = {placed.hash for placed in (*went, *self.gone)}
        fresh = [placed for placed in came if placed.hash not in moved_here]
        if fresh:
            await self._check(scope, fresh, went)
            self._ask_for_dates(fresh, went)
        for moved, into, out_of in ((came, self._added, self._gone), (went, self._gone, self._added)):
            for placed in moved:
                if out_of.pop((placed.note, placed.hash), None) is None:
                    into[placed.note, placed.hash] = placed
        if self._keep is not None and came:
            await self._keep(self, came)

    def origin(self, fact: Placed, *, heard: Sequence[Spoken]) -> "Placed | Spoken | Source | None":
        """Return what a fact that the run has added stems from; `heard` is what the run acts on."""
        return origin(fact.fact, gone=self.gone, heard=heard) or sole_speaker(heard)

    async def _check(self, scope: Scope, fresh: Sequence[Placed], went: Sequence[Placed]) -> None:
        """Refuse what must not be written with `WriteRefused`; `fresh` are the new facts, at least one."""

    def _said_on(self, fact: Placed) -> Collection[str]:
        """Return the days, in ISO form, on one of which this was said; none if they are not known."""
        return {self._today} if self._today else ()

    def _ask_for_dates(self, fresh: Sequence[Placed], went: Sequence[Placed]) -> None:
        """Refuse facts in which a day has no date, each once: such a word may be part of a name as well.

        A word that stood in what goes was said on some other day.
        """
        found: dict[str, str] = {}
        for placed in fresh:
            days = self._said_on(placed)
            word = unresolved(placed.fact, said_on=days) if days and placed.hash not in self._undated else ""
            if word and not any(word in old.fact for old in went):
                self._undated.add(placed.hash)
                found[word] = found.get(word) or f"{word!r} in {placed.fact[:_SHOWN]!r}, said on {min(days)}"
        if found:
            raise WriteRefused(
                f"a day without its date: {'; '.join(found.values())}. Put the date behind the word, as in `tomorrow "
                "(2031-05-03)`. If no day is meant, as in a title, write it again as it is: that is taken then"
            )


def came_and_went(note: str, before: str, after: str) -> tuple[list[Placed], list[Placed]]:
    """Return the facts that a change puts into a file and those that it takes out.

    A description is a fact where a note has no other one. It neither comes nor goes where it only stays in the header.
    """
    old, new = facts_of(before, note), facts_of(after, note)
    was = [*old, *described(before)] if _is_description(after, note) else old
    left = [*new, *described(after)] if _is_description(before, note) else new
    return _more(_placed(note, new), _placed(note, was)), _more(_placed(note, old), _placed(note, left))


def _placed(note: str, found: Iterable[str]) -> list[Placed]:
    return [Placed(note=note, fact=fact) for fact in found]


def _is_description(text: str, note: str) -> bool:
    return not is_index(note) and not facts(text)


def _adds(before: str, after: str) -> bool:
    """Return whether a change puts a line anywhere that the file did not have, or as often as it has now."""
    there, now = (Counter(line for each in text.splitlines() if (line := each.strip())) for text in (before, after))
    return bool(now - there)


def _more(these: Sequence[Placed], than: Sequence[Placed]) -> list[Placed]:
    """Return what `these` hold and `than` do not, counting how often."""
    left = Counter(placed.hash for placed in than)
    more = []
    for placed in these:
        if left[placed.hash]:
            left[placed.hash] -= 1
        else:
            more.append(placed)
    return more
