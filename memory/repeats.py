"""Notes that say the same: which of those that are recalled would tell the model nothing new.

The words have to be the same, not only alike: of two sentences that are like each other one may well correct the other,
and both have to be seen then. What is alike is for the dream to merge.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import regex

from memory.claims import all_of, claims
from memory.fact_stamp import several, stamped
from memory.numerals import in_figures
from memory.survival import left_out
from memory.wording import EMPTY, stems

_AROUND = ".。!！,;:…\"'“”‘’*_`()[] "
_DIGIT = regex.compile(r"\p{N}")
_HEADING = regex.compile(r"^\s{0,3}#{1,6}\s.*", regex.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """What a note says, as far as it is shown. Of one that is `cut` there is more than that."""

    mtime: float
    claims: tuple[str, ...]
    """In one form, as are the next."""
    lasting: tuple[str, ...]
    """The same without the dates behind them, which are those of their saying; whose words they are stays."""
    subject: frozenset[str]
    """What its description and headings speak of."""
    words: frozenset[str]
    """All that it speaks of."""
    cut: bool


def said(text: str, *, description: str, mtime: float, cut: bool = False) -> Said:
    """Return what a note says; `text` is what is shown of its body."""
    about, found = "\n".join([description, *_HEADING.findall(text)]), all_of(claims({"": text}))
    return Said(
        mtime=mtime,
        claims=tuple(map(_form, found)),
        lasting=tuple(_form(_undated(claim)) for claim in found),
        subject=stems(about) - EMPTY,
        words=stems(f"{description}\n{text}"),
        cut=cut,
    )


def is_repeated(note: Said, other: Said) -> bool:
    """Return whether another note says all of a note, of the same subject.

    An older one has to say exactly that, with the same dates: what a newer note says less may be a correction.
    """
    if not note.claims or note.cut or not note.subject <= other.words:
        return False
    if other.mtime >= note.mtime:
        return _hold((*other.claims, *other.lasting), note.lasting)
    return not other.cut and set(note.claims) == set(other.claims)


def new_among(notes: Sequence[Said], before: Iterable[Said] = ()) -> list[int]:
    """Return the places of the notes that say something beside `before` and beside newer ones, in their order."""
    told, kept = list(before), list[int]()
    for place in sorted(range(len(notes)), key=lambda place: -notes[place].mtime):
        if not any(is_repeated(notes[place], other) for other in told):
            kept.append(place)
            told.append(notes[place])
    return sorted(kept)


def telling_words(note: Said) -> list[str]:
    """Return words, case-folded, that stand in whatever repeats the note; no numbers, as their form may differ."""
    words = dict.fromkeys(word for claim in note.lasting for word in claim.split() if not _DIGIT.search(word))
    return sorted(words, key=len, reverse=True)


def _hold(holders: Sequence[str], wanted: Iterable[str]) -> bool:
    exact = set(holders)
    return all(claim in exact or any(_says(each, claim) for each in holders) for claim in wanted)


def _says(text: str, claim: str) -> bool:
    """Whether a text has the words of a claim, one after another, and neither denies it nor has other numbers."""
    return f" {claim} " in f" {text} " and not left_out([claim], [text])


def _form(text: str) -> str:
    words = in_figures(unicodedata.normalize("NFKC", text)).casefold().split()
    return " ".join(bare for word in words if (bare := word.strip(_AROUND)))


def _undated(claim: str) -> str:
    stamp = stamped(claim)
    return claim if stamp is None else " ".join([claim[: stamp.start], *several(stamp.name)])
