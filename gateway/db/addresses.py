"""Addresses of conversations in the tables, when a chat goes on under another id."""

from typing import Any

from sqlalchemy import ColumnElement, func, literal, or_
from sqlalchemy.orm import InstrumentedAttribute

from adapters.base import Address

Column = InstrumentedAttribute[Any]


def within(column: Column, chat: Address) -> ColumnElement[bool]:
    """Select the rows of a chat, its topics and threads included."""
    return or_(column == str(chat), column.startswith(f"{chat}/", autoescape=True))


def moved(column: Column, old: Address, new: Address) -> ColumnElement[str]:
    """Return a row's address in the chat's new place; the topic or thread stays."""
    return literal(str(new)) + func.substr(column, len(str(old)) + 1)
