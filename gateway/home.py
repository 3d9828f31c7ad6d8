"""The folder that everything on disk is in, and the lock that keeps a second gateway out of it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gateway.errors import StartRefused


def prepare(home: Path) -> None:
    """Make the home with its owner's rights only; raises `StartRefused` if it can't be used."""
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        cure = "Set REVERIE_HOME to a folder, or move the file away."
        raise StartRefused(f"{home} is not a folder", cure=cure) from error
    except OSError as error:
        raise StartRefused(
            f"{home} can't be made: {error.strerror}", cure="Set REVERIE_HOME to a folder of your own."
        ) from error
    if not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        raise StartRefused(
            f"{home} can't be read and written by this user",
            cure="Give it the rights (chown, chmod 700), or set REVERIE_HOME to another folder.",
        )


LOCK = "gateway.lock"


def mark_start(home: Path) -> None:
    """Let the lock's file tell when the gateway that holds it has read its settings."""
    os.utime(home / LOCK)


@contextmanager
def only_gateway(home: Path) -> Iterator[None]:
    """Hold the home's lock; the system lets go of it when the process ends, however it ends."""
    file = home / LOCK
    try:
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StartRefused(f"{file} can't be opened: {error.strerror}", cure=f"Check the rights of {home}.") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StartRefused(
                f"Another Reverie runs in {home}",
                cure="Stop it first, or give this one its own REVERIE_HOME; "
                "several gateways on one memory need PostgreSQL (DATABASE_URL).",
            ) from error
        yield
    finally:
        os.close(handle)
