"""What must hold after a simulated month, looked up on the disk and in the tables, and its figures."""

import re
import sqlite3
import statistics
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

from memory import journal
from memory.dailylog import waiting_logs
from memory.index import INDEX, pointers
from memory.metadata import parse
from memory.scope import Scope
from memory.stamp import NEVER, last_consolidated
from memory.team.local import is_conflict_copy, read_copy
from memory.team.mark import MARK as COPY_MARK
from memory.team.store import Limits, TeamStore
from scheduler.jobs import Policy
from scheduler.runs import JobRun, Outcome
from scheduler.slots import Every, key_of
from tests.acceptance.month import Month
from tests.acceptance.month_cast import Fact, Member
from tests.acceptance.month_model import MARK

_OURS = frozenset({".consolidate-lock", ".processed", COPY_MARK})
_NOTE = re.compile(r"topic-\d+\.md|MEMORY\.md|logs/\d{4}/\d\d/\d{4}-\d\d-\d\d(\.\d+)?\.md|team/[^/]+\.md")
_ALL = 1_000_000
_A_MOMENT = timedelta(minutes=1)


class Findings:
    """What is wrong after a month, by the kind of the check, and the figures of those that were right."""

    def __init__(self, month: Month) -> None:
        self.month = month
        self.wrong: dict[str, list[str]] = {}
        self.figures: dict[str, object] = {}

    async def look(self) -> None:
        """Do every check; the gateway is still up, and at rest."""
        month = self.month
        pairs = [(member, await month.scope(member)) for member in month.members]
        runs = await month.core.night.runs.recent(limit=_ALL)
        self.wrong = {
            "files": [each for member, scope in pairs for each in _files(month, member, scope)],
            "facts": [each for member, scope in pairs for each in self._facts(member, scope)],
            "forgotten": list(self._forgotten()),
            "teams": [each async for each in self._teams(pairs)],
            "days": [each for member, scope in pairs for each in self._days(member, scope, runs)],
            "dreams": [each for _, scope in pairs for each in self._dreams(scope, runs)],
            "slots": [*self._ticks(runs), *_without_outcome(runs)],
            "requests": month.model.leaks,
            "driver": month.faults,
        }

    # -- (2) facts

    def _facts(self, member: Member, scope: Scope) -> Iterator[str]:
        """Say which facts do not stand in exactly the place where they are expected."""
        notes = {path.name: path.read_text() for path in sorted(scope.memory_dir.glob("topic-*.md"))}
        logs = sorted((scope.memory_dir / "logs").rglob("*.md"))
        logged = Counter(mark for path in logs for mark in MARK.findall(path.read_text()))
        fates: Counter[str] = Counter()
        for fact in self.month.told.facts.values():
            if fact.owner is not member or fact.team or not fact.answered:
                continue
            here = [name for name, text in notes.items() for mark in MARK.findall(text) if mark == fact.mark]
            fates[_fate(fact)] += 1
            wanted = [] if fact.forgotten or fact.removed or not fact.note else [fact.note]
            if here != wanted:
                yield f"{_named(fact)} is in {here}, not in {wanted}"
            if wanted == here and wanted and fact.line not in notes[fact.note].splitlines():
                yield f"{_named(fact)} is not as it was told"
            times = int(fact.log and not fact.forgotten)
            if logged[fact.mark] != times:
                yield f"{_named(fact)} is {logged[fact.mark]} times in the logs, not {times}"
        for fate, number in fates.items():
            self.figures[f"facts {fate}"] = int(str(self.figures.get(f"facts {fate}", 0))) + number

    def _forgotten(self) -> Iterator[str]:
        """Say where a forgotten fact still stands, on the disk or in the database."""
        facts = [fact for fact in self.month.told.facts.values() if fact.forgotten]
        texts = {str(path.relative_to(self.month.home)): _read(path) for path in _below(self.month.home / "homes")}
        with closing(sqlite3.connect(self.month.home / "reverie.db")) as database:
            rows = list(database.iterdump())
        for fact in facts:
            yield from (f"{_named(fact)} stands in {place}" for place, text in texts.items() if fact.words in text)
            told = (row for row in rows if fact.words in row)
            yield from (f"{_named(fact)} stands in the table {row.split()[2]}" for row in told)

    # -- (3) teams

    async def _teams(self, pairs: Sequence[tuple[Member, Scope]]) -> AsyncIterator[str]:
        """Say which copies differ from their server, and which facts of a team are nowhere."""
        month = self.month
        store = TeamStore(month.core.database, clock=month.clock, limits=Limits())
        beside = Counter[str]()
        for repo in sorted({member.project for member in month.members} - {""}):
            content = await store.content(repo)
            texts = dict(content.texts) if content else {}
            scopes = [scope for member, scope in pairs if member.project == repo]
            kept = "".join(texts.values())
            for scope in scopes:
                assert scope.team_dir is not None
                copy = read_copy(scope.team_dir)
                if dict(copy.to_compare().texts) != texts:
                    yield f"the copy of {scope.principal} differs from {repo}'s server"
                lost = [text for key, text in copy.texts.items() if is_conflict_copy(key)]
                beside[repo] += len(lost)
                kept += "".join(lost)
            for fact in month.told.facts.values():
                needed = fact.team and fact.answered and not fact.removed and fact.owner.project == repo
                if needed and fact.mark not in kept:
                    yield f"{_named(fact)} is neither on the server nor in a conflict copy"
        self.figures["conflict copies"] = beside.total()

    # -- (4) slots

    def _days(self, member: Member, scope: Scope, runs: Sequence[JobRun]) -> Iterator[str]:
        """Say which local days in log mode were not closed, or not distilled, exactly once."""
        key, zone = key_of(scope), ZoneInfo(scope.timezone)
        closed, sorted_ = (_by_day(runs, job, key) for job in ("close-day", "distil"))
        wanted = self._days_in_log_mode(member, zone)
        late = max(self.month.plan.step, timedelta(minutes=30)) + _A_MOMENT
        for day in sorted({*wanted, *closed}):
            rows = closed.get(day, [])
            well = len(rows) == 1 and rows[0].outcome in {Outcome.DONE, Outcome.MISSED} and rows[0].detail
            if day not in wanted or not well:
                yield f"{scope.principal}: {day} has the closes {[(row.outcome, row.detail) for row in rows]}"
            elif not timedelta() <= self._late(member, rows[0].started_at, _clock_at(day, zone, 0)) <= late:
                yield f"{scope.principal}: {day} was closed at {rows[0].started_at}"
        nights = [day for day in wanted if day >= min(sorted_, default=date.max)]
        for day in nights:
            rows = sorted_.get(day, [])
            early = self.month.last_tick < _clock_at(day, zone, 1)
            if len(rows) != 1 - early or not all(row.detail for row in rows):
                yield f"{scope.principal}: {day} has the distillations {[(row.outcome, row.detail) for row in rows]}"
        done = [day for day, rows in sorted_.items() if rows[0].outcome is Outcome.DONE]
        waiting = [log.path.name for log in waiting_logs(scope, self.month.clock.now)]
        for name in waiting:
            if done and name[:10] <= max(done).isoformat():
                yield f"{scope.principal}: the log {name} was distilled, and waits still"
        self._count_days(closed, sorted_)

    def _count_days(self, *found: Mapping[date, Sequence[JobRun]]) -> None:
        for what, rows in zip(("days closed", "days distilled"), found, strict=True):
            for outcome in (row.outcome for each in rows.values() for row in each):
                name = f"{what}, {outcome}"
                self.figures[name] = int(str(self.figures.get(name, 0))) + 1

    def _late(self, member: Member, began: datetime, due: datetime) -> timedelta:
        """Return how long something waited that was due, without the time in which nothing ran or nobody was known.

        The last tick before a downtime falls into the moment in which that begins.
        """
        start, first = self.month.plan.start, self.month.first_turn[member.principal]
        ups = [first, *(start + at + length for at, length in self.month.plan.downtimes)]
        downs = [first - timedelta(days=2), *(start + at for at, _ in self.month.plan.downtimes)]
        return began - next((up for down, up in zip(downs, ups, strict=True) if down < due < up), due)

    def _days_in_log_mode(self, member: Member, zone: ZoneInfo) -> list[date]:
        """Work out which days had to be closed, from what the members did alone."""
        month = self.month
        began = month.first_turn.get(member.principal)
        switched = month.switched.get(member.principal)
        if began is None or not (member.log or switched):
            return []
        first = _local(began, zone) - timedelta(days=1)
        last = _local(month.last_tick, zone) - timedelta(days=1)
        if switched and member.log:
            last = min(last, _local(switched[1], zone) - timedelta(days=1))
        elif switched:
            first = _local(switched[0], zone)
        return [first + timedelta(days=n) for n in range((last - first).days + 1)]

    def _dreams(self, scope: Scope, runs: Sequence[JobRun]) -> Iterator[str]:
        """Say which dreams of a memory that ended well began less than a day after the one before."""
        mine = [run for run in runs if run.job == "dream" and run.scope == key_of(scope)]
        good = sorted(run.started_at for run in mine if run.outcome is Outcome.DONE and "not due" not in run.detail)
        for before, after in pairwise(good):
            if after - before < timedelta(hours=24):
                yield f"{scope.principal} dreamed at {before} and at {after}"
        stamp = last_consolidated(scope.memory_dir)
        if good and abs(stamp - good[-1]) > timedelta(minutes=2):
            yield f"{scope.principal} last dreamed at {good[-1]}, and its stamp says {stamp}"
        if not good and stamp != NEVER:
            yield f"{scope.principal} never dreamed, and its stamp says {stamp}"

    def _ticks(self, runs: Sequence[JobRun]) -> Iterator[str]:
        """Say how many ticks of a job that skips late ones are neither run nor recorded as missed."""
        for job in self.month.core.night.clock.jobs:
            rows = [run for run in runs if run.job == job.id]
            if job.policy is not Policy.SKIP or not rows:
                continue
            began = self.month.plan.start if job.finder is None else min(run.started_at for run in rows)
            wanted = set(_slots(job.trigger, began, self.month.last_tick))
            unaccounted = wanted - {slot for run in rows for slot in _covered(job.trigger, run.slot)}
            if unaccounted:
                yield f"{job.id}: nothing is known of {len(unaccounted)} ticks, such as {min(unaccounted)}"


