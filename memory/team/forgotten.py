"""What was forgotten in a chat must neither come back from its team nor go there again.

Only hashes of forgotten facts are kept; their words are known while a text that holds them is at hand, which is just
when they have to be taken out of it.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from memory.facts import forgettable
from memory.gone import Gone, Item, gone
from memory.index import INDEX, is_index
from memory.paths import TEAM
from memory.provenance import fact_hash
from memory.redaction import index_without, neutral, redacted, title_of
from memory.scope import Scope

Forgotten = Callable[[Scope], Awaitable[frozenset[str]]]
"""Returns the hashes (`memory.provenance.fact_hash`) of what was forgotten here and said by nobody since."""


async def nothing_forgotten(scope: Scope) -> frozenset[str]:
    """Know of nothing: for a memory of which no record is kept."""
    return frozenset()


def holds_any(hashes: frozenset[str], *copies: Mapping[str, str]) -> bool:
    """Return whether one of these facts stands in one of the texts."""
    found = (fact for copy in copies for key, text in copy.items() for fact in forgettable(text, key))
    return bool(hashes) and any(fact_hash(fact) in hashes for fact in found)


def known_words(hashes: frozenset[str], *copies: Mapping[str, str]) -> Gone:
    """Return what these hashes stand for, as far as the texts of all these copies tell it."""
    texts = {f"{number}/{key}": text for number, copy in enumerate(copies) for key, text in copy.items()}
    return gone(texts, [Item(note="", hash=each) for each in hashes])


@dataclass(frozen=True, kw_only=True, slots=True)
class Left:
    """What is left of texts, by key: of those that change their new text, or None where nothing is left."""

    texts: Mapping[str, str | None]
    moved: Mapping[str, str] = field(default_factory=dict)
    """What is left of notes that can't keep their names, by the names that they get instead."""


def texts_left(texts: Mapping[str, str], what: Gone, *, renaming: bool = False) -> Left:
    """Return what is left when it is taken out of these texts; if `renaming`, out of the names of the notes too."""
    notes = {key: text for key, text in texts.items() if not is_index(key) and any(map(what.same, forgettable(text)))}
    left: dict[str, str | None] = {}
    moved: dict[str, str] = {}
    names: dict[str, str | None] = {}
    for key, text in notes.items():
        name = _name_left(key, what) if renaming else key
        kept = redacted(text, what.same, what.betrays, title=title_of(name)) or None
        left[key], names[key] = (kept, key if kept else None) if name == key else (None, name if kept else None)
        if kept and name != key:
            moved[name] = kept
    for key in filter(is_index, texts):
        index = index_without(
            texts[key],
            what.betrays,
            names=lambda note: names.get(note, note),
            folder=key.removesuffix(INDEX),
            drop=what.same,
        )
        if index != texts[key]:
            left[key] = index
    return Left(texts=left, moved=moved)


def _name_left(key: str, what: Gone) -> str:
    """Return a note's key, or the one that it has after it was forgotten in its own chat, if its name tells it."""
    return next(neutral(f"{TEAM}/{key}", what.betrays)).removeprefix(f"{TEAM}/")
