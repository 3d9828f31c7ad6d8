"""What can go wrong in memory.

MemoryFault
├── PathRefused        a path leaves its directory, follows a link, or has a name that is not allowed
│   └── NoteMissing    there is no file at the path
├── WriteRefused       the write is not allowed here: rights, a secret, a file that would shrink without a reason
├── Conflict           the file is not what the writer read (carries the hash that is there now)
│   └── Overtaken      somebody changed it by hand just now, without a lease
├── LeaseLost          the writer's lease on the directory has run out and was taken by another
└── SideCallFailed     a side query, fork or run gave no usable answer
"""


class MemoryFault(Exception):
    """Base of everything memory raises."""


class PathRefused(MemoryFault):
    """The path is outside the scope, or reached through something that must not be followed."""


class NoteMissing(PathRefused):
    """There is no file at this path."""


class WriteRefused(MemoryFault):
    """The write is understood and not allowed; the message says why, for the model or the person to read."""


class Conflict(MemoryFault):
    """The file changed since it was read; `actual` is its present hash, empty if it is gone."""

    def __init__(self, message: str, *, actual: str) -> None:
        super().__init__(message)
        self.actual = actual


class Overtaken(Conflict):
    """Somebody changed the file by hand between the look at it and its replacement."""


class LeaseLost(MemoryFault):
    """The fencing token is no longer the newest: nothing was written."""


class SideCallFailed(MemoryFault):
    """The model did not answer, answered too late, or not in the form that was asked for."""
