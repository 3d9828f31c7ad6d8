"""Which tables there are: each package's MetaData, without foreign keys between packages."""

from gateway.db import team_models
from gateway.db.models import Base
from memory.team.store import metadata as team
from scheduler.runs import metadata as runs

METADATAS = [Base.metadata, runs, team]
_ALSO_OF_BASE = team_models  # a table is in the MetaData once its module is imported
