"""/forget and /ignore: what leaves memory for good, and where memory is left aside."""

import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial

from anyio import CancelScope, to_thread

from adapters.base import Account
from gateway.buttons import Choice, short
from gateway.commands.table import Asked, Handler, Reply
from gateway.erasures import Erasures
from gateway.provenance import Provenance
from gateway.scopes import Scopes
from gateway.settings import Settings
from memory.counts import counted
from memory.erasure import erase_everywhere, hindrance, unread
from memory.errors import Conflict, LeaseLost, PathRefused, WriteRefused
from memory.extract import writable
from memory.facts import described, forgettable
from memory.gone import FOUND, Gone, Item, find, gone, holding, mentioning, renamed, whole
from memory.index import is_index
from memory.lease_names import dreaming, extracting, writing
from memory.lookup import named, title
from memory.notes import Notes
from memory.paths import TEAM
from memory.places import fixed, places, read_places
from memory.ports import UNMETERED, Leases, Meter
from memory.provenance import Source, fact_hash
from memory.scan import Scans
from memory.scope import Scope

_ForgetInTeam = Callable[[Scope, Gone], Awaitable[str]]
"""Clears the project's other copies of the team's notes; returns what to say of what could not be done."""
_LEASE_SECONDS = 30.0
_WAIT_SECONDS = 20.0  # for an extraction that is under way: it has read what is to be forgotten
_LOOKS = 5  # at what somebody's hand has put back while it was taken out
_SHOWN = 120
_PRESSABLE = 8
_PRESSED = re.compile(r"(\d) yes ([0-9a-f]{8})", re.ASCII)
"""What the buttons under a list say; one that is pressed late must not mean another list."""
_STAGED = "/"
"""What the names of changes begin with that wait to be shared; that of no note does."""
_USAGE = (
    "Say what to forget: `/forget NAME` with the name of a note, or `/forget WORDS`. "
    "I show what fits; `/forget 1`, with a number from that list, then confirms it; "
    "if the list has one thing only, `/forget yes` does too."
)
_ONE_OF_THEM = "`/forget 1` (or several numbers, or `/forget all`)"
_NOTHING = "I find nothing in memory that fits."
_NOT_YOURS = "Only who said it, or an owner of this bot, may have it forgotten here: "
_BUSY = "I am just saving what was said. Please write it again in a minute; nothing is forgotten yet."


