"""What stored conversations lose when something is forgotten: words, prompts, and the traces in the lines of posts.

A session of which nothing is due has no reader any more, once it has ended: it loses its prompt and the transcript as
it stood in requests, and keeps what was said. One of which something is due keeps all that tells nothing.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anyio import to_thread
from sqlalchemy import ColumnElement, String, cast, delete, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from gateway.db.marks import inbox_id
from gateway.db.models import (
    DirectWriteRow,
    DueRow,
    FactRow,
    ForgetOfferRow,
    InboxRow,
    MessageRow,
    OutboxRow,
    SessionRow,
    ShownRow,
)
from gateway.db.payloads import wordless, words_beside, words_in
from gateway.db.redaction import blank, redacted, texts_in
from gateway.db.rows import of_scope, some
from gateway.db.sessions import end
from memory.gone import Gone
from memory.index import without
from memory.paths import TEAM
from memory.prompt_sections import SHARED_TAG
from memory.redaction import index_without
from memory.scope import Scope

_OVER = ("done", "dead", "refused")
_POSTED = ("sent", "dead")
_ANSWER = re.compile(r"\d+:")
"""What the key of a turn's own answer begins with, unlike that of a question or notice which goes with it."""
_OWN_INDEX = re.compile(
    r"(^## The index: `[^`\n]*`\n\n)(.*?)(?=\n\n## The team's index: |\Z)", re.DOTALL | re.MULTILINE
)
_TEAM_INDEX = re.compile(rf"(?<=<{SHARED_TAG}>\n).*?(?=\n</{SHARED_TAG}>)", re.DOTALL)
"""The indexes within a prompt, as `memory.prompt.memory_prompt` puts them there; that of T without its tags."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Traces:
    """Rows that hold words of it which no transcript has: commands, their answers, notices, what a message answers."""

    inbox: Collection[int]
    outbox: Collection[int]


class Clearing:
    """Clears the stored conversations of one memory of what is forgotten, inside the caller's transaction.

    `names` are notes, relative to the memory directory, whose names tell it.
    """

    def __init__(self, scope: Scope, what: Gone, *, names: Collection[str] = ()) -> None:
        self._scope = scope
        self._what = what
        self._names = frozenset(names)
        self._mine = of_scope(SessionRow, scope)

    async def traces(self, session: AsyncSession) -> Traces:
        """Return the traces in what is over and posted; looked for before the transaction, as it takes a while."""
        of_turns = select(MessageRow.inbox_id).where(
            MessageRow.principal == self._scope.principal, MessageRow.inbox_id.is_not(None)
        )
        turns = set((await session.scalars(of_turns.distinct())).all())
        came = (InboxRow.principal == self._scope.principal, InboxRow.state.in_(_OVER))
        messages = (await session.scalars(select(InboxRow.id).where(*came))).all()
        went = select(OutboxRow.id, OutboxRow.key).where(
            OutboxRow.principal == self._scope.principal, OutboxRow.state.in_(_POSTED)
        )
        posts = {
            row.id
            for row in (await session.execute(went)).all()
            if inbox_id(row.key) not in turns or not _ANSWER.match(row.key)
        }
        inbox, outbox = set[int](), set[int]()
        for ids in some(messages):
            said = select(InboxRow.id, InboxRow.payload).where(InboxRow.id.in_(ids))
            texts = {
                one: list(words_beside(payload) if one in turns else words_in(payload))
                for one, payload in (await session.execute(said)).all()
            }
            inbox |= await to_thread.run_sync(self._betraying, texts)
        for ids in some(posts):
            shown = select(OutboxRow.id, OutboxRow.part).where(OutboxRow.id.in_(ids))
            texts = {one: list(texts_in(part)) for one, part in (await session.execute(shown)).all()}
            outbox |= await to_thread.run_sync(self._betraying, texts)
        return Traces(inbox=inbox, outbox=outbox)

    async def end_sessions(self, session: AsyncSession, messages: Collection[int]) -> None:
        """End all sessions of the memory; what is due of them is left without what tells it."""
        waiting = select(DueRow.session_id)
        for row in await _with_something_left(session, self._mine):
            if not row.ended:
                await end(session, row)
            row.system = await to_thread.run_sync(_with_texts, row.system, self._left_of_prompt)
            await _redact(session, row, self._tells, words=self._scope.shared, besides=messages)
        await session.flush()
        over = select(SessionRow.id).where(*self._mine, SessionRow.ended, SessionRow.id.not_in(waiting))
        prompts = update(SessionRow).where(SessionRow.id.in_(over), cast(SessionRow.system, String) != "[]")
        transcripts = update(MessageRow).where(
            MessageRow.session_id.in_(over), cast(MessageRow.content, String) != "[]"
        )
        for emptied in (prompts.values(system=[]), transcripts.values(content=[])):
            await session.execute(emptied.execution_options(synchronize_session=False))

    async def blank(self, session: AsyncSession, messages: Collection[int], traces: Traces) -> None:
        """Take the words from these messages, from what came and was posted for them, and from the traces."""
        inbox, outbox = set(traces.inbox), set(traces.outbox)
        for ids in some(messages):
            stored = MessageRow.id.in_(ids)
            inbox.update(filter(None, (await session.scalars(select(MessageRow.inbox_id).where(stored))).all()))
            await session.execute(update(MessageRow).where(stored).values(content=blank(), said=""))
        keys = select(OutboxRow.id, OutboxRow.key).where(
            OutboxRow.principal == self._scope.principal, OutboxRow.state.in_(_POSTED)
        )
        outbox.update(row.id for row in (await session.execute(keys)).all() if inbox_id(row.key) in inbox)
        for ids in some(inbox):
            over = select(InboxRow).where(InboxRow.id.in_(ids), InboxRow.state.in_(_OVER))
            for row in (await session.scalars(over)).all():
                row.payload = wordless(row.payload)
        for ids in some(outbox):
            posted = (OutboxRow.id.in_(ids), OutboxRow.state.in_(_POSTED))
            await session.execute(update(OutboxRow).where(*posted).values(part={}))
        await self._unname(session)

    async def _unname(self, session: AsyncSession) -> None:
        """Take the notes' names from where they tell what was shown or written."""
        mine = select(SessionRow.id).where(*self._mine)
        paths = [str(self._scope.memory_dir / name) for name in self._names]
        await _unshow(session, self._mine, self._names)
        await session.execute(
            delete(DirectWriteRow).where(DirectWriteRow.session_id.in_(mine), DirectWriteRow.path.in_(paths))
        )

    async def leave_team(self, session: AsyncSession, principal: str, team: Gone) -> None:
        """End those sessions of another principal of the project that were shown what stood in the team's notes.

        One in which a turn is under way ends too, and that turn is not carried on: it may have read them by a tool.
        What people said there before stays, and so do their own notes.
        """
        names = [name for name in self._names if name.startswith(f"{TEAM}/")]

        def tells(text: str) -> bool:
            return any(name in text for name in names) or team.told_in(text)

        def clear(index: str) -> str:
            return _without_told(_left_of_index(index, team, team.same, folder=f"{TEAM}/"), team)

        mine = (SessionRow.principal == principal, SessionRow.project == self._scope.project)
        running = select(InboxRow.conversation).where(InboxRow.principal == principal, InboxRow.state == "claimed")
        await _unshow(session, mine, names)
        under_way = (*mine, ~SessionRow.ended, SessionRow.conversation.in_(running))
        await session.execute(update(SessionRow).where(*under_way).values(ended=True))
        await _end_those_shown(session, mine, clear, tells)

    def _betraying(self, texts: Mapping[int, Sequence[str]]) -> set[int]:
        return {one for one, found in texts.items() if any(map(self._what.hinted_in, found))}

    def _tells(self, text: str) -> bool:
        """Return whether what may still be extracted tells it, be it by one word that no fact has which stays."""
        return any(name in text for name in self._names) or self._what.hinted_in(text)

    def _left_of_prompt(self, text: str) -> str:
        """Return a prompt with its indexes as they are left on disk, and without all other lines that tell it."""
        drop = self._what.same if self._scope.shared else self._what.betrays
        text = _OWN_INDEX.sub(lambda found: found[1] + _left_of_index(found[2], self._what, drop), text)
        text = _TEAM_INDEX.sub(lambda found: _left_of_index(found[0], self._what, drop, folder=f"{TEAM}/"), text)
        return _without_told(text, self._what)


