"""Rows of spans, cut at a place."""

from dataclasses import replace

from adapters.text.graphemes import LOOK_AHEAD, leading_space
from adapters.text.tree import Spans, text_of


def without_leading_space(spans: Spans) -> Spans:
    """Return spans without the white space that they begin with."""
    while spans and (space := leading_space(text_of(before(spans, LOOK_AHEAD)))):
        spans = behind(spans, space)
    return spans


def before(spans: Spans, at: int) -> Spans:
    """Return what stands before a place, in characters."""
    for number, span in enumerate(spans):
        if at <= len(span.text):
            last = span if at == len(span.text) else replace(span, text=span.text[:at])
            return (*spans[:number], last) if at else spans[:number]
        at -= len(span.text)
    return spans


def behind(spans: Spans, at: int) -> Spans:
    """Return what stands behind a place, in characters."""
    for number, span in enumerate(spans):
        if at < len(span.text):
            return (replace(span, text=span.text[at:]), *spans[number + 1 :]) if at else spans[number:]
        at -= len(span.text)
    return ()
