"""What a run of each job would do, in words that follow "would": cheap looks that ask no server and change nothing."""

from collections.abc import Callable, Mapping
from datetime import timedelta

import anyio.to_thread

from gateway.history import History
from gateway.notices import counted
from gateway.scopes import Scopes
from gateway.team_copies import TeamCopies
from memory import journal as journals
from memory.dailylog import day_bounds, marked, waiting_logs
from memory.dream import Dream, Gate
from memory.errors import MemoryFault
from memory.scan import Scanner
from memory.settings import MemorySettings
from memory.stamp import NEVER
from memory.team.local import read_copy
from memory.team.state import SyncStates
from scheduler.jobs import JobContext, Work

_NAMED = 7
_HOUR = timedelta(hours=1)
_OPEN = {True: "open", False: "closed"}


class DryRuns:
    """Looks before a job is run; what can't be looked at is what the run will fail of."""

    def __init__(
        self,
        settings: MemorySettings,
        *,
        history: History,
        scopes: Scopes,
        dream: Callable[[], Dream],
        states: SyncStates,
        copies: TeamCopies,
    ) -> None:
        """Take the parts; `dream` makes a dream that nobody else asks, as one remembers when it looked."""
        self._settings = settings
        self._history = history
        self._scopes = scopes
        self._dream = dream
        self._states = states
        self._copies = copies

    @property
    def table(self) -> Mapping[str, Work]:
        """The looks, by job."""
        looks: dict[str, Work] = {
            "close-day": self.close_day,
            "distil": self.distil,
            "dream": self.dream,
            "team-sync": self.team_sync,
            "tidy-team": self.tidy_team,
            "end-sessions": self.end_sessions,
            "recover-dreams": self.recover_dreams,
        }
        return {job: _safely(look) for job, look in looks.items()}

    async def dream(self, context: JobContext) -> str:
        """Say how many notes there are, and how the gates of time and number stand."""
        scope, dream, enough = context.scope, self._dream(), self._settings.dream_min_sittings
        if (closed := await dream.obstacle(scope)) is not Gate.OPEN:
            return f"not be begun: {closed.value}"
        last = await dream.last(scope)
        sittings = len(await self._history.sittings_since(scope, last, enough=enough))
        notes = await Scanner(limit=None).scan_directory(scope.memory_dir)
        gone, hours = context.firing.now - last, self._settings.dream_min_hours
        since = "there was none before" if last == NEVER else f"the last was {gone / _HOUR:.0f} h ago"
        time = f"{_OPEN[gone >= hours * _HOUR]} (needs {hours:g} h; {since})"
        number = f"{_OPEN[sittings >= enough]} ({sittings} of {enough})"
        return f"put {counted(len(notes), 'note')} in order; gate of time {time}, gate of sittings {number}"

    async def distil(self, context: JobContext) -> str:
        """Say which days wait."""
        waiting = await anyio.to_thread.run_sync(waiting_logs, context.scope, context.firing.now)
        if not waiting:
            return "find no day log that waits"
        names = ", ".join(log.path.stem for log in waiting[:_NAMED])
        more = f" and {len(waiting) - _NAMED} more" if len(waiting) > _NAMED else ""
        return f"sort {counted(len(waiting), 'day log')} into notes: {names}{more}"

    async def close_day(self, context: JobContext) -> str:
        """Say how many messages of the day are in no log yet."""
        due = context.due
        if due.scope is None or due.day is None:
            return ""
        begins, ends = due.since or day_bounds(due.scope, due.day)[0], due.at
        said = await self._history.said_between(due.scope, begins, ends)
        logged = await self._history.extracted_between(due.scope, begins, ends)
        logged |= await anyio.to_thread.run_sync(marked, due.scope, due.day)
        missing = [each for each in said if each.text.strip() and each.message_id not in logged]
        return f"close {due.day}: add {counted(len(missing), 'message')} to its log"

    async def team_sync(self, context: JobContext) -> str:
        """Say how many files differ from what both sides last agreed on."""
        scope = context.scope
        if scope.team_dir is None:
            return ""
        state = await self._states.get(scope.principal, scope.project)
        local = (await anyio.to_thread.run_sync(read_copy, scope.team_dir)).to_compare()
        changed = sum(local.hash(key) != state.base.get(key) for key in local.texts)
        gone = len(state.base.keys() - local.names)
        if not state.pulled:
            return f"pull for the first time; {counted(changed, 'file')} here that the server may not have"
        deleted = f" and tell of {counted(gone, 'deletion')}" if gone else ""
        return f"push {counted(changed, 'changed file')}{deleted}; what there is to pull only the server could tell"

    async def tidy_team(self, context: JobContext) -> str:
        """Say what there is to look at in the project."""
        project = context.scope.project
        copies = (await self._copies.by_project()).get(project, ())
        if not copies:
            return f"find no copy of the notes of {project}"
        material = await self._copies.material(copies)
        beside = counted(len(material.copies), "conflict copy", "conflict copies")
        return f"look how {project} could be put in order: {counted(len(material.notes), 'file')}, {beside}"

    async def end_sessions(self, _: JobContext) -> str:
        """Say how many conversations have fallen silent."""
        silent = await self._history.silent(mode_of=await self._scopes.modes())
        return f"end {counted(len(silent), 'silent conversation')}"

    async def recover_dreams(self, _: JobContext) -> str:
        """Say how many dreams have no end on record."""
        count = 0
        for scope in await self._scopes.known():
            count += len(await anyio.to_thread.run_sync(journals.unfinished, scope))
            count += len(await anyio.to_thread.run_sync(journals.unsettled, scope))
        return f"see to {counted(count, 'dream')} without an end, but not to one that still runs"


def _safely(look: Work) -> Work:
    """Return a look that, where it fails, says so: the looks at the other scopes go on."""

    async def safe(context: JobContext) -> str:
        try:
            return await look(context)
        except (OSError, MemoryFault) as error:
            return f"fail: {error}"

    return safe