def table(findings: Findings, *, wall: float) -> str:
    """Return the checks and the figures as text."""
    month = findings.month
    runs = month.figures
    lines = [
        f"seed {month.plan.seed}: {len(month.members)} principals, {month.plan.days} days from {month.plan.start:%F}"
    ]
    lines += [
        f"  {name:<12} {'right' if not wrong else f'{len(wrong)} WRONG'}" for name, wrong in findings.wrong.items()
    ]
    lines += [f"    {each}" for wrong in findings.wrong.values() for each in wrong[:5]]
    figures: dict[str, object] = {
        **{name: number for name, number in sorted(runs.items()) if not name.startswith("ms of ")},
        **dict(sorted(findings.figures.items())),
        **{f"runs, {kind}": month.model.runs(kind) for kind in ("chat", "extraction", "dream", "distil")},
        **{f"requests, {kind}": number for kind, number in sorted(month.model.requests.items())},
        **{f"model faults, {kind}": number for kind, number in sorted(month.model.faults.items())},
        "database, MB": round((month.home / "reverie.db").stat().st_size / 1e6, 1),
        "files": sum(1 for _ in _below(month.home / "homes")),
        "tokens, millions": round(month.model.tokens / 1e6, 1),
        "consolidation, p50/p95 ms": "/".join(f"{1000 * each:.0f}" for each in _quantiles(month.dream_walls)),
        "wall, s": round(wall, 1),
        "simulated/real": round((month.plan.end - month.plan.start).total_seconds() / wall),
    }
    width = max(map(len, figures))
    return "\n".join([*lines, *(f"  {name:<{width}} {figure}" for name, figure in figures.items())])


