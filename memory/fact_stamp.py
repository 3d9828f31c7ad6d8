"""The stamp behind a fact, as the prompt asks for it: who said it, in a shared chat, and on which day."""

from dataclasses import dataclass

import regex

_STAMP = regex.compile(  # a name may hold brackets
    r" \((?:((?:(?!\d{4}-\d{2}-\d{2})[^()]|\([^()]*\)){1,160}), )?(\d{4}-\d{2}-\d{2})\)[.。]?\Z"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Stamp:
    """A name ("" if there is none), a day in ISO form, and where in the fact the stamp begins."""

    name: str
    day: str
    start: int


def stamped(fact: str) -> Stamp | None:
    """Return the stamp behind a fact; None if there is none."""
    found = _STAMP.search(fact)
    return None if found is None else Stamp(name=(found[1] or "").strip(), day=found[2], start=found.start())
