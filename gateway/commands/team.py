"""/team: what the project's team shares here, what waits to be shared, and whether it reaches the others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from gateway.commands.proposals import ProposalCommand
from gateway.commands.table import Asked, Handler, Reply
from gateway.previews import answers, how_to_answer, one_by_one, preview, whole
from gateway.provenance import Provenance
from gateway.publishing import Answered, Publishing, answered_before
from gateway.settings import ProjectSettings, Settings
from gateway.staging import Staged, Staging
from gateway.team_exchanges import OWN, Exchange, TeamExchanges, code, conflict_of, why_resting
from gateway.team_writes import turn_run
from memory.authorship import Byline, bylines
from memory.errors import MemoryFault
from memory.facts import facts_of
from memory.freshness import age_days, age_words
from memory.notes import Notes
from memory.paths import TEAM
from memory.ports import Clock
from memory.provenance import fact_hash
from memory.scan import NoteHeader, Scans
from memory.scope import Part, Scope
from memory.team.audit import Audit, Entry
from memory.team.local import Skip, is_conflict_copy
from memory.team.report import SyncReport
from scheduler.board import Board, how, local
from scheduler.slots import key_of

PER_PAGE = 15
"""How many notes `/team who` shows at once."""
_LISTED = 20
_KEYS = 5
_PER_ANSWER = 20
_RUNS = 50
_USAGE = (
    "`/team` shows how team memory stands, `/team who` who wrote what in it, `/team sync` brings it in line with the "
    "others now, `/team audit` shows owners who has changed it on the server. What waits to be shared: `/team show 1` "
    "shows it, `/team yes 1` shares it, `/team no 1` drops it; several numbers, or `all`, do as well."
)
_NOT_YOURS = "Only an owner of this bot can see who has changed the team's memory."
_ELSEWHERE = "This gateway does not keep the team's memory: who has changed it is on record with the server that does."
_DIRECT = "In this chat team memory is written directly: nothing waits for a word here."
_OFF = "Writing into team memory from private chats is switched off by now. It waits; say it in a chat of the project."


@dataclass(frozen=True, kw_only=True)
class TeamCommand:
    """The handler and what it works on, all of it within the asker's scope."""

    settings: Settings
    staging: Staging
    publishing: Publishing
    sync: TeamExchanges
    board: Board
    scanner: Scans
    provenance: Provenance
    notes: Notes
    proposals: ProposalCommand
    clock: Clock
    audit: Audit | None = None

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """The handlers by name."""
        return {"team": self.team}

    async def team(self, asked: Asked) -> Reply:
        """Show how team memory stands, or do what the first word says."""
        if self.proposals.means(asked):
            return await self.proposals.answer(asked)
        scope = asked.scope
        words = asked.arguments.replace("`", "").replace(",", " ").lower().split()
        drops = words[:1] == ["no"] and not scope.shared  # whoever may see the team's notes no more may still do that
        if (scope.team_dir is None or not scope.enabled) and not drops:
            return Reply(text=await self._why_none(asked))
        match words:
            case []:
                return await self._status(scope)
            case ["who"]:
                text = await self._who(scope, 1)
            case ["who", page] if page.isdecimal() and 0 < int(page) < 1_000_000:
                text = await self._who(scope, int(page))
            case ["sync"]:
                text = _synced(await self.publishing.tell_server(scope), self._rests(scope))
            case ["audit"]:
                text = await self._audit(asked)
            case [("yes" | "no" | "show") as word, *numbers] if numbers:
                run = turn_run(asked.claim.id)
                return Reply(text=_DIRECT) if scope.shared else await self._answer(scope, word, numbers, run=run)
            case _:
                text = _USAGE
        return Reply(text=text)

    async def _why_none(self, asked: Asked) -> str:
        scope, address = asked.scope, asked.claim.inbound.address
        waits = 0 if scope.shared or not scope.project else len(await self.staging.pending(scope))
        kept = f" What waits to be shared ({waits}) is kept till then." if waits else ""
        if not scope.enabled:
            return f"Memory is switched off here, and the team's with it.{kept}"
        if not scope.project:
            return (
                "This chat belongs to no project, so it has no team memory. Whoever runs this bot can bind it in "
                f'`reverie.toml`:\n\n```toml\n[projects.NAME]\nchats = ["{address.whole_chat}"]\n'
                f'members = ["{asked.claim.inbound.account}"]\n```'
            )
        if scope.leaves_out(Part.TEAM):
            return f"Somebody here has opted out of team memory: `/status` says in which file.{kept}"
        if not self.settings.memory.team_memory_enabled:
            return f"Team memory is switched off on this gateway (`team_memory_enabled`).{kept}"
        return (
            f"`{asked.claim.inbound.account}` is not among the `members` of the project `{scope.project}`, so its team "
            f"memory is not to be seen here.{kept}"
        )

    # -- what waits

    async def _answer(self, scope: Scope, word: str, words: Sequence[str], *, run: str) -> Reply:
        if words == ["all"]:
            numbers = await self.staging.all_for(scope, run)
        elif all(each.isascii() and each.isdigit() and len(each) < 7 for each in words):
            numbers = list(dict.fromkeys(map(int, words)))
        else:
            return Reply(text=_USAGE)
        if not numbers:
            return Reply(text="Nothing waits to be shared.")
        if word == "show":
            return await self._show(scope, numbers[:_PER_ANSWER])
        if word == "no":
            text = _told([await self.publishing.discard(scope, number) for number in numbers])
        elif self.settings.memory.team_writes == "off":
            return Reply(text=_OFF)
        else:
            text = await self._share(scope, numbers)
        return Reply(text=text, choices=one_by_one(await self.staging.pending(scope)))

    async def _show(self, scope: Scope, numbers: Sequence[int]) -> Reply:
        text = "\n\n".join([await self._shown(scope, number) for number in numbers])
        waits = [each for each in await self.staging.pending(scope) if each.number in numbers]
        return Reply(text=text, choices=answers(waits) if len(waits) == 1 else one_by_one(waits))

    async def _shown(self, scope: Scope, number: int) -> str:
        staged = await self.staging.of(scope, number)
        if staged is None or staged.state != "pending":
            return f"**{number}.** {answered_before(number, staged).told}"
        return f"{whole(staged)}\n\n{how_to_answer([number])}"

    async def _share(self, scope: Scope, numbers: Sequence[int]) -> str:
        done = [await self.publishing.share(scope, number) for number in numbers]
        parts = [_told(done)]
        parts += [preview(each.anew) for each in done if each.anew is not None]
        again = [each.anew.number for each in done if each.anew is not None]
        parts += [how_to_answer(again)] if again else []
        shared = [each for each in done if each.shared]
        if shared:
            parts.append(await self.publishing.reached(scope, shared))
        return "\n\n".join(parts)

    def _rests(self, scope: Scope) -> str:
        """Return why nothing is pushed; empty if it is."""
        rest = self.sync.resting(scope)
        return why_resting(rest, scope.timezone) if rest is not None else ""

    # -- how it stands

    async def _status(self, scope: Scope) -> Reply:
        project = self.settings.projects.get(scope.project, ProjectSettings())
        found = [each.name.removeprefix(f"{TEAM}/") for each in await self.scanner.scan(scope) if each.team]
        conflicts = sorted(filter(is_conflict_copy, found))
        lines = [
            f"**Team memory of `{scope.project}`**",
            f"- Chats: {len(project.chats)}; members who may see it in private: {len(project.members)}",
            f"- Notes: {len(found) - len(conflicts)}; `/team who` shows who wrote them",
            *await self._exchange(scope),
            *_conflicts(conflicts),
            self._how_written(scope),
        ]
        waits = [] if scope.shared else await self.staging.pending(scope)
        text = "\n".join(lines) + (f"\n\n{_waiting(waits, scope.timezone)}" if waits else "")
        return Reply(text=text, choices=one_by_one(waits))

    def _how_written(self, scope: Scope) -> str:
        how = {
            "ask": "what is meant for the team waits for your word",
            "direct": "what is meant for the team is shared at once",
            "off": "team memory can only be read",
        }
        return "- Here: written directly" if scope.shared else f"- Here: {how[self.settings.memory.team_writes]}"

    async def _exchange(self, scope: Scope) -> list[str]:
        last, rests = self.sync.last(scope), self._rests(scope)
        found = (*(await self.sync.state(scope)).refused, *(last.skipped if last is not None else ()))
        stays = _stayed(list(dict.fromkeys(found)), indent="  ")
        pushes = [f"- **Nothing is pushed for now**: {rests}"] if rests else []
        return [f"- Last exchange: {await self._last(scope, last)}", *stays, *pushes]

    async def _last(self, scope: Scope, last: Exchange | None) -> str:
        if last is not None:
            return f"{local(last.at, scope.timezone)}, {last.told}"
        status = await self.board.of("team-sync", limit=_RUNS)
        run = next((run for run in status.last if run.scope == key_of(scope)), None)
        if run is None:
            return "none yet; `/team sync` makes one now"
        return f"{local(run.started_at, scope.timezone)}, {how(run, now=self.clock())}"

    # -- who has changed it on the server

    async def _audit(self, asked: Asked) -> str:
        if asked.claim.inbound.account not in self.settings.access.owners:
            return _NOT_YOURS
        if self.audit is None or self.settings.memory.team_server_url is not None:
            return _ELSEWHERE
        found = await self.audit.newest(asked.scope.repo, limit=_LISTED)
        lines = [f"- {_entry(each, asked.scope.timezone)}" for each in found]
        return "\n".join(lines) or "Nobody has changed the team's memory, and nobody was turned away."

    # -- who wrote what

    async def _who(self, scope: Scope, page: int) -> str:
        notes = [each for each in await self.scanner.scan(scope) if each.team and not is_conflict_copy(each.name)]
        notes.sort(key=lambda each: each.name)
        there = notes[(page - 1) * PER_PAGE : page * PER_PAGE]
        if not there:
            return "There is no note of the team here." if page == 1 else f"There is no page {page}."
        serves = self.audit is not None and self.settings.memory.team_server_url is None
        writers = await self.audit.writers(scope.repo) if self.audit is not None and serves else {}
        lines = [await self._line(scope, each, writers) for each in there]
        more = f"\n\n`/team who {page + 1}` shows more." if len(notes) > page * PER_PAGE else ""
        return "\n".join(lines) + more

    async def _line(self, scope: Scope, header: NoteHeader, writers: Mapping[str, str]) -> str:
        """Return who wrote a note: on record here, or by what the note says, which whoever sent it could write."""
        try:
            text = (await self.notes.read(scope, header.path)).text
        except MemoryFault as error:
            return f"- `{code(header.name)}`: it can't be read: {error}"
        found = await self.provenance.sources(scope, map(fact_hash, facts_of(text)))
        said = {each.account: f"{each.speaker} ({each.account})" for sources in found.values() for each in sources}
        authors = [_author(each, on_record=each.account in said) for each in bylines(text)]
        authors = authors or [f"`{code(each)}`" for each in said.values()] or ["unknown who wrote it"]
        writer = writers.get(header.name.removeprefix(f"{TEAM}/"), OWN)
        authors += [f"put on the server by `{code(writer)}`"] if writer != OWN else []
        when = age_words(age_days(header.mtime, self.clock().timestamp()))
        return f"- `{code(header.name)}` (changed {when}): {'; '.join(authors)}"


