"""Addresses in a line: of `[text](address)`, and bare ones."""

import re
from html.entities import html5

from markdown_it.common.normalize_url import normalizeLink

_MAX_HREF = 2048  # longer ones are written out: a platform would refuse them as a link
_LINK = re.compile(r"(?:https?://[^/\s?#]|mailto:\S|tg://\S)\S*", re.IGNORECASE)

_ESCAPED = r"\\[^\n]"
_INNER = rf"(?:[^\s()\\]|{_ESCAPED})*+"
TARGET = re.compile(
    rf"""\(\s*+
    (?:<(?P<angled>(?:[^<>\n\\]|{_ESCAPED})*+)>
      |(?P<plain>(?!<)(?:[^\s()\\]|{_ESCAPED}|\({_INNER}(?:\({_INNER}\){_INNER})*+\))*+))
    (?:\s++(?:"(?:[^"\\]|\\[\s\S])*+"|'(?:[^'\\]|\\[\s\S])*+'|\((?:[^()\\]|\\[\s\S])*+\)))?
    \s*+\)""",
    re.VERBOSE,
)
"""What stands behind `[text]`: an address, `angled` or `plain` with parentheses in pairs, and perhaps a title."""

_SCHEME = re.compile(r"(?<![A-Za-z0-9])https?\Z", re.IGNORECASE)
# No quotes or stops of CJK: there the text goes on without a space.
_ADDRESS = re.compile(
    r"""://(?=[^\s/?#.,:;!'")\]}*_~|])
    (?:[^\s<>`|"\[\]\\\u2018\u2019\u201c\u201d\u3000-\u3003\u3008-\u3011\u3014-\u301b\uff01-\uff0f\uff1a-\uff20\uff3b-\uff65]
      |\[[^\s<>`|"\[\]\\]*\]|\\[!-/:-@\[-`{-~])++""",
    re.VERBOSE,
)
_TRAILING = frozenset("?!.,:;*_~'\\")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])|&(#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")


def linkable(address: str) -> bool:
    """Say whether a chat can follow an address."""
    return len(address) <= _MAX_HREF and _LINK.fullmatch(address) is not None


def normal(address: str) -> str:
    """Return an address as it is sent: what isn't ASCII is encoded."""
    return address.replace(" ", "%20") if address.isascii() else normalizeLink(address)


def unescaped(text: str) -> str:
    """Return text with its backslash escapes and character references resolved."""
    return _ESCAPE.sub(_resolved, text) if "\\" in text or "&" in text else text


def _resolved(found: re.Match[str]) -> str:
    if found[1]:
        return found[1]
    name = found[2]
    if name[0] != "#":
        return html5.get(f"{name};", found[0])
    code = int(name[2:], 16) if name[1] in "xX" else int(name[1:])
    surrogate = 0xD800 <= code <= 0xDFFF
    return "\ufffd" if not code or surrogate or code > 0x10FFFF else chr(code)


def bare_address(text: str, colon: int, last: str) -> tuple[int, int] | None:
    """Return where the bare http(s) address around a colon begins and ends; `last` is bare text before it."""
    scheme = _SCHEME.search(last[-6:])
    found = _ADDRESS.match(text, colon) if scheme else None
    if scheme is None or found is None:
        return None
    start, end = colon - len(scheme[0]), found.end()
    open_ended = text.count("(", start, end) - text.count(")", start, end)
    while text[end - 1] in _TRAILING or (text[end - 1] == ")" and open_ended < 0):
        open_ended += text[end - 1] == ")"
        end -= 1
    return start, end