def _quantiles(walls: Sequence[float]) -> tuple[float, float]:
    if len(walls) < 2:
        return (walls or [0.0])[0], (walls or [0.0])[0]
    cuts = statistics.quantiles(walls, n=20, method="inclusive")
    return cuts[9], cuts[18]


def _files(month: Month, member: Member, scope: Scope) -> Iterator[str]:
    """Say what is wrong with the files of a home: left over, unreadable, dangling, or somebody else's."""
    yield from (f"{folder} is unfinished" for folder in journal.unfinished(scope))
    for path in _below(scope.memory_dir):
        name = path.relative_to(scope.memory_dir).as_posix()
        if path.name in _OURS:
            continue
        if not _NOTE.fullmatch(name):
            yield f"{scope.principal}: {name} is left over"
        elif path.name == INDEX:
            dangling = [to for _, to in pointers(path.read_text()) if not (path.parent / to).is_file()]
            yield from (f"{scope.principal}: {name} points to {to}" for to in dangling)
        elif not name.startswith("logs/") and not is_conflict_copy(name) and not parse(path.read_text())[0].get("name"):
            yield f"{scope.principal}: {name} has no head"
    listed = {to for _, to in pointers(_read(scope.memory_dir / INDEX))}
    unlisted = {path.name for path in scope.memory_dir.glob("topic-*.md")} - listed
    yield from (f"{scope.principal}: {name} is in no index" for name in sorted(unlisted))
    for path in _below(scope.memory_dir.parents[2]):
        marks = {mark for mark in MARK.findall(_read(path)) if mark in month.told.facts}
        for fact in (month.told.facts[mark] for mark in marks):
            team = fact.team and fact.owner.project == member.project
            if fact.owner is not member and not team:
                yield f"{scope.principal}: {path.name} holds {_named(fact)}"