def _author(byline: Byline, *, on_record: bool) -> str:
    source = f", {code(byline.source)}" if byline.source else ""
    return f"{'' if on_record else 'it says '}`{code(byline.author)}{source}`"


def _told(done: Sequence[Answered]) -> str:
    return "\n".join(f"**{each.number}.** {each.told}" for each in done)


def _waiting(waits: Sequence[Staged], timezone: str) -> str:
    since = [local(datetime.fromtimestamp(each.at, UTC), timezone) for each in waits[:_LISTED]]
    lines = [f"{each.number}. `{code(each.name)}`, since {at}" for each, at in zip(waits, since, strict=False)]
    more = [f"… and {len(waits) - _LISTED} more"] if len(waits) > _LISTED else []
    answer = how_to_answer([each.number for each in waits])
    return "\n".join(["**Waits for your word** (only you see it):", "", *lines, *more, "", answer])


def _conflicts(names: Sequence[str]) -> list[str]:
    if not names:
        return ["- Conflicts: none"]
    lines = [f"  - `{code(name)}`, beside `{code(conflict_of(name))}`" for name in names[:_LISTED]]
    more = [f"  - … and {len(names) - _LISTED} more"] if len(names) > _LISTED else []
    head = f"- Conflicts: {len(names)}. Two sides changed a note; the server's text has its name, yours is kept beside:"
    return [head, *lines, *more]


