"""How a turn or an extraction writes into T: signed, and from a private chat only after the person was asked."""

from collections.abc import Callable, Sequence
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from adapters.base import Account, Address, Inbound
from gateway.buttons import Buttons
from gateway.db.engine import Database
from gateway.outbox import Outbox, Post, unrendered
from gateway.previews import answers, question
from gateway.staging import Origin, Staging
from memory.authorship import Byline, byline
from memory.facts import facts
from memory.notes import Watch
from memory.provenance import Spoken, fact_hash, origin
from memory.scope import Scope
from memory.settings import MemorySettings
from memory.team_notes import Authors, TeamNotes


class TeamWrites:
    """Hands out the notes of a run, and asks the person of what it has staged."""

    def __init__(
        self,
        notes: TeamNotes,
        staging: Staging,
        database: Database,
        outbox: Outbox,
        settings: MemorySettings,
        *,
        buttons: Buttons,
    ) -> None:
        self._notes = notes
        self._staging = staging
        self._database = database
        self._outbox = outbox
        self._settings = settings
        self._buttons = buttons

    def signed(self, authors: Authors) -> TeamNotes:
        """Return the notes of a run that may write into T without asking."""
        return self._notes.signed(authors)

    def drafts(self, scope: Scope, origin: Origin, authors: Authors, *, watch: Watch) -> TeamNotes | None:
        """Return the notes that stage what a run writes into T; None where there is nothing to ask, or nobody.

        `watch` may refuse a change before it is staged.
        """
        if not self._asks(scope):
            return None
        shelf = self._staging.shelf(scope, origin)
        return self._notes.signed(authors).staged(shelf, watch=watch)

    def _asks(self, scope: Scope) -> bool:
        asks = self._settings.team_writes == "ask" and not scope.shared
        return asks and scope.enabled and scope.team_dir is not None

    async def ask(
        self,
        session: AsyncSession,
        scope: Scope,
        conversation: str,
        *,
        run: str,
        key: str,
        only_for: Account | None = None,
    ) -> None:
        """Number what a run has staged and put the question into the outbox, inside the caller's transaction.

        So it is asked once, and whatever was staged is asked of. `key` names the run among posts. The outbox is for
        the caller to wake. Where nothing can be staged nothing is looked up, and where nothing is no row is locked.
        """
        if not self._asks(scope) or not await self._staging.has_drafts(session, scope):
            return
        staged = await self._staging.settle(session, scope, run)
        if staged:
            address = Address.parse(conversation)
            accounts = {Account.parse(each.account) for each in staged}
            offer = self._buttons.offer(
                answers(staged),
                principal=scope.principal,
                conversation=address,
                accounts=accounts,
                alone=only_for is not None,
            )
            offer.keep(session)
            part = unrendered(question(staged, project=scope.project), offer.buttons)
            post = Post(
                key=f"{key}-{staged[0].number}",
                principal=scope.principal,
                address=address,
                part=part,
                only_for=only_for,
            )
            await self._outbox.enqueue(session, [post])

    async def ask_now(self, scope: Scope, conversation: str, *, run: str, key: str) -> None:
        """Do the same in a transaction of its own."""
        async with self._database.write() as session:
            await self.ask(session, scope, conversation, run=run, key=key)
        self._outbox.wake()


def turn_run(inbox_id: int) -> str:
    """Return the name of a turn's run; a rerun after a crash has the same."""
    return f"turn:{inbox_id}"


def of_sender(inbound: Inbound, scope: Scope) -> Callable[[str, str], Sequence[Byline]]:
    """Return the authors of what a turn writes: whoever has asked for it."""
    author = byline(
        account=str(inbound.account),
        name=inbound.name,
        chat=_kind(scope),
        message=inbound.message_id,
        at=inbound.sent_at,
    )
    return lambda before, after: [author]


def of_speakers(heard: Sequence[Spoken], scope: Scope) -> Callable[[str, str], Sequence[Byline]]:
    """Return the authors of what an extraction writes: of each new fact, who has said it as far as that is known."""

    def authors(before: str, after: str) -> Sequence[Byline]:
        known = set(map(fact_hash, facts(before)))
        new = [fact for fact in facts(after) if fact_hash(fact) not in known]
        said = [found for fact in new if isinstance(found := origin(fact, gone=(), heard=heard), Spoken)]
        if not said and len({each.account for each in heard}) == 1:
            said = [heard[-1]]
        return [_author(each.account, each.speaker, scope, each.at) for each in said if each.account]

    return authors


def _author(account: str, name: str, scope: Scope, at: datetime) -> Byline:
    return byline(account=account, name=name, chat=_kind(scope), message="", at=at)


def _kind(scope: Scope) -> str:
    return "shared" if scope.shared else "private"