@dataclass(frozen=True, kw_only=True, slots=True)
class _Meant:
    """What somebody wants to have forgotten: the items, what they are by now, and the names of the notes that hold it.

    To find that out all notes are taken apart, which takes a second where there are a thousand: never in the loop.
    """

    items: Sequence[Item]
    what: Gone
    held: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class ErasureCommands:
    """The handlers and what they work on, all of it within the asker's scope."""

    settings: Settings
    scopes: Scopes
    erasures: Erasures
    provenance: Provenance
    notes: Notes
    scanner: Scans
    leases: Leases
    forget_in_team: _ForgetInTeam
    meter: Meter = UNMETERED

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """The handlers by name."""
        return {"forget": self.forget, "ignore": self.ignore}

    async def ignore(self, asked: Asked) -> Reply:
        """Switch memory off for this conversation, or on again; either way it begins anew."""
        here = str(asked.claim.inbound.address)
        ignoring = await self.scopes.ignoring(asked.claim.inbound.address, asked.scope.principal)
        match asked.arguments.lower():
            case "on":
                await self.erasures.ignore(asked.scope, here)
                self.meter.count("memory_toggled", by="ignore", to="on")
                text = (
                    "I leave memory aside in this conversation, and keep nothing of it, until you write `/ignore off`."
                )
            case "off":
                await self.erasures.heed(asked.scope, here)
                self.meter.count("memory_toggled", by="ignore", to="off")
                text = "I use memory again. What was said meanwhile I have not kept."
            case _:
                state = (
                    "I leave memory aside in this conversation." if ignoring else "I use memory in this conversation."
                )
                text = f"{state} `/ignore on` leaves it aside, `/ignore off` uses it again."
        return Reply(text=text)

    async def forget(self, asked: Asked) -> Reply:
        """List what fits, or forget what was listed and is confirmed; where memory is off as well."""
        nothing = f"{_NOTHING} `/memory` lists the notes." if asked.scope.enabled else _NOTHING
        asked = replace(asked, scope=replace(asked.scope, enabled=True))  # off, it is not read or added to, yet there
        words = asked.arguments.replace("`", "").strip()
        if not words.strip(" ,"):
            return Reply(text=_USAGE)
        if pressed := _PRESSED.fullmatch(words):
            return await self._confirmed(asked, pressed[1], listed=pressed[2])
        wanted, sure = _without_yes(words)
        if not wanted or _numbers(wanted) is not None:
            return await self._confirmed(asked, wanted)
        files = await self._files(asked.scope, await self._places(asked.scope))
        found = await self._found(asked.scope, files, wanted)
        if sure and len(found) == 1:
            shown = [item for item in await self._offered(asked) if _same(item, found[0])]
            return await self._forget(asked, shown) if shown else await self._ask(asked, found)
        if sure:
            found = await self._found(asked.scope, files, words) or found
        reply = await self._ask(asked, found) if found else Reply(text=nothing)
        return replace(reply, text=f"{reply.text}{await self._unread(asked.scope)}")

    async def _found(self, scope: Scope, files: Mapping[str, str], words: str) -> Sequence[Item]:
        """Return the notes of this name, or else what fits the words."""
        if names := await to_thread.run_sync(_named, files, words):
            return [whole(note, files[note]) for note in names[:FOUND]]
        return await to_thread.run_sync(find, {**files, **await self._staged(scope)}, words)

    async def _ask(self, asked: Asked, items: Sequence[Item]) -> Reply:
        listed = secrets.token_hex(4)
        kept = [
            {"note": item.note, "hash": item.hash, "facts": list(item.facts), "listed": listed} for item in items
        ]  # hashes: the words must not outlive the notes
        inbound = asked.claim.inbound
        await self.erasures.offer(asked.scope, str(inbound.address), inbound.account, kept)
        lines = [f"{number}. {_shown(item)}" for number, item in enumerate(items, 1)]
        how = "`/forget yes` (or `/forget 1`)" if len(items) == 1 else _ONE_OF_THEM
        return Reply(
            text="\n".join(lines) + f"\n\nTo have it forgotten for good, write {how} within ten minutes. "
            "This conversation then begins anew.",
            choices=[
                Choice(label=f"{number} {short(item.note)}", says=f"/forget {number} yes {listed}")
                for number, item in enumerate(items[:_PRESSABLE], 1)
            ],
        )

    async def _offered(self, asked: Asked, *, listed: str = "") -> list[Item]:
        """Return what this person was shown last; none of it if that is not the list that is meant."""
        inbound = asked.claim.inbound
        kept = await self.erasures.offered(asked.scope, str(inbound.address), inbound.account)
        return [
            Item(note=each["note"], hash=each["hash"], facts=tuple(each.get("facts", ())))
            for each in kept
            if listed in ("", each.get("listed"))
        ]

    async def _confirmed(self, asked: Asked, wanted: str, *, listed: str = "") -> Reply:
        """Forget what these numbers stand for; without any, the one thing that was listed."""
        offered = await self._offered(asked, listed=listed)
        if not offered and await self.erasures.unfinished(asked.scope):
            return await self._forget(asked, [])
        if not offered:
            return Reply(text=f"Nothing is listed for you any more. {_USAGE}")
        if not wanted and len(offered) > 1:
            return Reply(text=f"There are {len(offered)} things in the list: write {_ONE_OF_THEM}.")
        numbers = _numbers(wanted) or range(1, len(offered) + 1)
        if not all(1 <= number <= len(offered) for number in numbers):
            return Reply(text=f"The list goes from 1 to {len(offered)}.")
        return await self._forget(asked, [offered[number - 1] for number in dict.fromkeys(numbers)])

    async def _forget(self, asked: Asked, items: Sequence[Item]) -> Reply:
        scope = asked.scope
        try:
            async with AsyncExitStack() as stack:
                lease = extracting(scope)
                await stack.enter_async_context(self.leases.hold(lease, seconds=_LEASE_SECONDS, wait=_WAIT_SECONDS))
                with suppress(LeaseLost):  # a dream that runs sees by itself that something was forgotten, and ends
                    dream = self.leases.hold(dreaming(scope), seconds=_LEASE_SECONDS, wait=0.0)
                    await stack.enter_async_context(dream)
                return await self._erase(scope, asked.claim.inbound.account, items)
        except (LeaseLost, Conflict):
            return Reply(text=_BUSY)
        except (PathRefused, WriteRefused) as error:
            return Reply(text=f"I can't take it out of its note: {error}.")

    async def _erase(self, scope: Scope, account: Account, items: Sequence[Item]) -> Reply:
        """Take it out if this person may have it forgotten, and if nothing stands in the way.

        What somebody was allowed to have forgotten, and was not taken out before the process died, goes along.
        """
        found = await self._places(scope)
        files = await self._files(scope, found)  # what was being saved is saved now
        texts, said = files | await self._staged(scope), await self._said_above(scope, files)
        known = await to_thread.run_sync(_still_there, texts, items, said)
        begun = [Item(note="", hash=each) for each in await self.erasures.unfinished(scope)]
        left = bool(begun and (await to_thread.run_sync(_meant, texts, begun, said)).what.texts)
        if not known and not left:
            await self.erasures.end(scope)
            return Reply(text="That is forgotten already.")
        refused = [why for each in known if (why := await self._refusal(found, account, each))]
        if refused:
            return Reply(text="\n".join(dict.fromkeys(refused)))
        others = await self._of_others(scope, account, texts)
        wanted = [*begun, *(item for each in known for item in each.items)]
        meant = await to_thread.run_sync(_meant, texts, wanted, said, others)
        beside = await to_thread.run_sync(self._beside, found, files, meant.what)
        if there := await hindrance(found, meant.what, [*meant.held, *beside], self.notes):
            return Reply(
                text=f"Nothing is forgotten yet, as something stands in the way: {there}. Then write it again."
            )
        names = await to_thread.run_sync(_telling_names, meant.what, [*meant.held, *beside], found)
        return await self._carried_out(scope, meant, names, await to_thread.run_sync(_of_team, files, meant.what))

    async def _carried_out(self, scope: Scope, meant: _Meant, names: Sequence[str], team: Gone | None) -> Reply:
        """Record it first, so that nothing rebuilds what is being taken out, and after, for what began meanwhile.

        `names` are notes that are named by it; `team` is what of it stands in the team's notes.
        """
        what = meant.what
        sources = [each for said in (await self.provenance.sources(scope, what.hashes)).values() for each in said]
        upto = await self.erasures.latest(scope)
        messages = await self._messages(scope, what, sources)
        await self.erasures.begin(scope, messages=messages, what=what, names=names, team=team)
        cut_short, stays = "", frozenset[str]()
        try:
            try:
                team = await self._taken_out(scope, meant, messages) or team
            except (PathRefused, WriteRefused, LeaseLost, Conflict) as error:
                cut_short, stays = await self._cut_short(scope, meant, error)
            rest = await self.forget_in_team(scope, team) if team is not None and scope.project else ""
            late = await self._messages(scope, what, sources, after=upto)
            await self.erasures.erase(scope, messages=late, what=what, names=names, team=team, stays=stays)
        except BaseException:  # a /stop, say: it is over, and may be asked for again
            with CancelScope(shield=True):
                await self.erasures.end(scope, stays=what.hashes)
            raise
        done = cut_short or f"Forgotten: {counted(len(what.texts), 'fact')}. This conversation begins anew."
        return Reply(text=f"{done}{rest}{await self._unread(scope)}")

    async def _unread(self, scope: Scope) -> str:
        """Say which notes are too large to be read to the end, "" if none is."""
        large = await to_thread.run_sync(unread, await self._places(scope))
        return f"\n\nToo large to be read to the end, so look there by hand: {_listed(large)}." if large else ""

    async def _cut_short(self, scope: Scope, meant: _Meant, error: Exception) -> tuple[str, frozenset[str]]:
        """Say what went and what stays of something that could only be begun; also by hash the facts that stay."""
        files = await self._files(scope, await self._places(scope))
        still = await to_thread.run_sync(holding, files, meant.what)
        left = await to_thread.run_sync(_forgettable, {note: files[note] for note in still})
        went = [note for note in meant.held if note not in still]
        gone_from = f" It is gone from {_listed(went)}." if went else ""
        stays = f" It still stands in {_listed(still)}." if still else " The notes don't hold it any more."
        told = (
            f"It is forgotten only in part: {error}.{gone_from}{stays} "
            "Once that is mended, write `/forget` and its words again."
        )
        return told, meant.what.hashes.intersection(frozenset[str]().union(*left.values()))

    async def _taken_out(self, scope: Scope, meant: _Meant, messages: frozenset[int]) -> Gone | None:
        """Take it out wherever it stands by now, until nothing holds it; return what stood in the team's notes."""
        what, held, team = meant.what, meant.held, None
        for look in range(_LOOKS):
            found, files = await self._written(scope)
            there = await to_thread.run_sync(holding, files, what)
            if look and not there:
                return team
            team = await to_thread.run_sync(_of_team, files, what) or team
            there += await to_thread.run_sync(self._beside, found, files, what)
            held = [*dict.fromkeys((*held, *there))]
            await erase_everywhere(found, what, held, messages=messages, notes=self.notes, leases=self.leases)
        raise Conflict("somebody's hand puts it back all the time", actual="")

    async def _written(self, scope: Scope) -> tuple[dict[str, Scope], dict[str, str]]:
        """Return all places and what stands there, now that it is recorded.

        Who writes holds the lease, and looks into the record under it: who was let through before has written.
        """
        found = await self._places(scope)
        for place in found.values():
            if place.writable:
                async with self.leases.hold(writing(place), seconds=_LEASE_SECONDS, wait=_LEASE_SECONDS):
                    pass
        return found, await self._files(scope, found)

    def _beside(self, found: Mapping[str, Scope], files: Mapping[str, str], what: Gone) -> list[str]:
        """Return the notes that only mention it and may be changed from here; blocking."""
        scope = found[""]
        closed = f"{TEAM}/" if scope.team_dir not in writable(scope, self.settings.memory) else None
        beside = mentioning(files, what, starts=found)
        return [note for note in beside if not fixed(found, [note]) and not (closed and note.startswith(closed))]

    async def _messages(self, scope: Scope, what: Gone, sources: Sequence[Source], *, after: int = 0) -> frozenset[int]:
        known = {each.message_id for each in sources if each.message_id is not None}
        by = {each.account for each in sources} if scope.shared else None  # others may have said the like
        return await self.erasures.messages_telling(scope, what, known, by=by or None, after=after)

    async def _refusal(self, found: Mapping[str, Scope], account: Account, meant: _Meant) -> str:
        """Return why this person may not have this one item forgotten here, "" if they may."""
        scope, what, held = found[""], meant.what, meant.held
        if there := fixed(found, held):
            return f"`{there[0]}` can't be changed from here; say it in a chat of the project."
        of_team = any(note.startswith(f"{TEAM}/") for note in held)
        if of_team and scope.team_dir not in writable(scope, self.settings.memory):
            return "Team memory can't be changed from here; say it in a chat of the team."
        if not scope.shared or account in self.settings.access.owners:
            return ""
        sources = await self.provenance.sources(scope, what.hashes)
        said = {fact: {each.account for each in those} for fact, those in sources.items()}
        named = await self.provenance.named(scope, what.texts)
        theirs = [said.get(fact) == {str(account)} or str(account) in named[fact] for fact in what.hashes]
        return "" if theirs and all(theirs) else f"{_NOT_YOURS}`{meant.items[0].note}`"

    async def _staged(self, scope: Scope) -> dict[str, str]:
        return {f"{_STAGED}{name}": text for name, text in (await self.erasures.staged(scope)).items()}

    async def _said_above(self, scope: Scope, files: Mapping[str, str]) -> frozenset[str]:
        """Return the hashes of those descriptions of notes that somebody is known to have said."""
        about = await to_thread.run_sync(_descriptions, files)
        return frozenset(await self.provenance.sources(scope, about))

    async def _of_others(self, scope: Scope, account: Account, texts: Mapping[str, str]) -> frozenset[str]:
        """Return the hashes of what stands in a shared chat's notes and somebody else said, in another chat too.

        What such notes are about is theirs as well, if none of it is this person's own.
        """
        if not scope.shared:
            return frozenset()
        hashes = await to_thread.run_sync(_forgettable, texts)
        sources = await self.provenance.sources(scope, frozenset[str]().union(*hashes.values()))
        theirs = {fact for fact, said in sources.items() if any(each.account != str(account) for each in said)}
        own = sources.keys() - theirs
        notes = (
            found
            for note, found in hashes.items()
            if (note.startswith(f"{TEAM}/") or not theirs.isdisjoint(found)) and own.isdisjoint(found)
        )
        of_team = (found - own for note, found in hashes.items() if note.startswith(f"{TEAM}/"))
        return frozenset(theirs.union(*notes, *of_team))

    async def _files(self, scope: Scope, found: Mapping[str, Scope]) -> dict[str, str]:
        return await to_thread.run_sync(read_places, found, await self.scanner.scan(scope))

    async def _places(self, scope: Scope) -> dict[str, Scope]:
        return await to_thread.run_sync(partial(places, scope, self.settings.memory_base))


