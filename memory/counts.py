"""How many there are of something, and what they are called, as people are told."""

from collections.abc import Sequence


def counted(number: int, what: str, many: str = "") -> str:
    """Return a number with what there are so many of; `many` where that takes more than an s."""
    return f"{number} {what}" if number == 1 else f"{number} {many or what + 's'}"


def listed(names: Sequence[str], most: int) -> str:
    """Return at most so many of the names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
