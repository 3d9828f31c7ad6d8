"""What waits to be shared with a team."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

integer = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "staged_changes",
        sa.Column("id", integer, nullable=False),
        sa.Column("principal", sa.String(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("number", integer, nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("run", sa.String(), nullable=False),
        sa.Column("conversation", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("body", sa.String(), nullable=True),
        sa.Column("base", sa.String(), nullable=True),
        sa.Column("replaces", sa.String(), nullable=False),
        sa.Column("pointer", sa.String(), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("speaker", sa.String(), nullable=False),
        sa.Column("inbox_id", integer, nullable=True),
        sa.Column("message_id", integer, nullable=True),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("staged_at", sa.Double(), nullable=False),
        sa.CheckConstraint(
            "state IN ('draft', 'pending', 'published', 'discarded', 'replaced', 'dead')",
            name=op.f("ck_staged_changes_state"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_staged_changes")),
    )
    with op.batch_alter_table("staged_changes", schema=None) as batch_op:
        batch_op.create_index("ix_staged_changes_memory", ["principal", "project", "state"], unique=False)
        batch_op.create_index(
            "uq_staged_draft",
            ["principal", "project", "name"],
            unique=True,
            sqlite_where=sa.text("state = 'draft'"),
            postgresql_where=sa.text("state = 'draft'"),
        )
        batch_op.create_index(
            "uq_staged_pending",
            ["principal", "project", "name"],
            unique=True,
            sqlite_where=sa.text("state = 'pending'"),
            postgresql_where=sa.text("state = 'pending'"),
        )


def downgrade() -> None:
    with op.batch_alter_table("staged_changes", schema=None) as batch_op:
        batch_op.drop_index(
            "uq_staged_pending",
            sqlite_where=sa.text("state = 'pending'"),
            postgresql_where=sa.text("state = 'pending'"),
        )
        batch_op.drop_index(
            "uq_staged_draft", sqlite_where=sa.text("state = 'draft'"), postgresql_where=sa.text("state = 'draft'")
        )
        batch_op.drop_index("ix_staged_changes_memory")

    op.drop_table("staged_changes")