def _meant(
    texts: Mapping[str, str], items: Sequence[Item], said: frozenset[str], others: frozenset[str] = frozenset()
) -> _Meant:
    notes = {name: text for name, text in texts.items() if not name.startswith(_STAGED)}
    what = gone(texts, items, said=said, others=others)
    what = replace(what, notes=what.notes & notes.keys())
    return _Meant(items=items, what=what, held=holding(notes, what))


def _still_there(texts: Mapping[str, str], items: Sequence[Item], said: frozenset[str]) -> list[_Meant]:
    """Return of each item what it is, unless that is gone already."""
    found = (_meant(texts, [item], said) for item in items)
    return [_with_description(texts, each, said) for each in found if each.what.texts or each.what.notes]


def _with_description(texts: Mapping[str, str], meant: _Meant, said: frozenset[str]) -> _Meant:
    """Return the same, of whole notes with what somebody is known to have said as their description."""
    above = [(note, about) for note in meant.what.notes for about in described(texts[note])]
    items = [Item(note=note, hash=each) for note, about in above if (each := fact_hash(about)) in said]
    return _meant(texts, [*meant.items, *items], said) if items else meant


def _descriptions(files: Mapping[str, str]) -> list[str]:
    return [fact_hash(about) for name, text in files.items() if not is_index(name) for about in described(text)]


