"""A word in a private memory and one in a team's, and where they come to light."""

import os
from pathlib import Path

from tests.acceptance.whole import Speaker, Whole

PRIVATE, TEAM = "zebrafish", "okapi"
ANN_IN_G = Speaker(user="42", chat="-100")
BOB_IN_G = Speaker(user="43", chat="-100", name="Bob")
ANN_IN_H = Speaker(user="42", chat="-200")
CAROL = Speaker(user="44", chat="44", name="Carol")
PROJECT = """
[projects.garden]
chats = ["telegram:-100", "telegram:44"]
"""


def leaks(running: Whole, word: str) -> list[str]:
    """Return where a word stands that others can see: requests to the model, and posts outside Ann's own chat."""
    requests = [request.path for request in running.model.requests if word.encode() in request.raw]
    posts = [
        str(call.address) for call in running.adapter.calls if word in str(call.part) and call.address.chat != "42"
    ]
    return requests + posts


def climbing(to: Path, start: Path) -> str:
    """Return the way up and down from one place to another, as a tool or command might be given it."""
    return os.path.relpath(to, start)
