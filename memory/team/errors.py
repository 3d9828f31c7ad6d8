"""What can go wrong in team memory, on both sides of the wire.

MemoryFault
├── TeamRefusal             the server's side: the request is understood and not carried out
│   ├── Unauthenticated     no token, or one that nobody has (401)
│   ├── Forbidden           the token is good, the repo is not its own (403; carries whose it is)
│   ├── PreconditionFailed  somebody wrote since the client read (412; carries the present checksum)
│   ├── TooManyEntries      the repo would hold more than it may (413; carries both numbers)
│   └── TooLarge            an entry or a body is over its limit (413)
└── SyncFailed              the client's side: the exchange did not come to its end (carries the status)
    └── NoToken             there is nothing to show to the server, so that it was not asked
"""

from memory.errors import MemoryFault


class TeamRefusal(MemoryFault):
    """Base of what the server answers with an error status."""


class Unauthenticated(TeamRefusal):
    """Nobody is known by this token."""


class Forbidden(TeamRefusal):
    """Whoever has this token, `who`, may not use this repo."""

    def __init__(self, message: str, *, who: str) -> None:
        super().__init__(message)
        self.who = who


class PreconditionFailed(TeamRefusal):
    """The repo is not in the state that the client names; `checksum` is the present one, or empty."""

    def __init__(self, *, checksum: str) -> None:
        super().__init__("the team memory changed since it was read")
        self.checksum = checksum


class TooManyEntries(TeamRefusal):
    """The write would leave `received` entries where `maximum` are allowed; nothing was written."""

    def __init__(self, *, maximum: int, received: int) -> None:
        super().__init__(f"the team memory may hold {maximum} entries and would hold {received}")
        self.maximum = maximum
        self.received = received


class TooLarge(TeamRefusal):
    """An entry or the whole body is over its limit; nothing was written."""


class SyncFailed(MemoryFault):
    """An exchange with the server failed; `status` is the HTTP status, None if there was no answer.

    `maximum` is set when the server said how many entries it takes, `received` when it said how many there would
    have been, `malformed` when it does not speak the contract.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        maximum: int | None = None,
        received: int | None = None,
        malformed: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.maximum = maximum
        self.received = received
        self.malformed = malformed

    @property
    def passing(self) -> bool:
        """Whether a GET may succeed when it is tried again in a moment."""
        return not self.malformed and self.status not in {401, 403}

    @property
    def conflict(self) -> bool:
        """Whether somebody else wrote in between."""
        return self.status == 412

    @property
    def permanent(self) -> bool:
        """Whether the same push can never succeed: 4xx, save for what passes or carries its cure."""
        if self.status in {408, 409, 412, 429} or self.maximum is not None:
            return False
        return self.status is not None and 400 <= self.status < 500


class NoToken(SyncFailed):
    """There is no token for the server: nothing was sent, and nothing will be before there is one."""

    def __init__(self) -> None:
        super().__init__("no token for the team server: put the one that its operator has granted into team_token")

    @property
    def passing(self) -> bool:
        """Whether a GET may succeed when it is tried again in a moment: not without a token."""
        return False

    @property
    def permanent(self) -> bool:
        """Whether the same push can never succeed: so it is without a token."""
        return True
