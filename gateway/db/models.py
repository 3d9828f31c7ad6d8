"""The gateway's tables. Rows stay inside the module that owns them; every row with content has its principal on it.

Times are Unix seconds (float), compared by code and database alike without time zones.
"""

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    TypeDecorator,
    UniqueConstraint,
    text,
    true,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

_NAMES = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


def partial_index(name: str, *columns: str, where: str, unique: bool = False, sqlite_where: str = "") -> Index:
    """Return an index of the rows that a condition names; queries must put it in the same words to be served by it."""
    conditions = {"sqlite_where": text(sqlite_where or where), "postgresql_where": text(where)}
    return Index(name, *columns, unique=unique, **conditions)  # type: ignore[arg-type]  # options of dialects


_Serial = BigInteger().with_variant(Integer(), "sqlite")  # SQLite numbers only INTEGER keys by itself


class Text(TypeDecorator[str]):
    """Text without NUL, which PostgreSQL can't hold: a model may write one, and its answer would never be stored."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Take it out on every database, so that what is stored is the same."""
        return value if value is None else value.replace("\0", "")


class Base(DeclarativeBase):
    """The gateway's MetaData."""

    metadata = MetaData(naming_convention=_NAMES)
    type_annotation_map = {dict[str, Any]: JSON, list[Any]: JSON, int: _Serial, str: Text}  # noqa: RUF012  # SQLAlchemy's own protocol


class AccountRow(Base):
    """Who an account is: many accounts may be one person."""

    __tablename__ = "accounts"
    platform: Mapped[str] = mapped_column(primary_key=True)
    workspace: Mapped[str] = mapped_column(primary_key=True)
    user: Mapped[str] = mapped_column("user_id", primary_key=True)
    principal: Mapped[str] = mapped_column(index=True)
    name: Mapped[str]
    allowed: Mapped[bool]
    created_at: Mapped[float]


class ChatRow(Base):
    """A chat that the bot has seen, and for a shared one whether an administrator lets the bot answer there."""

    __tablename__ = "chats"
    platform: Mapped[str] = mapped_column(primary_key=True)
    workspace: Mapped[str] = mapped_column(primary_key=True)
    chat: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str]
    principal: Mapped[str] = mapped_column(index=True)
    title: Mapped[str]
    allowed: Mapped[bool]
    reachable: Mapped[bool] = mapped_column(server_default=true())
    """False while the bot can't post there: it was blocked, or taken out."""
    created_at: Mapped[float]


class PairingRow(Base):
    """A code that a stranger was given; only its hash is kept."""

    __tablename__ = "pairing_codes"
    platform: Mapped[str] = mapped_column(primary_key=True)
    workspace: Mapped[str] = mapped_column(primary_key=True)
    user: Mapped[str] = mapped_column("user_id", primary_key=True)
    code_hash: Mapped[str] = mapped_column(index=True)
    expires_at: Mapped[float]


class SessionRow(Base):
    """A stretch of a conversation with one frozen system prompt."""

    __tablename__ = "sessions"
    id: Mapped[int] = mapped_column(primary_key=True)
    principal: Mapped[str]
    project: Mapped[str]
    conversation: Mapped[str]
    system: Mapped[list[Any]]
    started_at: Mapped[float]
    last_at: Mapped[float]
    ended: Mapped[bool]
    told_date: Mapped[str]
    """The last local date that the model was told, ISO."""
    told_notes_at: Mapped[float]
    """Notes changed after this are told at the tail of the next turn."""
    extracted_to: Mapped[int]
    """Extraction cursor: `messages.id` of the last message handled."""

    __table_args__ = (
        partial_index("uq_sessions_open", "conversation", unique=True, where="NOT ended", sqlite_where="ended = 0"),
        Index("ix_sessions_scope", "principal", "project", "last_at"),
    )


class MessageRow(Base):
    """One message of a transcript, exactly as it stands in requests."""

    __tablename__ = "messages"
    id: Mapped[int] = mapped_column(primary_key=True)
    session_id: Mapped[int] = mapped_column(ForeignKey("sessions.id", ondelete="CASCADE"), index=True)
    principal: Mapped[str]
    inbox_id: Mapped[int | None]
    role: Mapped[str]
    content: Mapped[list[Any]]
    speaker: Mapped[str]
    said: Mapped[str]
    """The human's or the bot's own words, without injected text; empty for tool traffic."""
    at: Mapped[float]
    __table_args__ = (Index("ix_messages_said", "principal", "at"),)


