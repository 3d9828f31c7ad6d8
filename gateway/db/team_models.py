"""The tables of what is shared with a team: what waits to be published or decided, and where each copy stands."""

from typing import Any

from sqlalchemy import CheckConstraint, Index
from sqlalchemy.orm import Mapped, mapped_column

from gateway.db.models import Base, partial_index


class StagedRow(Base):
    """A change of team memory from a private chat: draft -> pending -> published | discarded | replaced | dead.

    A number stands for exactly the change that the person was shown under it. What is over keeps no text.
    """

    __tablename__ = "staged_changes"
    id: Mapped[int] = mapped_column(primary_key=True)
    principal: Mapped[str]
    project: Mapped[str]
    number: Mapped[int]
    """0 while it is a draft, of which the person was not asked yet."""
    state: Mapped[str]
    run: Mapped[str]
    """The turn or extraction that is at work on the draft; once it waits: the turn that answered all."""
    conversation: Mapped[str]
    name: Mapped[str]
    """Relative to T."""
    body: Mapped[str | None]
    """The whole new text; none: the file is to be deleted."""
    base: Mapped[str | None]
    """The text that it replaces; none: there was no file."""
    replaces: Mapped[str]
    """The hash of that text, empty for none."""
    pointer: Mapped[str]
    """The line that the index beside it gets with it, if one was staged."""
    account: Mapped[str]
    speaker: Mapped[str]
    inbox_id: Mapped[int | None]
    message_id: Mapped[int | None]
    outcome: Mapped[str]
    """What became of it, for whoever asks again."""
    staged_at: Mapped[float]

    __table_args__ = (
        CheckConstraint(
            "state IN ('draft', 'pending', 'published', 'discarded', 'replaced', 'dead')",
            name="state",
        ),
        Index("ix_staged_changes_memory", "principal", "project", "state"),
        partial_index("uq_staged_draft", "principal", "project", "name", unique=True, where="state = 'draft'"),
        partial_index("uq_staged_pending", "principal", "project", "name", unique=True, where="state = 'pending'"),
    )


class ProposalRow(Base):
    """What a look at a project's team memory came to. empty, or pending -> accepted | refused | dead.

    It is the project's, no principal's. What is over keeps no text.
    """

    __tablename__ = "team_proposals"
    id: Mapped[int] = mapped_column(primary_key=True)
    project: Mapped[str]
    seen: Mapped[str]
    """Stands for the notes that were looked at."""
    state: Mapped[str]
    title: Mapped[str]
    changes: Mapped[list[Any]]
    removed: Mapped[list[Any]]
    """The facts that would be in no note any more."""
    account: Mapped[str]
    """Who has answered."""
    outcome: Mapped[str]
    """What became of it, for whoever asks again."""
    created_at: Mapped[float]

    __table_args__ = (
        CheckConstraint("state IN ('empty', 'pending', 'accepted', 'refused', 'dead')", name="state"),
        Index("ix_team_proposals_project", "project", "state"),
        partial_index("uq_team_proposals_pending", "project", unique=True, where="state = 'pending'"),
    )


class SyncRow(Base):
    """Where a copy of a team's memory stands with its server: the base for telling which side changed."""

    __tablename__ = "team_sync"
    principal: Mapped[str] = mapped_column(primary_key=True)
    project: Mapped[str] = mapped_column(primary_key=True)
    state: Mapped[dict[str, Any]]
