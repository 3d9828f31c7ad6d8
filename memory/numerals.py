"""The numbers in a text, in one form each, so that a date or a time may be written in another way and is the same."""

from collections.abc import Iterator
from itertools import chain

import regex

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH = rf"(?<month>{'|'.join(_MONTHS)})[a-z]{{0,6}}"
_NAMED = regex.compile(rf"(?<=\d(?:st|nd|rd|th|\.)?\s(?:of\s)?)\b{_MONTH}\b|\b{_MONTH}\b(?=\.?\s\d)")
_HALVES = regex.compile(r"(?i)(?<![\d:.])(\d{1,2})(?:[:.](\d{2}))?\s?([ap])\.?m\b")
_GROUPED = regex.compile(r"(?<![\d.,'’])\d{1,3}([,.'’\u00a0\u202f])\d{3}(?:\1\d{3})*+(?!\d)")
_NUMBER = regex.compile(
    r"(?<date>\d{1,4}([-/.])\d{1,2}\2\d{1,4})|(?<time>\d{1,2}:\d{2})(?!\d)|(?<part>\d+[.,]\d+)(?![.,]?\d)|\d+"
)
_DAY = regex.compile(r"\d{4}-\d{2}-\d{2}|\d{1,2}\.\d{1,2}\.\d{4}")
_SMALL = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_SPELT = {word: str(number) for number, word in enumerate(_SMALL, 1)}
_NOON = 12


def numbers(text: str) -> frozenset[str]:
    """Return the numbers of a text: of a date its parts, of a time hours and minutes; `1,900` is `1900`."""
    return frozenset(forms[0] for forms in _forms(text) if forms[0])


def held(text: str) -> frozenset[str]:
    """Return what numbers a text holds in whatever form: small ones also as words, hours of the afternoon as either."""
    words = regex.findall(r"\p{L}+", text.casefold())
    spelt = (_SPELT[word] for word in words if word in _SPELT)
    return frozenset(chain(chain.from_iterable(_forms(text)), spelt))


def in_figures(text: str) -> str:
    """Return a text with the words in its dates and times as numbers, and without signs between thousands."""
    text = _NAMED.sub(lambda found: str(_MONTHS.index(found["month"]) + 1), text)
    text = _HALVES.sub(_of_24, text)
    return _GROUPED.sub(lambda found: found[0].replace(found[1], ""), text)


def days(text: str) -> frozenset[str]:
    """Return the dates that a text has in full."""
    return frozenset(_DAY.findall(text))


def _forms(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the form in which each number has to be found, if any, and then those in which it may be asked for."""
    for found in _NUMBER.finditer(in_figures(text)):
        if found["date"]:
            parts = [_plain(part) for part in found["date"].split(found[2])]
            yield from ((part,) for part in parts)
            yield "", f"{parts[-1]}.{parts[1]}"  # as a day is written without its year in places
        elif found["time"]:
            yield from _of_time(*map(int, found["time"].split(":")))
        elif found["part"]:
            whole, _, rest = found["part"].replace(",", ".").partition(".")
            yield (f"{_plain(whole)}.{rest}".rstrip("0").rstrip("."),)
        else:
            yield (_plain(found[0]),)


def _of_time(hour: int, minute: int) -> Iterator[tuple[str, ...]]:
    yield str(hour), str(hour - _NOON if hour > _NOON else hour), f"{hour}.{minute:02}".rstrip("0")
    if minute:
        yield (str(minute),)


def _of_24(found: regex.Match[str]) -> str:
    hour = int(found[1]) % _NOON + (_NOON if found[3] in "pP" else 0)
    return f"{hour}:{found[2] or '00'}"


def _plain(digits: str) -> str:
    return str(int(digits[:40]))
