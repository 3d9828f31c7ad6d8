"""The tables of team memory on its server."""

from sqlalchemy import JSON, BigInteger, Boolean, Column, ForeignKey, Integer, LargeBinary, MetaData, String, Table

from memory.columns import UtcDateTime

metadata = MetaData()

REPOS = Table(
    "team_repos",
    metadata,
    Column("repo", String, primary_key=True),
    Column("version", Integer, nullable=False),
    Column("changed_at", UtcDateTime, nullable=False),
)

ENTRIES = Table(
    "team_entries",
    metadata,
    Column("repo", String, ForeignKey("team_repos.repo"), primary_key=True),
    Column("key", String, primary_key=True),
    Column("text", LargeBinary, nullable=False),  # bytes: PostgreSQL's text can't hold a NUL, a note might
    Column("hash", String, nullable=False),  # of a deleted entry: of its last text
    Column("deleted", Boolean, nullable=False),
    Column("version", Integer, nullable=False),
    Column("author", String, nullable=False),
    Column("changed_at", UtcDateTime, nullable=False),
)

AUDIT = Table(
    "team_audit",
    metadata,
    Column("id", BigInteger().with_variant(Integer(), "sqlite"), primary_key=True),
    Column("at", UtcDateTime, nullable=False),
    Column("who", String, nullable=False),  # empty: nobody is known by the token
    Column("peer", String, nullable=False),
    Column("repo", String, nullable=False),
    Column("method", String, nullable=False),
    Column("status", Integer, nullable=False),
    Column("written", JSON, nullable=False),
    Column("deleted", JSON, nullable=False),
)