def _forgettable(texts: Mapping[str, str]) -> dict[str, set[str]]:
    return {name: set(map(fact_hash, forgettable(text, name))) for name, text in texts.items()}


def _telling_names(what: Gone, notes: Sequence[str], starts: Mapping[str, Scope]) -> list[str]:
    return [note for note in notes if not is_index(note) and (note in what.notes or renamed(note, what, starts))]


def _of_team(files: Mapping[str, str], what: Gone) -> Gone | None:
    """Return that part of it which stands in the team's notes; None if nothing does."""
    team = {note: text for note, text in files.items() if note.startswith(f"{TEAM}/")}
    texts = [fact for note, text in team.items() for fact in forgettable(text, note) if what.same(fact)]
    notes = what.notes & team.keys()
    return replace(what, notes=notes, texts=tuple(dict.fromkeys(texts))) if texts or notes else None


def _without_yes(words: str) -> tuple[str, bool]:
    """Return what is meant, and whether `yes` was said to it."""
    *before, last = words.split()
    return (" ".join(before).rstrip(" ,"), True) if last.lower() == "yes" else (words, False)


def _same(offered: Item, found: Item) -> bool:
    return (offered.note, offered.hash) == (found.note, found.hash)


def _numbers(words: str) -> list[int] | None:
    """Return the numbers that are meant, none for all of them; None if it is no confirmation."""
    if words.lower() == "all":
        return []
    parts = words.replace(",", " ").split()
    return (
        [int(part) for part in parts]
        if parts and all(part.isascii() and part.isdigit() and len(part) < 4 for part in parts)
        else None
    )


def _named(files: Mapping[str, str], words: str) -> list[str]:
    return named([name for name in files if not is_index(name)], words, lambda name: title(files[name]))


def _shown(item: Item) -> str:
    text = item.text if len(item.text) <= _SHOWN else f"{item.text[: _SHOWN - 1]}…"
    if item.note.startswith(_STAGED):
        return f"{text} (waits to be shared, in `{item.note.removeprefix(_STAGED).partition('/')[2]}`)"
    agent = f"agent {item.note[1:].rpartition('/')[0]}: " if item.note.startswith("@") else ""
    if item.hash:
        return f"{agent}{text} (in `{item.note}`)"
    return f"{agent}`{item.note}`, the whole note, {counted(len(set(item.facts)), 'fact')}: {text}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