RULE_PREFIX = "rule:"
"""Begins the names of instruction rules among what a session was shown."""
NOT_RECALLED = 0
"""Stands for the message of a note that recall never put into a session."""


class ShownRow(Base):
    """A note that recall or the model has put into a session, or an instruction rule that came up in it."""

    __tablename__ = "shown_notes"
    session_id: Mapped[int] = mapped_column(ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    message_id: Mapped[int]
    """The first message of the turn in which recall showed it last; `NOT_RECALLED` if the model alone opened it."""
    units: Mapped[int]
    """Of a note that was shown again after a change, all times together."""
    mtime: Mapped[float | None]
    """When the note had last been changed as it was shown; none of a rule."""


class InboxRow(Base):
    """One inbound message. pending -> claimed -> done | dead; refused at once if the sender may not speak here."""

    __tablename__ = "inbox"
    id: Mapped[int] = mapped_column(primary_key=True)
    platform: Mapped[str]
    external_id: Mapped[str]
    principal: Mapped[str]
    conversation: Mapped[str]
    payload: Mapped[dict[str, Any]]
    state: Mapped[str]
    attempts: Mapped[int]
    not_before: Mapped[float]
    claim: Mapped[str]
    claimed_until: Mapped[float]
    stop: Mapped[bool]
    error: Mapped[str]
    received_at: Mapped[float]

    __table_args__ = (
        UniqueConstraint("external_id", "platform"),  # in this order, or SQLite looks for open rows by their platform
        CheckConstraint("state IN ('pending', 'claimed', 'done', 'dead', 'refused')", name="state"),
        partial_index("ix_inbox_open_first", "id", where="state IN ('pending', 'claimed')"),
        partial_index("ix_inbox_open", "conversation", "id", where="state IN ('pending', 'claimed')"),
        partial_index("uq_inbox_running", "conversation", unique=True, where="state = 'claimed'"),
    )


class OutboxRow(Base):
    """One part to post. pending -> sending -> sent | dead; `live` while an answer is shown in it and not yet final."""

    __tablename__ = "outbox"
    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(unique=True)
    principal: Mapped[str]
    platform: Mapped[str]
    conversation: Mapped[str]
    part: Mapped[dict[str, Any]]
    only_for: Mapped[str] = mapped_column(server_default="")
    """The one account that is to see it; empty: whoever is in the chat."""
    reply_to: Mapped[str]
    message_id: Mapped[str]
    state: Mapped[str]
    unsure: Mapped[bool]
    """A request to post it was begun and it is not known how that ended."""
    attempts: Mapped[int]
    not_before: Mapped[float]
    claim: Mapped[str]
    claimed_until: Mapped[float]
    error: Mapped[str]
    created_at: Mapped[float]
    sent_at: Mapped[float]

    __table_args__ = (
        CheckConstraint("state IN ('live', 'pending', 'sending', 'sent', 'dead')", name="state"),
        partial_index("ix_outbox_open_first", "id", where="state IN ('pending', 'sending')"),
        partial_index("ix_outbox_open", "conversation", "id", where="state IN ('pending', 'sending')"),
        partial_index("uq_outbox_sending", "conversation", unique=True, where="state = 'sending'"),
    )


class ButtonRow(Base):
    """A button under a message: pressing it says `says`, for as long as it is offered and to whom it is."""

    __tablename__ = "buttons"
    token: Mapped[str] = mapped_column(primary_key=True)
    principal: Mapped[str]
    conversation: Mapped[str]
    account: Mapped[str]
    """Who may press it, with blanks between several."""
    says: Mapped[str]
    alone: Mapped[bool]
    """Only its presser sees the message that it stands under, and is to see the answer."""
    until: Mapped[float]

    __table_args__ = (Index("ix_buttons_until", "until"),)


class ApprovalRow(Base):
    """A question whether a tool may be run: it waits until it has a decision, is closed, or its time is up."""

    __tablename__ = "approvals"
    id: Mapped[str] = mapped_column(primary_key=True)
    principal: Mapped[str]
    conversation: Mapped[str]
    account: Mapped[str]
    """Who is asked."""
    inbox_id: Mapped[int]
    claim: Mapped[str]
    """Of that message, under which the turn waits: whoever claims it next asks anew."""
    session_id: Mapped[int] = mapped_column(index=True)
    tool: Mapped[str]
    decision: Mapped[str]
    closed: Mapped[bool]
    until: Mapped[float]

    __table_args__ = (
        partial_index("ix_approvals_waiting", "conversation", where="NOT closed", sqlite_where="closed = 0"),
    )


class DueRow(Base):
    """An extraction that is due for a session; committed with the turn that caused it."""

    __tablename__ = "due_extractions"
    session_id: Mapped[int] = mapped_column(ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True)
    principal: Mapped[str]
    upto: Mapped[int]
    """`messages.id` of the last message to look at."""
    turns: Mapped[int]
    forced: Mapped[bool]
    attempts: Mapped[int]
    not_before: Mapped[float]


class DirectWriteRow(Base):
    """A file that the main agent wrote in a turn, for extraction's mutual exclusion."""

    __tablename__ = "direct_writes"
    id: Mapped[int] = mapped_column(primary_key=True)
    session_id: Mapped[int] = mapped_column(ForeignKey("sessions.id", ondelete="CASCADE"), index=True)
    message_id: Mapped[int]
    path: Mapped[str]


class FactRow(Base):
    """Who said a fact of a note, when, and in which message."""

    __tablename__ = "facts"
    id: Mapped[int] = mapped_column(primary_key=True)
    principal: Mapped[str]
    project: Mapped[str]
    note: Mapped[str]
    """The note's name, relative to the memory directory."""
    fact_hash: Mapped[str]
    account: Mapped[str]
    speaker: Mapped[str]
    message_id: Mapped[int | None]
    """`messages.id`; none if only the speaker is known."""
    said_at: Mapped[float]
    __table_args__ = (UniqueConstraint("principal", "project", "note", "fact_hash"),)


class ErasureRow(Base):
    """A message or a fact that was forgotten; whatever rebuilds memory asks here first."""

    __tablename__ = "erasures"
    id: Mapped[int] = mapped_column(primary_key=True)
    principal: Mapped[str]
    project: Mapped[str]
    message_id: Mapped[int | None]
    fact_hash: Mapped[str]
    """Empty where the row is about a message."""
    place: Mapped[str] = mapped_column(server_default="")
    """`team` if the fact was forgotten for others of the project too: the same fact in their own notes is theirs."""
    at: Mapped[float]
    """While it is not `done`: until when it is to be at the latest, so that all that looks finds it just forgotten."""
    done: Mapped[bool] = mapped_column(server_default=true())
    """False while it is being taken out of the files, or was until whoever did so was cut short."""
    __table_args__ = (
        Index("ix_erasures_messages", "principal", "project", "message_id"),
        Index("ix_erasures_at", "principal", "project", "at"),
    )


class ForgetOfferRow(Base):
    """What somebody was shown under numbers, and may have forgotten for a while."""

    __tablename__ = "forget_offers"
    conversation: Mapped[str] = mapped_column(primary_key=True)
    account: Mapped[str] = mapped_column(primary_key=True)
    principal: Mapped[str]
    project: Mapped[str]
    items: Mapped[list[Any]]
    until: Mapped[float]


class IgnoredRow(Base):
    """A conversation in which memory is off because somebody there said so."""

    __tablename__ = "ignored_conversations"
    conversation: Mapped[str] = mapped_column(primary_key=True)
    principal: Mapped[str] = mapped_column(primary_key=True)
    since: Mapped[float]


class ChatModeRow(Base):
    """The memory mode that an owner has chosen for a principal in a chat."""

    __tablename__ = "chat_modes"
    principal: Mapped[str] = mapped_column(primary_key=True)
    mode: Mapped[str]
    """`auto` or `log`; empty: what the settings say."""
    set_by: Mapped[str]
    at: Mapped[float]
    since: Mapped[float | None]
    """When a choice last changed the mode."""


class UsageRow(Base):
    """Tokens of one model call."""

    __tablename__ = "usage"
    id: Mapped[int] = mapped_column(primary_key=True)
    principal: Mapped[str]
    purpose: Mapped[str]
    model: Mapped[str]
    input_tokens: Mapped[int]
    output_tokens: Mapped[int]
    cache_read_tokens: Mapped[int]
    cache_write_tokens: Mapped[int]
    at: Mapped[float]
    __table_args__ = (Index("ix_usage_principal", "principal", "at"),)


class LeaseRow(Base):
    """A named lease; `token` only grows, so that a late writer can be told from the present one."""

    __tablename__ = "leases"
    name: Mapped[str] = mapped_column(primary_key=True)
    holder: Mapped[str]
    token: Mapped[int]
    until: Mapped[float]
