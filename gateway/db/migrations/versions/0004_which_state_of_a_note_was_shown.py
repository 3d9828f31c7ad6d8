"""Which state of a note was shown."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("shown_notes", sa.Column("mtime", sa.Double(), nullable=True))


def downgrade() -> None:
    op.drop_column("shown_notes", "mtime")