def _stayed(skips: Sequence[Skip], *, indent: str = "") -> list[str]:
    lines = [f"{indent}- `{code(skip.key)}` stayed: {skip.reason}" for skip in skips[:_LISTED]]
    return [*lines, f"{indent}- … and {len(skips) - _LISTED} more"] if len(skips) > _LISTED else lines


def _entry(entry: Entry, timezone: str) -> str:
    when = local(entry.at, timezone) if entry.at is not None else ""
    who = f"`{code(entry.who)}`" if entry.who else "somebody without a known token"
    if entry.status != 200:
        return f"{when}, {who}: {entry.method} refused ({entry.status})"
    done = [f"wrote {_keys(entry.written)}"] if entry.written else []
    done += [f"deleted {_keys(entry.deleted)}"] if entry.deleted else []
    return f"{when}, {who}: {'; '.join(done) or 'changed nothing'}"


def _keys(keys: Sequence[str]) -> str:
    more = f" and {len(keys) - _KEYS} more" if len(keys) > _KEYS else ""
    return ", ".join(f"`{code(key)}`" for key in keys[:_KEYS]) + more


def _synced(report: SyncReport | None, rests: str) -> str:
    if report is None:
        return "An exchange is under way or takes long; `/team` shows in a minute how it went."
    if report.failure is not None:
        return f"The server could not be reached as it should: {report.failure}. What is shared here stays, and waits."
    stayed = "".join(f"\n{line}" for line in _stayed(report.skipped))
    if rests:
        return f"Asked the server: {report.counts()}.{stayed}\n**Nothing is pushed for now**: {rests}."
    return f"In line with the server: {report.counts()}.{stayed}"
