"""From which message of its window a run says that each new fact comes: `(Ann, 2031-05-02) [from 3]`.

The run is shown the numbers, and the mark is taken out of what it writes before that is applied, so that no note ever
holds one. A mark is the model's word: it says who is the source, yet it alone lets nobody's fact be replaced.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Any
from zoneinfo import ZoneInfo

import regex

from memory.errors import WriteRefused
from memory.fact_stamp import bare, labelled, several, stamped
from memory.facts import facts_of
from memory.provenance import Placed, Spoken, fact_hash, normal, origin
from memory.rank import FUNCTION_WORDS, terms
from memory.survival import left_out
from memory.wording import stems

_NUMBER = r"(?:messages?[ \t]+)?#?\d{1,6}"
_MARK = regex.compile(rf"[ \t]*+\[from[ \t]*+({_NUMBER}(?:(?:, ?| and | ?; ?){_NUMBER})*+)\](?!\()", regex.IGNORECASE)
_LISTED = 40
_ROOM = 120
"""How many characters of messages are shown in all, so that 95 % of what a short session's run reads is cached."""
_LEAST, _MOST = 8, 32
_TEXTS = ("content", "old_string", "new_string")
_SHOWN = 80
_EMPTY = stems(FUNCTION_WORDS)


class Citations:
    """What one run has heard, numbered from 1, and the marks that it has put behind facts so far."""

    def __init__(self, heard: Sequence[Spoken], *, timezone: str = "UTC") -> None:
        self.heard = heard
        self._zone = ZoneInfo(timezone)
        self._marked: dict[str, Sequence[int]] = {}
        self._edited: dict[str, Sequence[int]] = {}
        self._common = _EMPTY | stems(" ".join(spoken.speaker for spoken in heard))

    @property
    def days(self) -> Collection[str]:
        """The days on which anything was said, in ISO form."""
        return {self.day(spoken) for spoken in self.heard}

    def day(self, spoken: Spoken) -> str:
        """Return the local day of a message, in ISO form."""
        return spoken.at.astimezone(self._zone).date().isoformat()

    def told(self, *, shared: bool) -> str:
        """Return how to mark a fact, and the newest messages by number; "" if nobody has said anything.

        All of it is paid for in full, so that the more messages there are, the less is shown of each.
        """
        if not self.heard:
            return ""
        numbered = list(enumerate(self.heard, start=1))[-_LISTED:]
        room = max(_LEAST, min(_MOST, _ROOM // len(numbered)))
        days = groupby(numbered, key=lambda each: self.day(each[1]))
        listed = "\n".join(
            f"{day}: {'; '.join(self._line(*each, shared=shared, room=room) for each in those)}" for day, those in days
        )
        stamp = f"({'Ann, ' if shared else ''}2031-05-02)"
        return (
            f"End each new item or paragraph with its source's number, as `{stamp} [from 3]`. What people said, by "
            f"number:\n{listed}"
        )

    def _line(self, number: int, spoken: Spoken, *, shared: bool, room: int) -> str:
        name = f" {spoken.speaker}" if shared else ""
        words = " ".join(spoken.text.replace(";", ",").split())  # a semicolon would begin another message's line
        return f"{number}{name} {spoken.at.astimezone(self._zone):%H:%M} {words[:room].rstrip()}"

    def taken(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a tool's arguments without marks, and keep what these say."""
        name = str(given.get("file_path") or "")
        texts = {key: text for key in _TEXTS if isinstance(text := given.get(key), str)}
        self._marked |= _marks(texts.get("content", ""), name)
        self._edited = _marks(texts.get("new_string", ""), name)
        return without_marks(given)

    def origin(self, fact: str, *, gone: Sequence[Placed]) -> Placed | Spoken | None:
        """Return what a fact stems from, as `memory.provenance.origin` has it, but by its mark if it has one.

        Else only what the person said who is named with it counts. Of older facts only one counts that says the same,
        and in the same name. A mark that can't be meant is a `WriteRefused`.
        """
        same = fact_hash(fact)
        moved = next((old for old in gone if old.hash == same), None)
        if moved is not None or (cited := self._cited(fact)) is not None:
            return moved or cited
        heard = self._of(fact)
        words = self._words(fact)
        older = origin(words, gone=gone, heard=())
        kept = [older] if isinstance(older, Placed) and _restates(older.fact, fact) else []
        found = origin(words, gone=kept, heard=heard or self.heard)
        about = self._telling(bare(words))
        if isinstance(found, Spoken) and about and about.isdisjoint(self._telling(found.text)):
            return origin(words, gone=gone, heard=())  # they share small words and names alone, as any two sentences do
        return found

    def replaced_by(self, old: str, new: str) -> str | None:
        """Return whose word it is that the second fact holds now instead of the first, as `telegram:42`.

        None if that is nobody's. A message of the author's has to say most of what is new in it, whatever a mark says,
        and both facts are of one matter: names apart, as everybody's facts share those.
        """
        source = self.origin(new, gone=())
        if not isinstance(source, Spoken):
            return None
        own = [spoken for spoken in self.heard if spoken.account == source.account]
        saying = origin(self._words(new), gone=[Placed(note="", fact=old)], heard=own)
        if not isinstance(saying, Spoken):
            return None
        was, now, said = (self._telling(each) for each in (bare(old), bare(new), saying.text))
        return source.account if said & (was | now) and was & (now | said) else None

    def absent(self, fact: str) -> str:
        """Return who is named as the one who said a fact, in a stamp or as in a log, but has not spoken; "" if nobody.

        Without a clock in front a word before a colon may be anything.
        """
        named = _named(fact, timed=True)
        if not named or self._called(named):
            return ""
        return next((each for each in several(named) if not self._called(each)), "")

    def _words(self, fact: str) -> str:
        """Return a fact without the label that names one who has spoken."""
        label = labelled(fact) if self._of(fact) else None
        return fact if label is None or stamped(fact) is not None else fact[label.end :]

    def _telling(self, text: str) -> frozenset[str]:
        """Return the words of a text that say what it is about: no names of speakers, no small words."""
        return frozenset(
            word for word in stems(text) - self._common if len(word) > 2 or not word.isascii() or word.isdigit()
        )

    def _cited(self, fact: str) -> Spoken | None:
        numbers = self._numbers(fact)
        if not numbers:
            return None
        wrong = [number for number in numbers if not 0 < number <= len(self.heard)]
        named = self._of(fact)
        cited = [] if wrong else [self.heard[number - 1] for number in numbers]
        fitting = [spoken for spoken in cited if spoken in named] if named else cited
        if not fitting:
            self._marked.pop(normal(fact), None)  # it may be written again without a number
        if wrong:
            there = f"1 to {len(self.heard)}" if self.heard else "none"
            raise WriteRefused(
                f"there is no message {wrong[0]} to take {fact[:_SHOWN]!r} from: the numbers are {there}"
            )
        if not fitting:
            raise WriteRefused(
                f"message {numbers[-1]} is by {cited[-1].speaker}, and {fact[:_SHOWN]!r} names somebody else as the "
                "one who said it: name a message of theirs by its number, or the one who said it"
            )
        return fitting[-1]

    def _numbers(self, fact: str) -> Sequence[int]:
        """Return the numbers behind a fact; an edit may have written only a part of it, or more than it."""
        about = normal(fact)
        parts = [part for part in self._edited if part in about or about in part]
        if parts:
            self._marked[about] = self._edited[max(parts, key=len)]
        return self._marked.get(about, ())

    def _of(self, fact: str) -> Sequence[Spoken]:
        """Return what the one said who is named as a fact's speaker; nothing where no speaker is named."""
        return self._called(_named(fact))

    def _called(self, given: str) -> Sequence[Spoken]:
        name = _plain(given)
        if not name:
            return ()
        exact = [spoken for spoken in self.heard if _plain(spoken.speaker) == name]
        return exact or [spoken for spoken in self.heard if _plain(spoken.speaker).startswith(f"{name} ")]


def without_marks(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a tool's arguments without marks, for a run too that was shown no numbers."""
    return {**given, **{key: _unmarked(text)[0] for key in _TEXTS if isinstance(text := given.get(key), str)}}


def _named(fact: str, *, timed: bool = False) -> str:
    """Return who stands with a fact as the one who said it, "" if nobody; `timed`: before it only as in a log."""
    stamp, label = stamped(fact), labelled(fact)
    before = label.name if label is not None and (label.timed or not timed) else ""
    return (stamp.name if stamp is not None else "") or before


def _marks(text: str, name: str) -> dict[str, Sequence[int]]:
    """Return the numbers behind each fact of a text, by the fact's normal form."""
    if not _MARK.search(text):
        return {}
    found: dict[str, Sequence[int]] = {}
    for fact in facts_of(text, name):
        said, numbers = _unmarked(fact)
        about = normal(said)
        if numbers and about:
            found[about] = numbers
    return found


def _unmarked(text: str) -> tuple[str, list[int]]:
    """Return a text without marks, also such as appear when others go, and the numbers in them; linear in its length.

    A bracket that ends no mark leaves none of those around it a chance to be one, so that no part is looked at twice.
    """
    numbers: list[int] = []
    kept: list[str] = []
    opened: list[int] = []  # where in `kept` brackets begin of which a mark may yet come
    pieces = regex.split(r"([\[\]])", text)
    for piece, after in zip(pieces, [*pieces[1:], ""], strict=True):
        kept.append(piece)
        if piece == "[":
            opened.append(len(kept) - 1)
        elif piece == "]" and opened:
            start = opened.pop()
            mark = None if after.startswith("(") else _MARK.fullmatch("".join(kept[start:]))
            if mark is None:
                opened.clear()
                continue
            numbers += map(int, regex.findall(r"\d+", mark[1]))
            del kept[start:]
            while kept and not kept[-1].rstrip(" \t"):
                kept.pop()
            kept[-1:] = [each.rstrip(" \t") for each in kept[-1:]]
    return "".join(kept), numbers


def _restates(old: str, new: str) -> bool:
    """Return whether a fact only words anew what an older one said: shorter or at more length, and in the same name.

    What both say stands in the same order, as that may tell who owes whom.
    """
    named, before = (stamp.name if (stamp := stamped(each)) else "" for each in (new, old))
    if named and _plain(named) != _plain(before):
        return False
    was, now = (_sequence(bare(each)) for each in (old, new))
    both = [word for word in was if word in now]
    if both != [word for word in now if word in was] or (len(both) < len(was) and len(both) < len(now)):
        return False  # turned round, or one word stands for another
    return not left_out([old], [new]) and not left_out([new], [old])


def _sequence(text: str) -> list[str]:
    """Return the words of a text that say something, each once, where it first stands."""
    found = (stem for term in terms(text) for stem in stems(term))
    return [word for word in dict.fromkeys(found) if word not in _EMPTY]


def _plain(name: str) -> str:
    return " ".join(name.split()).casefold()
