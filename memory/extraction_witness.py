"""Sees what an extraction run writes, and refuses what is noted already and what no human said."""

import unicodedata
from collections.abc import Collection, Iterable, Sequence
from functools import partial

from anyio import to_thread

from memory import snapshot as snapshots
from memory.citations import Citations
from memory.errors import WriteRefused
from memory.fact_stamp import stamped
from memory.facts import facts_of
from memory.index import is_index
from memory.paths import TEAM
from memory.provenance import Erased, Keep, Placed, Source, Spoken, Witness, normal
from memory.scope import Scope

_SHOWN = 80


class ExtractionWitness(Witness):
    """Refuses what an extraction run must not write.

    `shown` are the facts that were put before the model in this session, by recall.
    """

    def __init__(
        self, citations: Citations, *, shown: Iterable[str], erased: Erased | None = None, keep: Keep | None = None
    ) -> None:
        super().__init__(erased, keep=keep)
        self._citations = citations
        self._shown = frozenset[str]().union(*map(_forms, shown))
        self._origins: dict[str, Placed | Spoken | None] = {}

    def origin(self, fact: Placed, *, heard: Sequence[Spoken]) -> Placed | Spoken | Source | None:
        """Return what a fact was found to stem from when it was written; to have spoken makes nobody its source."""
        return self._origins.get(fact.hash) or next((old for old in self.gone if old.hash == fact.hash), None)

    def _said_on(self, fact: Placed) -> Collection[str]:
        found = self._origins.get(fact.hash)
        return {self._citations.day(found)} if isinstance(found, Spoken) else self._citations.days

    async def _check(self, scope: Scope, fresh: Sequence[Placed], went: Sequence[Placed]) -> None:
        gone = (*went, *self.gone)
        origins = {placed.hash: self._citations.origin(placed.fact, gone=gone) for placed in fresh}
        if scope.shared:
            self._ask_for_speakers([each for each in fresh if not isinstance(origins[each.hash], Placed)])
        form = {placed.hash: _restated(placed.fact, self._citations.days) for placed in fresh}
        recalled = [
            placed
            for placed in fresh
            if form[placed.hash] in self._shown and not isinstance(origins[placed.hash], Spoken)
        ]
        if recalled:
            raise WriteRefused(
                "nobody said this in these messages, it only stood in what was recalled: "
                f"{recalled[0].fact[:_SHOWN]!r}. Leave it out: a fact needs a human sentence"
            )
        # A correction may well end in words that stand elsewhere; the team's copy is for others.
        may_repeat = bool(went) or fresh[0].note.startswith(f"{TEAM}/")
        unsaid = [placed for placed in fresh if origins[placed.hash] is None]
        asked = {form[placed.hash] for placed in (unsaid if may_repeat else fresh)}
        noted = await to_thread.run_sync(partial(_noted, scope, asked)) if asked else {}
        if not may_repeat and len(noted) == len(asked):
            raise WriteRefused(f"already noted in {next(iter(noted.values()))}: the same fact again changes nothing")
        unsaid = [placed for placed in unsaid if form[placed.hash] not in noted]
        if unsaid:
            raise WriteRefused(
                f"no human sentence of these messages is known to say {', '.join(map(_quoted, unsaid))}. Name the "
                "message that does by its number, `[from 3]` behind the fact, or leave the fact out"
            )
        self._origins |= origins

    def _ask_for_speakers(self, fresh: Sequence[Placed]) -> None:
        """Refuse what is put into the mouth of somebody who has said nothing: a mark makes it no word of theirs."""
        for placed in fresh:
            name = self._citations.absent(placed.fact)
            if name:
                raise WriteRefused(
                    f"{name} has said nothing in these messages, and {_quoted(placed)} names them as the one who said "
                    "it. Name the one who did, or leave the fact out"
                )


def _quoted(placed: Placed) -> str:
    return repr(placed.fact[:_SHOWN])


def _restated(fact: str, days: Collection[str] | None = None) -> str:
    """Return a fact's form without the date behind it, if that is one of these days; None: whichever it is.

    Of a fact that is said again that is the day on which it was said. Any other date is part of what is said.
    """
    stamp = stamped(fact)
    if stamp is None or (days is not None and stamp.day not in days):
        return normal(fact)
    return normal(fact[: stamp.start] + (f" ({stamp.name})" if stamp.name else ""))


def _forms(fact: str) -> set[str]:
    return {normal(fact), _restated(fact)}


def _noted(scope: Scope, wanted: set[str]) -> dict[str, str]:
    """Return of those of these facts, given in one form, that are noted, in which note; blocking."""
    missing, found = set(wanted), dict[str, str]()
    longest = [max(words.replace("(", " ").rstrip(")").split(), key=len, default="") for words in missing]
    for path, saved in snapshots.read_all(scope).items():
        text = unicodedata.normalize("NFC", saved.text).lower()
        if is_index(path.name) or snapshots.is_log(scope, path) or not any(word in text for word in longest):
            continue  # most notes share no word with it, and taking one apart is dear
        held = missing.intersection(set[str]().union(*map(_forms, facts_of(saved.text))))
        found |= dict.fromkeys(held, path.relative_to(scope.memory_dir).as_posix())
        missing -= held
    return found
