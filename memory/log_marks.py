"""The mark behind a line of a day log that was taken over from the transcript: by it that line is known again."""

import re
from collections import Counter

MARK = re.compile(r"<!-- m(\d+) -->[ \t]*$", re.MULTILINE | re.ASCII)
"""Ends such a line, with the number of its message."""


def unmarked(text: str) -> str:
    """Return what others add to a log in such a form that nothing in it passes for a mark."""
    return MARK.sub(lambda mark: mark[0].replace("<", "&lt;", 1), text)


def adds_mark(before: str, after: str) -> bool:
    """Return whether a change of a log puts a mark there, or puts one there once more."""
    return bool(Counter(MARK.findall(after)) - Counter(MARK.findall(before)))
