"""How old a note is, in words that a model heeds. Age is elapsed time, not calendar days."""

_DAY = 86_400.0


def age_days(mtime: float, now: float) -> int:
    """Return whole days of 24 hours from `mtime` to `now` (both in seconds); the future counts as today."""
    return max(0, int((now - mtime) // _DAY))


def age_words(days: int) -> str:
    """Return `today`, `yesterday` (24 to 48 hours) or `N days ago`."""
    if days <= 0:
        return "today"
    return "yesterday" if days == 1 else f"{days} days ago"


def freshness_note(days: int) -> str:
    """Return the warning that goes with a note of this age; empty up to one day."""
    if days <= 1:
        return ""
    return (
        f"This memory was saved {days} days ago. It records what was observed then and does not follow what "
        "has changed since: what it says of how things behave, or where they stand, may be out of date. "
        "Check it against the present state before relying on it."
    )