async def end_those_shown(session: AsyncSession, scope: Scope, names: frozenset[str]) -> None:
    """End the sessions of this memory that were shown these notes of T, by the index or since."""
    keys = [f"{TEAM}/{name}" for name in names]

    def tells(text: str) -> bool:
        return any(key in text for key in keys)

    def clear(index: str) -> str:
        return without(index, lambda _, target: target in names)

    await _end_those_shown(session, of_scope(SessionRow, scope), clear, tells)


async def _end_those_shown(
    session: AsyncSession,
    mine: Sequence[ColumnElement[bool]],
    clear: Callable[[str], str],
    tells: Callable[[str], bool],
) -> None:
    def in_team_index(text: str) -> str:  # another index in a prompt is its owner's
        return _TEAM_INDEX.sub(lambda found: clear(found[0]), text)

    for row in await _with_something_left(session, mine):
        system = await to_thread.run_sync(_with_texts, row.system, in_team_index)
        changed = await _redact(session, row, tells, words=True)
        if not changed and system == row.system:
            continue
        row.system = system
        if not row.ended:
            await end(session, row)


async def _with_something_left(session: AsyncSession, mine: Sequence[ColumnElement[bool]]) -> Sequence[SessionRow]:
    """Return the sessions that are open, or of which something is due."""
    left = or_(~SessionRow.ended, SessionRow.id.in_(select(DueRow.session_id)))
    in_order = select(SessionRow).where(*mine, left).order_by(SessionRow.id)
    return (await session.scalars(in_order.with_for_update())).all()


