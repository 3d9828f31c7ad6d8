"""Who said each fact, and what was forgotten."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

integer = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "erasures",
        sa.Column("id", integer, nullable=False),
        sa.Column("principal", sa.String(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("message_id", integer, nullable=True),
        sa.Column("fact_hash", sa.String(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_erasures")),
    )
    op.create_index("ix_erasures_at", "erasures", ["principal", "project", "at"], unique=False)
    op.create_index("ix_erasures_messages", "erasures", ["principal", "project", "message_id"], unique=False)
    op.create_table(
        "facts",
        sa.Column("id", integer, nullable=False),
        sa.Column("principal", sa.String(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("note", sa.String(), nullable=False),
        sa.Column("fact_hash", sa.String(), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("speaker", sa.String(), nullable=False),
        sa.Column("message_id", integer, nullable=True),
        sa.Column("said_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_facts")),
        sa.UniqueConstraint("principal", "project", "note", "fact_hash", name=op.f("uq_facts_principal")),
    )
    op.create_table(
        "forget_offers",
        sa.Column("conversation", sa.String(), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("principal", sa.String(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("items", sa.JSON(), nullable=False),
        sa.Column("until", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("conversation", "account", name=op.f("pk_forget_offers")),
    )
    op.create_table(
        "ignored_conversations",
        sa.Column("conversation", sa.String(), nullable=False),
        sa.Column("principal", sa.String(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("conversation", "principal", name=op.f("pk_ignored_conversations")),
    )


def downgrade() -> None:
    op.drop_table("ignored_conversations")
    op.drop_table("forget_offers")
    op.drop_table("facts")
    op.drop_table("erasures")
