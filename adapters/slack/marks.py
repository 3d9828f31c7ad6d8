"""How a post of ours is known again: by metadata, or by invisible characters where Slack takes no metadata.

That Slack keeps these characters as they are, in a stream and in the comment of a file, is not documented; where it
did not, a post whose answer was lost would be posted a second time.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

_INVISIBLE = "\u2061\u2062\u2063\u2064"


def metadata(key: str) -> dict[str, Any]:
    """Return the metadata by which a post of this key can be found again."""
    return {"event_type": "reverie_post", "event_payload": {"key": key}}


def mark(key: str) -> str:
    """Return invisible characters that stand for the key in a text.

    chat.startStream takes no metadata, only the stop does, and the comment of a file never has any.
    """
    digest = hashlib.sha256(key.encode()).digest()[:8]
    return "".join(_INVISIBLE[byte >> shift & 3] for byte in digest for shift in (6, 4, 2, 0))


def is_post_of(message: Mapping[str, Any], *, key: str) -> bool:
    """Say whether a message of ours carries the key, as metadata or as a mark in its text."""
    found = message.get("metadata") or {}
    payload = found.get("event_payload") or {}
    own = found.get("event_type") == "reverie_post"
    return payload.get("key") == key if own else mark(key) in str(message.get("text") or "")
