"""One extraction run made ready: what it is told, what its fork works with, and what sees it write."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial

from anyio import to_thread

from adapters.base import Account
from gateway.agent.fork import Equipment
from gateway.history import Due, Session
from gateway.provenance import Provenance
from gateway.staging import Origin
from gateway.team_writes import TeamWrites, of_speakers
from gateway.tools.guard import author_guard
from memory.authorship import Byline
from memory.citations import Citations
from memory.extract import Pending
from memory.extraction_witness import ExtractionWitness
from memory.facts import facts, facts_of
from memory.notes import Notes, Watch
from memory.prompt import NOTE_BYTES, read_text
from memory.provenance import Erased, Spoken
from memory.scope import Scope
from memory.team_notes import Authors, TeamNotes


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtractionRun:
    """A run that may begin; `heard` is what humans said in its messages, and `name` the run among all runs."""

    name: str
    pending: Pending
    heard: Sequence[Spoken]
    witness: ExtractionWitness
    equipment: Equipment


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtractionRuns:
    """Makes runs ready; without `team_writes` they write into T unsigned, and stage nothing."""

    provenance: Provenance
    owners: Collection[Account]
    team_writes: TeamWrites | None

    async def run(self, scope: Scope, due: Due, session: Session, pending: Pending, *, erased: Erased) -> ExtractionRun:
        """Return the run that takes up what is due; it writes no more once `erased` says so."""
        name = f"extract:{due.session_id}:{due.upto}"
        heard = await self.provenance.heard(session.id, principal=session.principal, upto=due.upto)
        citations = Citations(heard, timezone=scope.timezone)
        if heard:
            told = citations.told(shared=scope.shared)
            pending = replace(pending, said_between=(heard[0].at, heard[-1].at), heard=told)
        shown = await to_thread.run_sync(_shown, scope, session)
        witnessed = partial(ExtractionWitness, citations, shown=shown, erased=erased)

        async def hears() -> Sequence[Spoken]:
            return heard

        witness = witnessed(keep=partial(self.provenance.keep, scope, hears))
        drafted = witnessed()
        guard = author_guard(
            scope,
            self.provenance.sources,
            speakers={spoken.account for spoken in heard},
            owners=self.owners,
            replaces=citations.replaced_by,
        )
        notes, drafts = self._team(scope, session, citations, name, drafted)
        equipment = Equipment(watches=(witness,), guard=guard, notes=notes, drafts=drafts, taken=citations.taken)
        return ExtractionRun(name=name, pending=pending, heard=heard, witness=witness, equipment=equipment)

    def _team(
        self, scope: Scope, session: Session, citations: Citations, run: str, watch: Watch
    ) -> tuple[Notes | None, TeamNotes | None]:
        """Return what a run writes and stages with."""
        heard = citations.heard
        if self.team_writes is None or not heard or not heard[-1].account:
            return None, None
        last, authors = heard[-1], _authors(citations, scope)
        origin = Origin(
            run=run,
            conversation=session.conversation,
            account=Account.parse(last.account),
            speaker=last.speaker,
            message_id=last.message_id,
        )
        return self.team_writes.signed(authors), self.team_writes.drafts(scope, origin, authors, watch=watch)


def _authors(citations: Citations, scope: Scope) -> Authors:
    """Return the authors of what a run writes: the sources of its new facts, as far as these are known."""

    def authors(before: str, after: str) -> Sequence[Byline]:
        there = frozenset(facts(before))
        new = dict.fromkeys(fact for fact in facts(after) if fact not in there)
        said = [each for fact in new if isinstance(each := citations.origin(fact, gone=()), Spoken)]
        known = [by for each in said for by in of_speakers([each], scope)(before, after)[:1]]
        return known or of_speakers(citations.heard, scope)(before, after)

    return authors


def _shown(scope: Scope, session: Session) -> list[str]:
    """Return the facts of the notes that recall has shown in a session; blocking."""
    paths = (scope.memory_dir / name for name in session.shown.names if name.endswith(".md"))
    inside = (path for path in paths if path.is_relative_to(scope.memory_dir))  # rules of a project are shown too
    texts = ((path.name, read_text(scope.memory_dir, path, limit=NOTE_BYTES)) for path in inside)
    return [fact for name, text in texts for fact in facts_of(text, name)]
