"""Which tables there are: each package's MetaData, without foreign keys between packages."""

from gateway.db.models import Base
from memory.team.store import metadata as team
from scheduler.runs import metadata as runs

METADATAS = [Base.metadata, runs, team]
