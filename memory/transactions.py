"""What a package's own tables need of the host's database."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from sqlalchemy.ext.asyncio import AsyncSession


class Transactions(Protocol):
    """Transactions on the host's database; it decides how readers and writers share it."""

    def read(self) -> AbstractAsyncContextManager[AsyncSession]:
        """Open a consistent view for reading."""

    def write(self) -> AbstractAsyncContextManager[AsyncSession]:
        """Open a transaction for writing; commits when left, rolls back on an error. Must not be nested."""
