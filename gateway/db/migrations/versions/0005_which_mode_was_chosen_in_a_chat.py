"""Which mode was chosen in a chat."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "chat_modes",
        sa.Column("principal", sa.String(), nullable=False),
        sa.Column("mode", sa.String(), nullable=False),
        sa.Column("set_by", sa.String(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("since", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("principal", name=op.f("pk_chat_modes")),
    )


def downgrade() -> None:
    op.drop_table("chat_modes")
