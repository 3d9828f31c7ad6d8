"""Older wordings: what a state that is kept to undo may say of a fact that is to be forgotten, in other words."""

from collections.abc import Callable, Iterable

from memory.fact_stamp import bare
from memory.gone import Gone
from memory.provenance import fact_hash
from memory.wording import Wording


def older_or_same(what: Gone) -> Callable[[str], bool]:
    """Return what says of a fact of another time whether it goes: it is the same, or an older wording of one that goes.

    What stands in the notes now stays, as it does there. So does what is no less like a fact that stays: it may be an
    older wording of that one, and be somebody else's.
    """
    staying = [fact for fact in what.corpus if not what.same(fact)]
    present, wording = frozenset(map(fact_hash, staying)), Wording(what.corpus)

    def likeness(fact: str, among: Iterable[str]) -> float:
        words = bare(fact)
        return max((wording.share(words, other) for other in among), default=0.0)

    def drops(fact: str) -> bool:
        if what.same(fact):
            return True
        if fact_hash(fact) in present or not what.tells(fact):
            return False
        return likeness(fact, what.texts) > likeness(fact, staying)

    return drops
