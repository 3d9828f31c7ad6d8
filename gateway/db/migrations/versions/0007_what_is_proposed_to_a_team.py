"""What is proposed to change in a team's memory."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

integer = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
pending = sa.text("state = 'pending'")


def upgrade() -> None:
    op.create_table(
        "team_proposals",
        sa.Column("id", integer, nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("seen", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("title", sa.String(), nullable=False),
        sa.Column("changes", sa.JSON(), nullable=False),
        sa.Column("removed", sa.JSON(), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.CheckConstraint(
            "state IN ('empty', 'pending', 'accepted', 'refused', 'dead')", name=op.f("ck_team_proposals_state")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_team_proposals")),
    )
    with op.batch_alter_table("team_proposals", schema=None) as batch_op:
        batch_op.create_index("ix_team_proposals_project", ["project", "state"], unique=False)
        batch_op.create_index(
            "uq_team_proposals_pending",
            ["project"],
            unique=True,
            sqlite_where=pending,
            postgresql_where=pending,
        )


def downgrade() -> None:
    with op.batch_alter_table("team_proposals", schema=None) as batch_op:
        batch_op.drop_index("uq_team_proposals_pending", sqlite_where=pending, postgresql_where=pending)
        batch_op.drop_index("ix_team_proposals_project")

    op.drop_table("team_proposals")
