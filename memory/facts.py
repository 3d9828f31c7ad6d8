"""The facts of a file: each list item and each paragraph, to be read, counted, and taken out."""

from collections.abc import Callable, Sequence

import regex

from memory.blocks import blocks, cleared, texts
from memory.index import is_index, without_pointers
from memory.metadata import head_of, parse

_WORD = regex.compile(r"[\p{L}\p{N}]")


def facts(text: str) -> list[str]:
    """Return the facts of a note, each list item or paragraph on one line; headings and metadata are none."""
    return _facts_in(parse(text)[1])


def _facts_in(body: str) -> list[str]:
    return [fact for fact in texts(body) if _says(fact)]


def facts_of(text: str, name: str = "") -> list[str]:
    """Return what a file says as facts: those of its body, or else its description.

    Of an index, which is known by its `name`, they are all that stands between its pointer lines.
    """
    if is_index(name):
        return [fact for lines in without_pointers(text) for fact in _facts_in(lines)]
    return facts(text) or described(text)


def described(text: str) -> list[str]:
    """Return the description in a note's header, if there is one: it is a fact where the note has no other."""
    about = str(parse(text)[0].get("description") or "")
    return [about] if about else []


def forgettable(text: str, name: str = "") -> list[str]:
    """Return what somebody may have forgotten of a file: its facts, and the description that stands above them.

    No such description is counted among the facts elsewhere, as most of them only sum these up.
    """
    return [*(found := facts_of(text, name)), *above(text, name, found)]


def above(text: str, name: str, found: Sequence[str]) -> list[str]:
    """Return the description that stands in a file above the facts that were `found` there, if it is none of them."""
    return [] if is_index(name) else [about for about in described(text) if about not in found]


def parted(text: str) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return each fact, the words that it has as a list item or in a paragraph, and the lines that stand beside these.

    Such lines are quotes, tables, code and the like, as they may tell of other facts; a header that can't be read is
    left out.
    """
    found = blocks(text[len(head_of(text)) :])
    return [(block.text, block.bare, block.beside) for block in found if _says(block.text)]


def without(text: str, drop: Callable[[str], bool], *, betrays: Callable[[str], bool] | None = None) -> str:
    """Return the note without what `pruned` takes out of its body; the header stays as it is."""
    _, body = parse(text)
    left = pruned(body, drop, betrays=betrays)
    whole = text[: len(text) - len(body)] + left
    return whole if parse(whole)[1] == left else f"\n{whole}"  # a rule that is the first line now begins no header


def pruned(body: str, drop: Callable[[str], bool], *, betrays: Callable[[str], bool] | None = None) -> str:
    """Return a note's body without the facts that `drop` says yes to, and without what else there `betrays` them.

    `betrays` is asked of what stands around facts, such as a heading, a comment or a line of a quote.
    """
    return cleared(blocks(body), lambda fact: _says(fact) and drop(fact), betrays=betrays)


def _says(text: str) -> bool:
    """Return whether a text has a word at all."""
    return _WORD.search(text) is not None
