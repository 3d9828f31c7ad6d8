"""How a proposal for a team's memory is put to those who decide on it: they answer by button or text."""

import re
from collections.abc import Mapping, Sequence
from difflib import unified_diff

from gateway.buttons import Choice
from gateway.db.proposed import PENDING
from gateway.previews import fenced
from gateway.proposals import Proposal
from memory.notes import content_hash
from memory.team.proposal import Change

SHORT, LONG = 30, 400
"""How many lines of the differences are shown when it is told, and when somebody asks for all of it."""
_WIDTH = 300
_OFFERED = 4
_FACTS = 10
_CONTEXT = 1


def told(
    number: int, project: str, title: str, changes: Sequence[Change], before: Mapping[str, str], *, removed: int
) -> str:
    """Return the message that tells of a new proposal."""
    head = f"**Proposal {number} for the team memory of `{code(project)}`**: {title}. Nothing is changed yet."
    shown = differences(changes, before, lines=SHORT)
    return "\n\n".join([head, shown, *_gone(removed), how_to_answer(number)])


def how_to_answer(number: int) -> str:
    """Return how a proposal is answered."""
    return (
        f"`/team accept {number}` does it, `/team refuse {number}` leaves everything as it is, "
        f"`/team show P{number}` shows all of it."
    )


def answers(numbers: Sequence[int]) -> list[Choice]:
    """Return the buttons that answer these proposals."""
    return [
        Choice(label=label if len(numbers) == 1 else f"{label} {number}", says=f"/team {label.lower()} {number}")
        for number in numbers[:_OFFERED]
        for label in ("Accept", "Refuse")
    ]


def whole(proposal: Proposal, before: Mapping[str, str]) -> str:
    """Return all of a proposal; `before` are the texts that there are now, by key."""
    head = f"**Proposal {proposal.number} for the team memory of `{code(proposal.project)}`**: {proposal.title}."
    if proposal.state != PENDING:
        return f"{head} It is settled: {proposal.outcome}."
    gone = [f"- {_cut(fact)}" for fact in proposal.removed[:_FACTS]]
    parts = [head, differences(proposal.changes, before, lines=LONG)]
    if gone:
        parts.append("\n".join(["In no note any more, not in these words nor in others:", *gone]))
    return "\n\n".join([*parts, how_to_answer(proposal.number)])


def differences(changes: Sequence[Change], before: Mapping[str, str], *, lines: int) -> str:
    """Return what would change as a code block of a bounded length."""
    found = [line for each in changes for line in _difference(each, before.get(each.key))]
    shown = [_cut(line) for line in found[:lines]]
    more = [f"… {len(found) - lines} more lines"] if len(found) > lines else []
    return fenced([*shown, *more], "diff")


def code(text: str) -> str:
    """Return a text that can stand in a code span."""
    return text.replace("`", "'")


def _gone(number: int) -> list[str]:
    if not number:
        return []
    what = "1 fact would be" if number == 1 else f"{number} facts would be"
    return [f"{what} in no note any more."]


def _difference(change: Change, present: str | None) -> list[str]:
    if (content_hash(present) if present is not None else "") != change.replaces:
        return [f"{change.key}: it has changed since, or is gone"]
    old = present or ""
    if change.text is None:
        return [f"{change.key}: deleted", *(f"-{line}" for line in old.splitlines() if line.strip())]
    found = unified_diff(old.splitlines(), change.text.splitlines(), lineterm="", n=_CONTEXT)
    verb = "changed" if change.replaces else "new"
    return [f"{change.key}: {verb}", *(line for line in list(found)[2:] if not re.match("@@ ", line))]


def _cut(text: str) -> str:
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}…"
