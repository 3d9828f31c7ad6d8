"""First tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

integer = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "accounts",
        sa.Column("platform", sa.String(), nullable=False),
        sa.Column("workspace", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("principal", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("allowed", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("platform", "workspace", "user_id", name=op.f("pk_accounts")),
    )
    op.create_index(op.f("ix_accounts_principal"), "accounts", ["principal"], unique=False)
    op.create_table(
        "chats",
        sa.Column("platform", sa.String(), nullable=False),
        sa.Column("workspace", sa.String(), nullable=False),
        sa.Column("chat", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("principal", sa.String(), nullable=False),
        sa.Column("title", sa.String(), nullable=False),
        sa.Column("allowed", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("platform", "workspace", "chat", name=op.f("pk_chats")),
    )
    op.create_index(op.f("ix_chats_principal"), "chats", ["principal"], unique=False)
    op.create_table(
        "inbox",
        sa.Column("id", integer, nullable=False),
        sa.Column("platform", sa.String(), nullable=False),
        sa.Column("external_id", sa.String(), nullable=False),
        sa.Column("principal", sa.String(), nullable=False),
        sa.Column("conversation", sa.String(), nullable=False),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("attempts", integer, nullable=False),
        sa.Column("not_before", sa.Double(), nullable=False),
        sa.Column("claim", sa.String(), nullable=False),
        sa.Column("claimed_until", sa.Double(), nullable=False),
        sa.Column("stop", sa.Boolean(), nullable=False),
        sa.Column("error", sa.String(), nullable=False),
        sa.Column("received_at", sa.Double(), nullable=False),
        sa.CheckConstraint("state IN ('pending', 'claimed', 'done', 'dead', 'refused')", name=op.f("ck_inbox_state")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_inbox")),
        sa.UniqueConstraint("external_id", "platform", name=op.f("uq_inbox_external_id")),
    )
    op.create_index(
        "ix_inbox_open",
        "inbox",
        ["conversation", "id"],
        unique=False,
        sqlite_where=sa.text("state IN ('pending', 'claimed')"),
        postgresql_where=sa.text("state IN ('pending', 'claimed')"),
    )
    op.create_index(
        "ix_inbox_open_first",
        "inbox",
        ["id"],
        unique=False,
        sqlite_where=sa.text("state IN ('pending', 'claimed')"),
        postgresql_where=sa.text("state IN ('pending', 'claimed')"),
    )
    op.create_index(
        "uq_inbox_running",
        "inbox",
        ["conversation"],
        unique=True,
        sqlite_where=sa.text("state = 'claimed'"),
        postgresql_where=sa.text("state = 'claimed'"),
    )
    op.create_table(
        "leases",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("holder", sa.String(), nullable=False),
        sa.Column("token", integer, nullable=False),
        sa.Column("until", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_leases")),
    )
    op.create_table(
        "outbox",
        sa.Column("id", integer, nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("principal", sa.String(), nullable=False),
        sa.Column("platform", sa.String(), nullable=False),
        sa.Column("conversation", sa.String(), nullable=False),
        sa.Column("part", sa.JSON(), nullable=False),
        sa.Column("reply_to", sa.String(), nullable=False),
        sa.Column("message_id", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("unsure", sa.Boolean(), nullable=False),
        sa.Column("attempts", integer, nullable=False),
        sa.Column("not_before", sa.Double(), nullable=False),
        sa.Column("claim", sa.String(), nullable=False),
        sa.Column("claimed_until", sa.Double(), nullable=False),
        sa.Column("error", sa.String(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("sent_at", sa.Double(), nullable=False),
        sa.CheckConstraint("state IN ('live', 'pending', 'sending', 'sent', 'dead')", name=op.f("ck_outbox_state")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
        sa.UniqueConstraint("key", name=op.f("uq_outbox_key")),
    )
    op.create_index(
        "ix_outbox_open",
        "outbox",
        ["conversation", "id"],
        unique=False,
        sqlite_where=sa.text("state IN ('pending', 'sending')"),
        postgresql_where=sa.text("state IN ('pending', 'sending')"),
    )
    op.create_index(
        "ix_outbox_open_first",
        "outbox",
        ["id"],
        unique=False,
        sqlite_where=sa.text("state IN ('pending', 'sending')"),
        postgresql_where=sa.text("state IN ('pending', 'sending')"),
    )
    op.create_index(
        "uq_outbox_sending",
        "outbox",
        ["conversation"],
        unique=True,
        sqlite_where=sa.text("state = 'sending'"),
        postgresql_where=sa.text("state = 'sending'"),
    )
    op.create_table(
        "pairing_codes",
        sa.Column("platform", sa.String(), nullable=False),
        sa.Column("workspace", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("code_hash", sa.String(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("platform", "workspace", "user_id", name=op.f("pk_pairing_codes")),
    )
    op.create_index(op.f("ix_pairing_codes_code_hash"), "pairing_codes", ["code_hash"], unique=False)
    op.create_table(
        "sessions",
        sa.Column("id", integer, nullable=False),
        sa.Column("principal", sa.String(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("conversation", sa.String(), nullable=False),
        sa.Column("system", sa.JSON(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("last_at", sa.Double(), nullable=False),
        sa.Column("ended", sa.Boolean(), nullable=False),
        sa.Column("told_date", sa.String(), nullable=False),
        sa.Column("told_notes_at", sa.Double(), nullable=False),
        sa.Column("extracted_to", integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
    )
    op.create_index("ix_sessions_scope", "sessions", ["principal", "project", "last_at"], unique=False)
    op.create_index(
        "uq_sessions_open",
        "sessions",
        ["conversation"],
        unique=True,
        sqlite_where=sa.text("ended = 0"),
        postgresql_where=sa.text("NOT ended"),
    )
    op.create_table(
        "team_sync",
        sa.Column("principal", sa.String(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("state", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("principal", "project", name=op.f("pk_team_sync")),
    )
    op.create_table(
        "usage",
        sa.Column("id", integer, nullable=False),
        sa.Column("principal", sa.String(), nullable=False),
        sa.Column("purpose", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("input_tokens", integer, nullable=False),
        sa.Column("output_tokens", integer, nullable=False),
        sa.Column("cache_read_tokens", integer, nullable=False),
        sa.Column("cache_write_tokens", integer, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_usage")),
    )
    op.create_index("ix_usage_principal", "usage", ["principal", "at"], unique=False)
    op.create_table(
        "direct_writes",
        sa.Column("id", integer, nullable=False),
        sa.Column("session_id", integer, nullable=False),
        sa.Column("message_id", integer, nullable=False),
        sa.Column("path", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_direct_writes_session_id_sessions"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_direct_writes")),
    )
    op.create_index(op.f("ix_direct_writes_session_id"), "direct_writes", ["session_id"], unique=False)
    op.create_table(
        "due_extractions",
        sa.Column("session_id", integer, nullable=False),
        sa.Column("principal", sa.String(), nullable=False),
        sa.Column("upto", integer, nullable=False),
        sa.Column("turns", integer, nullable=False),
        sa.Column("forced", sa.Boolean(), nullable=False),
        sa.Column("attempts", integer, nullable=False),
        sa.Column("not_before", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_due_extractions_session_id_sessions"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session_id", name=op.f("pk_due_extractions")),
    )
    op.create_table(
        "messages",
        sa.Column("id", integer, nullable=False),
        sa.Column("session_id", integer, nullable=False),
        sa.Column("principal", sa.String(), nullable=False),
        sa.Column("inbox_id", integer, nullable=True),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("content", sa.JSON(), nullable=False),
        sa.Column("speaker", sa.String(), nullable=False),
        sa.Column("said", sa.String(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_messages_session_id_sessions"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_messages")),
    )
    op.create_index("ix_messages_said", "messages", ["principal", "at"], unique=False)
    op.create_index(op.f("ix_messages_session_id"), "messages", ["session_id"], unique=False)
    op.create_table(
        "shown_notes",
        sa.Column("session_id", integer, nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("message_id", integer, nullable=False),
        sa.Column("units", integer, nullable=False),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_shown_notes_session_id_sessions"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session_id", "name", name=op.f("pk_shown_notes")),
    )
    op.create_table(
        "job_runs",
        sa.Column("job", sa.String(), nullable=False),
        sa.Column("scope", sa.String(), nullable=False),
        sa.Column("slot", sa.String(), nullable=False),
        sa.Column("token", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("holder", sa.String(), nullable=False),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("outcome", sa.String(), nullable=True),
        sa.Column("detail", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("job", "scope", "slot"),
    )
    op.create_index("job_runs_by_time", "job_runs", ["job", "started_at"], unique=False)
    op.create_table(
        "team_repos",
        sa.Column("repo", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("repo"),
    )
    op.create_table(
        "team_entries",
        sa.Column("repo", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("text", sa.LargeBinary(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.Column("deleted", sa.Boolean(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("author", sa.String(), nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["repo"],
            ["team_repos.repo"],
        ),
        sa.PrimaryKeyConstraint("repo", "key"),
    )


def downgrade() -> None:
    op.drop_table("team_entries")
    op.drop_table("team_repos")
    op.drop_table("job_runs")
    op.drop_table("shown_notes")
    op.drop_table("messages")
    op.drop_table("due_extractions")
    op.drop_table("direct_writes")
    op.drop_table("usage")
    op.drop_table("team_sync")
    op.drop_table("sessions")
    op.drop_table("pairing_codes")
    op.drop_table("outbox")
    op.drop_table("leases")
    op.drop_table("inbox")
    op.drop_table("chats")
    op.drop_table("accounts")