async def _redact(
    session: AsyncSession,
    row: SessionRow,
    tells: Callable[[str], bool],
    *,
    words: bool,
    besides: Collection[int] = (),
) -> bool:
    """Take out of a session's messages what tells it, and return whether there was any.

    If `words`, what people said stays. `besides` are messages that are blanked anyway.
    """
    stored = select(MessageRow).where(MessageRow.session_id == row.id).order_by(MessageRow.id)
    messages = [each for each in (await session.scalars(stored)).all() if each.id not in set(besides)]
    kept = [1 if words and each.role == "user" and each.said else 0 for each in messages]

    def left() -> list[tuple[list[dict[str, Any]], str]]:
        contents = redacted([each.content for each in messages], tells, words=kept)
        said = ["" if not keep and tells(each.said) else each.said for each, keep in zip(messages, kept, strict=True)]
        return list(zip(contents, said, strict=True))

    changed = False
    for message, (content, said) in zip(messages, await to_thread.run_sync(left), strict=True):
        if (content, said) != (message.content, message.said):
            message.content, message.said, changed = content, said, True
    return changed


async def _unshow(session: AsyncSession, mine: Sequence[ColumnElement[bool]], names: Collection[str]) -> None:
    sessions = select(SessionRow.id).where(*mine)
    await session.execute(delete(ShownRow).where(ShownRow.session_id.in_(sessions), ShownRow.name.in_(names)))


async def drop_sources(
    session: AsyncSession, principal: str, project: str, facts: Collection[str], *where: ColumnElement[bool]
) -> None:
    """Drop the record of who said these facts, given by hash."""
    mine = (FactRow.principal == principal, FactRow.project == project, *where)
    for hashes in some(sorted(facts)):
        await session.execute(delete(FactRow).where(*mine, FactRow.fact_hash.in_(hashes)))


async def withdraw_offers(
    session: AsyncSession, scope: Scope, *, names: Collection[str], hashes: Collection[str]
) -> None:
    """Take the names from what is offered to be forgotten, of these notes and of what is none but these facts."""

    def tells(item: Mapping[str, Any]) -> bool:
        found = {item["hash"]} if item["hash"] else set(item.get("facts", ()))
        return item["note"] in names or bool(found and found.issubset(hashes))

    for offer in (await session.scalars(select(ForgetOfferRow).where(*of_scope(ForgetOfferRow, scope)))).all():
        offer.items = [each | {"note": ""} if tells(each) else each for each in offer.items]


def _with_texts(system: list[dict[str, Any]], change: Callable[[str], str]) -> list[dict[str, Any]]:
    return [{**block, "text": change(block["text"])} if "text" in block else block for block in system]


def _left_of_index(index: str, what: Gone, drop: Callable[[str], bool], *, folder: str = "") -> str:
    def kept(name: str) -> str | None:
        return None if name in what.notes or what.betrays(name.removeprefix(folder)) else name

    return index_without(index, what.betrays, names=kept, folder=folder, drop=drop)


def _without_told(text: str, what: Gone) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if not (line.strip() and what.tells(line.rstrip("\r\n"))))