def _without_outcome(runs: Sequence[JobRun]) -> list[str]:
    return [f"{run.job} of {run.scope} at {run.slot} has no outcome" for run in runs if run.outcome is None]


def _by_day(runs: Sequence[JobRun], job: str, key: str) -> dict[date, list[JobRun]]:
    found: defaultdict[date, list[JobRun]] = defaultdict(list)
    for run in runs:
        if run.job == job and run.scope == key and not run.slot.startswith("look at"):
            found[date.fromisoformat(run.slot.partition(" ")[0])].append(run)
    return dict(found)


def _slots(trigger: Every, first: datetime, last: datetime) -> Iterator[str]:
    at = trigger.latest(first)
    while at.at <= last:
        yield at.slot
        at = trigger.latest(trigger.following(at.at))


def _covered(trigger: Every, slot: str) -> Iterator[str]:
    first, _, last = slot.partition(" to ")
    return _slots(trigger, datetime.fromisoformat(first), datetime.fromisoformat(last or first))


def _local(moment: datetime, zone: ZoneInfo) -> date:
    return moment.astimezone(zone).date()


def _clock_at(day: date, zone: ZoneInfo, hour: int) -> datetime:
    """Return the moment at which the clock shows a full hour on the morning after a day."""
    after = day + timedelta(days=1)
    return datetime(after.year, after.month, after.day, hour, tzinfo=zone).astimezone(UTC)


def _fate(fact: Fact) -> str:
    if fact.forgotten:
        return "forgotten"
    return "removed by dreams" if fact.removed else "kept" if fact.note else "still in a log"


def _named(fact: Fact) -> str:
    return f"{fact.mark} of {fact.owner.principal}, told at {fact.told_at:%m-%d %H:%M}"


def _below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _read(path: Path) -> str:
    return path.read_text(errors="replace") if path.is_file() else ""
