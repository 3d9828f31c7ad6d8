"""Where a forgotten fact stood."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("erasures", sa.Column("place", sa.String(), server_default="", nullable=False))


def downgrade() -> None:
    op.drop_column("erasures", "place")
