"""/forget and /ignore: what leaves memory for good, and where memory is left aside."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial

from anyio import to_thread

from adapters.base import Account
from gateway.commands.table import Asked, Handler, Reply
from gateway.erasures import Erasures
from gateway.provenance import Provenance
from gateway.scopes import Scopes
from gateway.settings import Settings
from memory.erasure import erase_everywhere, hindrance
from memory.errors import Conflict, LeaseLost, PathRefused, WriteRefused
from memory.extract import writable
from memory.facts import described, forgettable, is_index
from memory.gone import FOUND, Gone, Item, find, gone, holding, mentioning, renamed, whole
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
_SHOWN = 120
_STAGED = "/"
"""What the names of changes begin with that wait to be shared; that of no note does."""
OFF = "Memory is switched off here."
_USAGE = (
    "Say what to forget: `/forget NAME` with the name of a note, or `/forget WORDS`. "
    "I show what fits; `/forget 1`, with a number from that list, then confirms it."
)
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
        """List what fits, or forget what was listed and is confirmed."""
        if not asked.scope.enabled:
            return Reply(text=OFF)
        words = asked.arguments.replace("`", "").strip()
        if not words.strip(" ,"):
            return Reply(text=_USAGE)
        if _numbers(words) is not None:
            return await self._confirmed(asked, words)
        files = await self._files(asked.scope, await self._places(asked.scope))
        yes = words.lower().endswith(" yes")
        sure = await to_thread.run_sync(_named, files, words.rpartition(" ")[0]) if yes else []
        if len(sure) == 1:
            shown = [item for item in await self._offered(asked) if item.note == sure[0] and not item.hash]
            return await self._forget(asked, shown) if shown else await self._search(asked, files, sure[0])
        return await self._search(asked, files, words)

    async def _search(self, asked: Asked, files: Mapping[str, str], words: str) -> Reply:
        notes = [whole(note, files[note]) for note in (await to_thread.run_sync(_named, files, words))[:FOUND]]
        if len(notes) == 1:
            return await self._ask(asked, notes, f"`/forget {notes[0].note} yes`")
        texts = {**files, **await self._staged(asked.scope)}
        found = notes or await to_thread.run_sync(find, texts, words)
        if not found:
            return Reply(text="I find nothing in memory that fits. `/memory` lists the notes.")
        return await self._ask(asked, found, "`/forget 1` (or several numbers, or `/forget all`)")

    async def _ask(self, asked: Asked, items: Sequence[Item], how: str) -> Reply:
        kept = [
            {"note": item.note, "hash": item.hash, "facts": list(item.facts)} for item in items
        ]  # hashes: the words must not outlive the notes
        inbound = asked.claim.inbound
        await self.erasures.offer(asked.scope, str(inbound.address), inbound.account, kept)
        lines = [f"{number}. {_shown(item)}" for number, item in enumerate(items, 1)]
        return Reply(
            text="\n".join(lines) + f"\n\nTo have it forgotten for good, write {how} within ten minutes. "
            "This conversation then begins anew."
        )

    async def _offered(self, asked: Asked) -> list[Item]:
        inbound = asked.claim.inbound
        kept = await self.erasures.offered(asked.scope, str(inbound.address), inbound.account)
        return [Item(note=each["note"], hash=each["hash"], facts=tuple(each.get("facts", ()))) for each in kept]

    async def _confirmed(self, asked: Asked, words: str) -> Reply:
        offered = await self._offered(asked)
        if not offered:
            return Reply(text=f"Nothing is listed for you any more. {_USAGE}")
        numbers = _numbers(words) or range(1, len(offered) + 1)
        if not all(1 <= number <= len(offered) for number in numbers):
            return Reply(text=f"The list goes from 1 to {len(offered)}.")
        return await self._forget(asked, [offered[number - 1] for number in dict.fromkeys(numbers)])

    async def _forget(self, asked: Asked, items: Sequence[Item]) -> Reply:
        scope = asked.scope
        try:
            async with AsyncExitStack() as stack:
                lease = f"extract:{scope.memory_dir}"
                await stack.enter_async_context(self.leases.hold(lease, seconds=_LEASE_SECONDS, wait=_WAIT_SECONDS))
                with suppress(LeaseLost):  # a dream that runs sees by itself that something was forgotten, and ends
                    dream = self.leases.hold(f"dream:{scope.memory_dir}", seconds=_LEASE_SECONDS, wait=0.0)
                    await stack.enter_async_context(dream)
                return await self._erase(scope, asked.claim.inbound.account, items)
        except (LeaseLost, Conflict):
            return Reply(text=_BUSY)
        except (PathRefused, WriteRefused) as error:
            return Reply(text=f"I can't take it out of its note: {error}.")

    async def _erase(self, scope: Scope, account: Account, items: Sequence[Item]) -> Reply:
        """Record it first, so that nothing rebuilds what is being taken out, and after, for what began meanwhile."""
        found = await self._places(scope)
        files = await self._files(scope, found)  # what was being saved is saved now
        texts, said = files | await self._staged(scope), await self._said_above(scope, files)
        known = await to_thread.run_sync(_still_there, texts, items, said)
        if not known:
            return Reply(text="That is forgotten already.")
        refused = [why for each in known if (why := await self._refusal(found, account, each))]
        if refused:
            return Reply(text="\n".join(dict.fromkeys(refused)))
        others = await self._of_others(scope, account, texts)
        meant = await to_thread.run_sync(_meant, texts, [item for each in known for item in each.items], said, others)
        beside = await to_thread.run_sync(self._beside, found, files, meant.what)
        if there := await hindrance(found, meant.what, [*meant.held, *beside], self.notes):
            return Reply(
                text=f"Nothing is forgotten yet, as something stands in the way: {there}. Then write it again."
            )
        what = meant.what
        names = await to_thread.run_sync(_telling_names, what, [*meant.held, *beside], found)
        team = await to_thread.run_sync(_of_team, files, what)
        sources = [each for said in (await self.provenance.sources(scope, what.hashes)).values() for each in said]
        upto = await self.erasures.latest(scope)
        messages = await self._messages(scope, what, sources)
        await self.erasures.erase(scope, messages=messages, what=what, names=names, team=team)
        cut_short = ""
        try:
            held, team = await self._written_meanwhile(scope, found, meant, team)
            await erase_everywhere(found, what, held, messages=messages, notes=self.notes, leases=self.leases)
        except (PathRefused, WriteRefused, LeaseLost, Conflict) as error:
            cut_short = await self._cut_short(scope, found, meant, error)
        rest = await self.forget_in_team(scope, team) if team is not None and scope.project else ""
        late = await self._messages(scope, what, sources, after=upto)
        await self.erasures.erase(scope, messages=late, what=what, names=names, team=team)
        done = cut_short or f"Forgotten: {_counted(len(what.texts))}. This conversation begins anew."
        return Reply(text=f"{done}{rest}")

    async def _cut_short(self, scope: Scope, found: Mapping[str, Scope], meant: _Meant, error: Exception) -> str:
        """Say what went and what stays of something that could only be begun."""
        files = await self._files(scope, found)
        still = await to_thread.run_sync(holding, files, meant.what)
        went = [note for note in meant.held if note not in still]
        gone_from = f" It is gone from {_listed(went)}." if went else ""
        stays = f" It still stands in {_listed(still)}." if still else " The notes don't hold it any more."
        return (
            f"It is forgotten only in part: {error}.{gone_from}{stays} "
            "Once that is mended, write `/forget` and its words again; in a group only an owner of this bot may then."
        )

    async def _written_meanwhile(
        self, scope: Scope, found: Mapping[str, Scope], meant: _Meant, team: Gone | None
    ) -> tuple[Sequence[str], Gone | None]:
        """Return which notes hold it now that it is recorded, and what of it stands in the team's notes.

        Who writes holds the lease, and looks into the record under it: who was let through before has written.
        """
        async with self.leases.hold(f"memory:{scope.memory_dir}", seconds=_LEASE_SECONDS, wait=_LEASE_SECONDS):
            files = await self._files(scope, found)
        held = await to_thread.run_sync(holding, files, meant.what)
        held += await to_thread.run_sync(self._beside, found, files, meant.what)
        return [*dict.fromkeys((*meant.held, *held))], await to_thread.run_sync(_of_team, files, meant.what) or team

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
        said = [each.account for fact in what.hashes for each in sources.get(fact, ())]
        theirs = what.hashes <= set(sources) and set(said) == {str(account)}
        return "" if theirs else f"{_NOT_YOURS}`{meant.items[0].note}`"

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
    return f"{agent}`{item.note}`, the whole note, {_counted(len(set(item.facts)))}: {text}"


def _counted(count: int) -> str:
    return f"{count} {'fact' if count == 1 else 'facts'}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
