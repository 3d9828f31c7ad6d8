"""Sharing with a team what a person has confirmed, and not before.

That it was confirmed is noted before anything is written, so that nobody drops it meanwhile. The note goes first, then
its line in the index, then who said it, and only then is the change over: whoever was stopped in between does the same
again, and finds what is done already.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Self

import anyio
import structlog

from gateway.provenance import Provenance
from gateway.staging import Staged, Staging
from gateway.team_exchanges import TeamExchanges, exchanged, reached, why_resting
from memory.authorship import bylines, signed, unsigned
from memory.errors import Conflict, LeaseLost, NoteMissing, PathRefused, WriteRefused
from memory.index import INDEX, merged, pointers, with_pointer
from memory.merging import rebased
from memory.notes import Note, Notes
from memory.paths import contained
from memory.ports import Clock
from memory.provenance import Spoken, Witness
from memory.scope import Scope
from memory.team.report import SyncReport
from memory.team_notes import hash_of

log = structlog.get_logger(__name__)

SYNC_SECONDS = 10.0
"""How long a confirmation waits for the server; the next exchange does what was not done."""
_TRIES = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """What came of one answer. `anew` is the change as it would be now, where the file has changed meanwhile."""

    number: int
    told: str
    shared: str = ""
    """The name of what is shared, whether by this answer or before it."""
    text_hash: str | None = None
    """Of what was put there, empty for a deletion; None: it is whatever lies there, as other lines join in."""
    anew: Staged | None = None


class Publishing:
    """Carries out what a person says of their staged changes; whether they may is for the caller to look at."""

    def __init__(
        self, staging: Staging, notes: Notes, provenance: Provenance, sync: TeamExchanges, clock: Clock
    ) -> None:
        self._staging = staging
        self._notes = notes
        self._provenance = provenance
        self._sync = sync
        self._clock = clock

    async def share(self, scope: Scope, number: int) -> Answered:
        """Put a change into T, if the file is still what the person was shown; else ask them anew."""
        staged = await self._staging.claim(scope, number)
        if staged is None:
            return answered_before(number, await self._staging.of(scope, number))
        try:
            overtaken = await self._as_long_as_it_waits(number)._overtaken(scope, staged)
        except LeaseLost:
            if not await self._holds(scope, staged):
                await self._staging.release(scope, number)
            return Answered(number=number, told="Somebody else is writing there just now: say it again in a minute.")
        except (PathRefused, WriteRefused) as error:
            await self._staging.release(scope, number)
            now = await self._staging.of(scope, number)
            if now is None or now.state != "pending":
                return answered_before(number, now)
            return Answered(number=number, told=f"It can't be shared: {error}. It still waits; `/team no` drops it.")
        if overtaken is not None:
            return overtaken
        await self._say_whose(scope, staged)
        when = f"{self._clock():%Y-%m-%d %H:%M} UTC"
        await self._staging.close(scope, number, "published", f"it was shared on {when}")
        log.info("team_change_published", principal=scope.principal, project=scope.project)
        put = None if staged.is_index else hash_of(staged.text)
        told = "Shared." if staged.text is not None else "Deleted."
        return Answered(number=number, told=told, shared=staged.name, text_hash=put)

    async def discard(self, scope: Scope, number: int) -> Answered:
        """Drop a change; nothing of it is kept."""
        when = f"{self._clock():%Y-%m-%d %H:%M} UTC"
        if await self._staging.discard(scope, number, f"it was dropped on {when}"):
            return Answered(number=number, told="Dropped: it is shared with nobody.")
        return answered_before(number, await self._staging.of(scope, number))

    async def reached(self, scope: Scope, shared: Sequence[Answered]) -> str:
        """Bring the copy in line with the server, and say whether it has what was shared."""
        report, rest = await self.tell_server(scope), self._sync.resting(scope)
        if rest is not None:
            return (
                f"The server does not have it, as **nothing is pushed for now**: {why_resting(rest, scope.timezone)}."
            )
        if report is None or report.failure is not None:
            why = f" ({report.failure})" if report is not None else ""
            return f"The server may not have it yet{why}; the next exchange brings it there."
        lies = {each.shared: each.text_hash for each in shared}
        wanted = {name: await self._lying(scope, name) if put is None else put for name, put in lies.items()}
        return reached(report, await self._sync.state(scope), wanted)

    async def _lying(self, scope: Scope, name: str) -> str:
        try:
            present = await _read(self._notes, scope, _place(scope, name))
        except PathRefused:
            return ""
        return present.hash if present is not None else ""

    async def tell_server(self, scope: Scope) -> SyncReport | None:
        """Bring the copy in line with the server; None if that did not come to its end in time."""
        with anyio.move_on_after(SYNC_SECONDS):
            return await exchanged(self._sync, scope)
        return None

    def _as_long_as_it_waits(self, number: int) -> Self:
        """Return the same, which writes nothing any more once what the change tells was forgotten."""

        async def still_waits(scope: Scope, path: Path, *, before: str, after: str) -> None:
            staged = await self._staging.of(scope, number)
            if staged is None or staged.state != "pending":
                raise WriteRefused("it waits no more")

        same = copy(self)
        same._notes = self._notes.watched(still_waits)
        return same

    async def _holds(self, scope: Scope, staged: Staged) -> bool:
        """Return whether the file is what it is to be already, though what goes with it was not done."""
        present = await _read(self._notes, scope, _place(scope, staged.name))
        return not staged.is_index and hash_of(present.text if present else None) == hash_of(staged.text)

    async def _overtaken(self, scope: Scope, staged: Staged) -> Answered | None:
        """Write it; if the file is not what the person was shown, return what they are to look at instead."""
        try:
            await self._write(scope, staged)
        except Conflict:
            return await self._anew(scope, staged)
        return None

    async def _write(self, scope: Scope, staged: Staged) -> None:
        place = _place(scope, staged.name)
        if staged.is_index:
            await self._point(scope, place, lambda now: _merged(now, staged, place.parent))
            return
        if staged.text is None:
            await self._deleted(scope, place, staged)
            return
        try:
            await self._notes.write(scope, place, staged.text, expected=staged.replaces)
        except Conflict as conflict:
            if conflict.actual != hash_of(staged.text):  # else it was written by an earlier try
                raise
        if staged.pointer:
            await self._with_pointer(scope, place, staged)

    async def _with_pointer(self, scope: Scope, place: Path, staged: Staged) -> None:
        """Give a note that was just written its line; if the line is refused, the note goes back as well."""
        target = next(target for _, target in pointers(staged.pointer))
        folders = (place.parents[depth] for depth in range(len(PurePosixPath(staged.name).parts)))
        index = next((folder for folder in folders if folder / target == place), place.parent) / INDEX
        try:
            await self._point(scope, index, lambda now: with_pointer(now, staged.pointer, target))
        except (PathRefused, WriteRefused):
            written = hash_of(staged.text)
            if staged.base is None:
                await self._notes.delete(scope, place, expected=written)
            else:
                await self._notes.write(scope, place, staged.base, expected=written)
            raise

    async def _deleted(self, scope: Scope, place: Path, staged: Staged) -> None:
        try:
            await self._notes.delete(scope, place, expected=staged.replaces)
        except NoteMissing:  # gone with its line already
            return

    async def _point(self, scope: Scope, index: Path, change: Callable[[str], str]) -> None:
        for tried in range(1, _TRIES + 1):
            present = await _read(self._notes, scope, index)
            try:
                text = change(present.text if present else "")
                await self._notes.write(scope, index, text, expected=present.hash if present else "")
                return
            except Conflict:  # it came or went between the two
                if tried == _TRIES:
                    raise LeaseLost("the index is being changed all the time") from None

    async def _say_whose(self, scope: Scope, staged: Staged) -> None:
        """Record who said what is new in the note: the person who has shared it."""
        if staged.message_id is None:
            return
        witness = Witness()
        await witness(scope, _place(scope, staged.name), before=staged.base or "", after=staged.text or "")
        spoken = Spoken(
            message_id=staged.message_id,
            account=staged.account,
            speaker=staged.speaker,
            text=staged.text or "",
            at=datetime.fromtimestamp(staged.at, UTC),
        )
        await self._provenance.record(scope, witness, [spoken])

    async def _anew(self, scope: Scope, staged: Staged) -> Answered:
        """Lose nothing: put the change on what the file holds now, and have the person look at that."""
        present = await _read(self._notes, scope, _place(scope, staged.name))
        base = present.text if present else None
        text = staged.text
        if text is not None and base is not None:
            theirs = [each for each in bylines(text) if each.account == staged.account]
            ours = unsigned(text)
            text = signed(rebased(unsigned(staged.base or ""), ours, unsigned(base)) or ours, before=base, by=theirs)
        if text == base:
            await self._staging.close(scope, staged.number, "published", "the file holds it already")
            return Answered(number=staged.number, told="The file holds that already.")
        newer = await self._staging.renew(scope, staged.number, text=text, base=base, pointer=staged.pointer)
        if newer is None:
            return answered_before(staged.number, await self._staging.of(scope, staged.number))
        told = f"Somebody has changed the file since. It waits as number {newer.number} now, as it would be after that:"
        return Answered(number=staged.number, told=told, anew=newer)


def answered_before(number: int, staged: Staged | None) -> Answered:
    """Say what became of a change that waits no more."""
    if staged is None:
        return Answered(number=number, told="There is nothing with this number; `/team` lists what waits.")
    if staged.state == "pending":
        told = f"It is being shared, so it can't be dropped. If that was cut short, `/team yes {number}` does the rest."
        return Answered(number=number, told=told)
    # Whoever was stopped after it was shared has not told the server yet.
    shared = staged.name if staged.state == "published" else ""
    return Answered(number=number, told=f"That is settled: {staged.outcome}.", shared=shared)


def _place(scope: Scope, name: str) -> Path:
    """Return where a file of T lies; no link may stand in the way."""
    if scope.team_dir is None:
        raise PathRefused("this chat has no team memory")
    place = scope.team_dir / name
    if contained(str(place), base=scope.team_dir, roots=(scope.team_dir,)) != place:
        raise PathRefused("a link stands in the way")
    return place


async def _read(notes: Notes, scope: Scope, path: Path) -> Note | None:
    try:
        return await notes.read(scope, path)
    except NoteMissing:
        return None


def _merged(now: str, staged: Staged, folder: Path) -> str:
    seen = [line for line, _ in pointers(staged.base or "")]
    return merged(now, staged.text or "", seen=seen, exists=lambda file: (folder / file).is_file())
