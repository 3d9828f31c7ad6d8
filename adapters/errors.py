"""What can go wrong between an adapter and its platform.

    AdapterError
    ├── Misconfigured      a token or setting is wrong; the operator must act
    ├── Transient          not done, may be tried again (carries `retry_after`)
    ├── Permanent          will never be done: blocked, kicked, chat gone
    └── Unsure             may have been done: the answer to the request was lost

Each adapter translates its library's errors into these once, at its edge.
"""


class AdapterError(Exception):
    """Base of everything an adapter raises."""


class Misconfigured(AdapterError):
    """The platform refuses our credentials or settings; the message names the cause and the cure."""


class Transient(AdapterError):
    """The request was not carried out and may be repeated after `retry_after` seconds (None: back off)."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Permanent(AdapterError):
    """The platform will never accept this post: repeating it is of no use."""


class Unsure(AdapterError):
    """The request was sent and its answer lost: whether it was carried out is unknown."""
