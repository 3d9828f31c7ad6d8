"""What a person is shown of a change that waits for their word, and the question that goes with it."""

import re
from collections.abc import Sequence
from difflib import unified_diff
from itertools import accumulate

from gateway.buttons import Choice, short
from gateway.staging import KEPT_DAYS, Staged

_LINES = 40
_WIDTH = 300
_CHARACTERS = 1600
_AT_ONCE = 5
_CONTEXT = 2


def question(staged: Sequence[Staged], *, project: str) -> str:
    """Return the question, with a preview of each change."""
    count = "This change" if len(staged) == 1 else f"These {len(staged)} changes"
    shown = [preview(each) for each in staged[:_AT_ONCE]]
    more = len(staged) - len(shown)
    shown += [f"… and {more} more, up to number {staged[-1].number}: `/team` lists them."] if more else []
    wait = "waits" if len(staged) == 1 else "wait"
    return "\n\n".join(
        [
            f"**To share with the team of `{_code(project)}`?** {count} {wait} for your word; till then nobody else "
            "sees anything of it.",
            *shown,
            how_to_answer([each.number for each in staged]),
        ]
    )


def answers(staged: Sequence[Staged]) -> list[Choice]:
    """Return the buttons below a question: they share only what the question shows."""
    if len(staged) > _AT_ONCE:
        return [Choice(label="One by one", says="/team")]
    numbers, every = " ".join(str(each.number) for each in staged), f", all {len(staged)}" if len(staged) > 1 else ""
    return [
        Choice(label=f"Yes{every}", says=f"/team yes {numbers}"),
        Choice(label=f"No{every}", says=f"/team no {numbers}"),
        *([Choice(label="One by one", says=f"/team show {numbers}")] if every else []),
    ]


def one_by_one(staged: Sequence[Staged]) -> list[Choice]:
    """Return the buttons below a list: they answer each of the first few changes."""
    return [
        Choice(label=f"{label} {each.number} {short(each.name)}", says=f"/team {word} {each.number}")
        for each in staged[:_AT_ONCE]
        for label, word in (("Yes", "yes"), ("No", "no"))
    ]


def how_to_answer(numbers: Sequence[int]) -> str:
    """Return how a question of these numbers is answered."""
    first = numbers[0]
    every = ", `/team yes all` all of it" if len(numbers) > 1 else ""
    return (
        f"`/team yes {first}` shares number {first}{every}; `/team no {first}` drops it; `/team show {first}` shows "
        f"the whole text. It waits for {KEPT_DAYS} days."
    )


def preview(staged: Staged) -> str:
    """Return one change: its number and file, and what is added and taken out, cut to a bounded length."""
    what = "new note" if staged.base is None else "the note is deleted" if staged.text is None else "changed"
    lines = _diff(staged)
    short = [line if len(line) <= _WIDTH else f"{line[:_WIDTH]}…" for line in lines[:_LINES]]
    room = sum(size <= _CHARACTERS for size in accumulate(len(line) + 1 for line in short))
    cut = short[:room]
    cut += [f"… {len(lines) - len(cut)} more lines: /team show {staged.number}"] if len(lines) > len(cut) else []
    pointer = f"\n\nIts line in the index: {_inline(staged.pointer)}" if staged.pointer else ""
    name = "the index" if staged.is_index else what
    return f"**{staged.number}.** `{_code(staged.name)}` ({name})\n\n{fenced(cut, 'diff')}{pointer}"


def whole(staged: Staged) -> str:
    """Return one change with the whole of its text."""
    if staged.text is None:
        return f"{preview(staged)}\n\nWith your word the whole note is deleted."
    pointer = f"\n\nIts line in the index: {_inline(staged.pointer)}" if staged.pointer else ""
    text = fenced(staged.text.splitlines(), "markdown")
    return f"**{staged.number}.** `{_code(staged.name)}`, as it would be\n\n{text}{pointer}"


def fenced(lines: Sequence[str], language: str) -> str:
    """Return a code block that nothing in the lines can end."""
    longest = max((len(run) for line in lines for run in re.findall(r"`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}{language}", *lines, fence])


def _diff(staged: Staged) -> list[str]:
    old, new = (staged.base or "").splitlines(), (staged.text or "").splitlines()
    found = list(unified_diff(old, new, lineterm="", n=_CONTEXT))[2:]
    return [line for line in found if not line.startswith("@@")] or ["(no line of it changes)"]


def _inline(text: str) -> str:
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    mark = "`" * (longest + 1)
    return f"{mark} {text} {mark}" if longest else f"`{text}`"


def _code(text: str) -> str:
    """Return a text that can stand in a code span."""
    return text.replace("`", "'")
