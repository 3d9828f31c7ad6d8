"""Ports that a test has to itself before, between and after the times at which something listens there."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_port() -> Iterator[int]:
    """Hold a free port of the loopback address: calls are refused until somebody listens there who was told of it.

    The kernel gives it to nobody else, as it would a port that was merely found free; whoever listens there does so
    with SO_REUSEADDR, as servers do.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]
