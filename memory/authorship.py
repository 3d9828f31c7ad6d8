"""Who wrote a note of the team, and where: two fields of its header, `author` and `source`, that code alone sets.

    author: "Ann (telegram:42)"
    source: "telegram, private chat, message 17, 2031-05-02 14:05Z"

Several authors make lists of both, in the order in which they came; each has the source of what they wrote last.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import zip_longest

from memory.errors import WriteRefused
from memory.metadata import head_of, parse

_FIELDS = ("author", "source")
_FIELD = re.compile(r"""["']?(?:author|source)["']?[ \t]*:""")
_CONTINUED = re.compile(r"[ \t]|-[ \t\r\n]")
_ACCOUNT = re.compile(r"\(([^()]+)\)\Z")
_MOST = 20
_LONGEST = 160
_LONGEST_NAME = 64
_HEAD_LINES = 30  # a scan reads no more of a note for its header


@dataclass(frozen=True, kw_only=True, slots=True)
class Byline:
    """An author of a note, as the note says it."""

    author: str
    """A display name, which is data, and the account: `Ann (telegram:42)`."""
    source: str = ""

    @property
    def account(self) -> str:
        """The account that is named; "" if there is none."""
        found = _ACCOUNT.search(self.author)
        return found[1] if found else ""


def byline(*, account: str, name: str, chat: str, message: str, at: datetime) -> Byline:
    """Return what a note says of who wrote it; `chat` is `private` or `shared`, and names no chat."""
    shown = _plain("".join(" " if char in '()[]<>`"\\' else char for char in name))[:_LONGEST_NAME].strip()
    platform = account.partition(":")[0]
    parts = (platform, f"{chat} chat", f"message {message}" if message else "", f"{at.astimezone(UTC):%Y-%m-%d %H:%MZ}")
    return Byline(author=f"{shown or 'somebody'} ({account})", source=_plain(", ".join(filter(None, parts))))


def bylines(text: str) -> tuple[Byline, ...]:
    """Return the authors that a note names, in their order; what they are called is data."""
    metadata, _ = parse(text)
    authors, sources = (_listed(metadata.get(field)) for field in _FIELDS)
    pairs = zip_longest(authors, sources[: len(authors)], fillvalue="")
    return tuple(Byline(author=author, source=source) for author, source in pairs)


def signed(text: str, *, before: str, by: Sequence[Byline]) -> str:
    """Return a note that is to take the place of `before`, with the authors of that and those of the change.

    What the text itself says of authors does not count. A text that adds nothing is `before`. A header that can't be
    read stays as it is, and so does a note that the fields would make unreadable. Raises `WriteRefused` if the fields
    that a text brings along can't be taken out.
    """
    if before and unsigned(text) == unsigned(before):
        return before
    made = _with_fields(text, _joined(bylines(before), by))
    if made is None and parse(text)[0].keys() & set(_FIELDS):
        raise WriteRefused("leave `author` and `source` out of the header: they are put there for you")
    return text if made is None else made


def unsigned(text: str) -> str:
    """Return a note without the two fields; as it stands if they can't be taken out."""
    made = _with_fields(text, ())
    return text if made is None else made


def _joined(known: Iterable[Byline], new: Iterable[Byline]) -> list[Byline]:
    found: dict[str, Byline] = {each.account or each.author: each for each in known}
    for each in new:
        found[each.account or each.author] = each  # keeps its place, under its present name
    return list(found.values())[:_MOST]


def _with_fields(text: str, authors: Sequence[Byline]) -> str | None:
    """Return the note with these fields instead of its own; None if it would not be the same note then."""
    head, (metadata, body) = head_of(text), parse(text)
    if head and len(body) < len(text):
        first, *lines, last = head.splitlines(keepends=True)
        end = "\r\n" if first.endswith("\r\n") else "\n"
        made = "".join([first, *_without_fields(lines), *(f"{line}{end}" for line in _fields(authors)), last])
    elif head or text.startswith(("---", "\ufeff")) or not authors or not text.strip():
        return text
    else:
        made, body = "\n".join(["---", *_fields(authors), "---", ""]), f"\n{text}"
    wanted = {key: value for key, value in metadata.items() if key not in _FIELDS} | _values(authors)
    if parse(made + body) == (wanted, body) and (made.count("\n") <= _HEAD_LINES or not authors):
        return made + body
    return None


def _values(authors: Sequence[Byline]) -> dict[str, object]:
    if not authors:
        return {}
    names, sources = [each.author for each in authors], [each.source for each in authors]
    return {"author": names[0], "source": sources[0]} if len(authors) == 1 else {"author": names, "source": sources}


def _fields(authors: Sequence[Byline]) -> list[str]:
    # A JSON text is a YAML text in double quotes.
    return [f"{field}: {json.dumps(value, ensure_ascii=False)}" for field, value in _values(authors).items()]


def _without_fields(lines: Sequence[str]) -> list[str]:
    kept: list[str] = []
    dropping = False
    for line in lines:
        dropping = bool(_FIELD.match(line)) or (dropping and bool(_CONTINUED.match(line)))
        if not dropping:
            kept.append(line)
    return kept


def _listed(value: object) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [_plain(each) for each in values if isinstance(each, str) and each.strip()][:_MOST]


def _plain(text: str) -> str:
    """Return a text as one short line without signs that can't be printed."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())[:_LONGEST]
