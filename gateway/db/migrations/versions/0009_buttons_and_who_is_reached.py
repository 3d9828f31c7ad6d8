"""Buttons under messages, chats that the bot can't post to, and posts that one person sees."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "buttons",
        sa.Column("token", sa.String(), nullable=False),
        sa.Column("principal", sa.String(), nullable=False),
        sa.Column("conversation", sa.String(), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("says", sa.String(), nullable=False),
        sa.Column("alone", sa.Boolean(), nullable=False),
        sa.Column("until", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("token", name=op.f("pk_buttons")),
    )
    op.create_index("ix_buttons_until", "buttons", ["until"])
    op.add_column("chats", sa.Column("reachable", sa.Boolean(), server_default=sa.true(), nullable=False))
    op.add_column("outbox", sa.Column("only_for", sa.String(), server_default="", nullable=False))


def downgrade() -> None:
    op.drop_column("outbox", "only_for")
    op.drop_column("chats", "reachable")
    op.drop_index("ix_buttons_until", "buttons")
    op.drop_table("buttons")
