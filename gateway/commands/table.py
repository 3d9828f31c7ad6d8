"""The commands: one table, from which menus, help and dispatch come."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from gateway.buttons import Choice
from gateway.inbound_rows import is_command
from gateway.inbox import Claim
from gateway.settings_faults import nearest
from memory.scope import Scope

MENU: Sequence[tuple[str, str]] = (
    ("start", "who I am and how to begin"),
    ("help", "what I can do"),
    ("new", "begin a new conversation; memory stays"),
    ("stop", "stop the answer that is being written"),
    ("status", "what is on, and what today has cost"),
    ("instructions", "which instruction files apply here, in which order"),
    ("memory", "what I remember here; /memory NAME shows one note"),
    ("why", "which notes shaped my last answer, and who said what is in them"),
    ("dream", "put memory in order now; /dream status, stop, diff, undo"),
    ("forget", "forget a note or a fact for good: /forget NAME or WORDS lists what fits, /forget 1 confirms"),
    ("jobs", "what the scheduler did and does next; for owners"),
    ("agents", "who can be set to work here, and their memory's snapshots: /agents NAME take, /agents NAME keep"),
    ("mode", "keep memory in notes at once or in a day log: /mode log, /mode auto; for owners"),
    ("team", "what the team shares here, and what waits: /team yes 1 confirms; also no, show, who, sync, audit"),
    ("ignore", "leave memory aside in this conversation: /ignore on, /ignore off"),
)
"""Names and summaries of all commands, as the platforms' menus and /help show them."""
_OF_MEMORY = frozenset({"memory", "remember", "dream", "mode"})
"""What only means something while memory is on, whether or not it can be said here yet."""
_OFF = "Memory is switched off here. What it holds from before can still be erased: `/forget WORDS` lists what fits."
_OF_A_CONVERSATION = frozenset({"new", "stop", "why", "ignore"})
"""What acts on a conversation, and so means nothing where a chat's conversations are its threads and this is none."""


_ECHOED = 40  # characters of what was not understood


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """What a command answers, Markdown, with buttons under it; `ends_session` closes the conversation's session."""

    text: str
    ends_session: bool = False
    choices: Sequence[Choice] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A command as it was given."""

    claim: Claim
    scope: Scope
    arguments: str


Handler = Callable[[Asked], Awaitable[Reply]]


class Commands:
    """Finds and runs commands; there is a handler for every row of the menu, and no other."""

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        if set(handlers) != {name for name, _ in MENU}:
            raise ValueError("handlers and menu differ")
        self._handlers = handlers

    @staticmethod
    def is_command(text: str) -> bool:
        """Whether a message is meant as a command: a slash and a letter, nothing like a path."""
        return is_command(text)

    async def run(self, claim: Claim, scope: Scope) -> Reply:
        """Run the command in a message; an unknown one gets a word that says where help is."""
        word, *rest = claim.inbound.text.split(maxsplit=1)
        name = word[1:].split("@")[0].lower()
        if name in _OF_MEMORY and not scope.enabled:
            return Reply(text=_OFF)
        if name in _OF_A_CONVERSATION and not claim.inbound.in_conversation:
            return Reply(text=f"Here each thread is a conversation: write `/{name}` in it, after mentioning me.")
        handler = self._handlers.get(name)
        if handler is None:
            meant = nearest(f"/{name}", [f"/{known}" for known in self._handlers])
            return Reply(text=f"I don't know `/{name}`{meant}. Write `/help` to see what I know.")
        return await handler(Asked(claim=claim, scope=scope, arguments="".join(rest).strip()))


def not_understood(given: str, known: Collection[str], usage: str) -> str:
    """Say which words after a command were not understood, which one may have been meant, and what can be written."""
    words = given.replace("`", "").split()
    shown = " ".join(words)
    shown = shown if len(shown) <= _ECHOED else f"{shown[:_ECHOED]}…"
    return f"I don't understand `{shown}`{nearest(words[0].lower(), known) if words else ''}. {usage}"
