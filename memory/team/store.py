"""The team memory of each repo in the database: entries, what was deleted, who wrote what."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from memory.notes import content_hash
from memory.ports import Clock
from memory.team import tables
from memory.team.audit import Audit, Entry
from memory.team.errors import PreconditionFailed, TooLarge, TooManyEntries
from memory.team.tables import ENTRIES, REPOS
from memory.team.wire import BODY_BYTES, ENTRY_BYTES, names_tag, state_checksum
from memory.transactions import Transactions

metadata = tables.metadata
_AT_ONCE = 500  # keys in one statement: no database takes any number of parameters


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What the server takes; sizes in bytes. `body_bytes` counts for bodies of more than one entry.

    Of deletions it tells the newest `tombstones`, for `tombstone_days`. A copy that was away for longer has the note
    still, takes it for one that the server never had, and brings it back.
    """

    entry_bytes: int = ENTRY_BYTES
    body_bytes: int = BODY_BYTES
    entries: int = 1000
    tombstones: int = 1000
    tombstone_days: int = 180


@dataclass(frozen=True, kw_only=True, slots=True)
class RepoState:
    """What a repo holds, as hashes by key; `deleted` has the hash of each deleted entry's last text."""

    version: int
    changed_at: datetime
    live: Mapping[str, str]
    deleted: Mapping[str, str]

    @property
    def checksum(self) -> str:
        """The state in one word."""
        return state_checksum(self.live, self.deleted)


@dataclass(frozen=True, kw_only=True, slots=True)
class RepoContent:
    """A repo's state with its texts; `versions` tells since which version each text is as it is."""

    state: RepoState
    texts: Mapping[str, str] = field(repr=False)
    versions: Mapping[str, int] = field(repr=False)


class TeamStore:
    """Reads and writes the entries of repos; each write is one transaction, one at a time per repo."""

    def __init__(self, database: Transactions, *, clock: Clock, limits: Limits) -> None:
        self._database = database
        self._clock = clock
        self._limits = limits
        self.audit = Audit(database, clock=clock)

    async def state(self, repo: str) -> RepoState | None:
        """Return the hashes of a repo; None if nothing was ever written."""
        async with self._database.read() as session:
            return await _state(session, repo)

    async def content(self, repo: str) -> RepoContent | None:
        """Return a repo with its texts; None if nothing was ever written."""
        async with self._database.read() as session:
            row = await _repo_row(session, repo)
            if row is None:
                return None
            rows = (await session.execute(select(ENTRIES).where(ENTRIES.c.repo == repo))).all()
        state = RepoState(
            version=row[0],
            changed_at=row[1],
            live={entry.key: entry.hash for entry in rows if not entry.deleted},
            deleted={entry.key: entry.hash for entry in rows if entry.deleted},
        )
        texts = {entry.key: entry.text.decode() for entry in rows if not entry.deleted}
        versions = {entry.key: entry.version for entry in rows if not entry.deleted}
        return RepoContent(state=state, texts=texts, versions=versions)

    async def put(
        self,
        repo: str,
        entries: Mapping[str, str],
        *,
        deleted: Sequence[str],
        author: str,
        peer: str = "",
        if_match: str | None,
        if_none_match: str | None = None,
    ) -> RepoState:
        """Write entries, delete keys, keep the rest, and return the state after it.

        Keys are as `check_path` takes them. `if_match` and `if_none_match` are the headers as they came. The author,
        the `peer`'s address and what has changed are put on record. All or nothing: raises `PreconditionFailed`,
        `TooManyEntries` or `TooLarge` and then has changed nothing.
        """
        self._check_sizes(entries)
        await self._ensure(repo)
        async with self._database.write() as session:
            # The first statement takes the write lock (SQLite) or the row's (PostgreSQL), so what follows
            # reads a state that nobody else can change any more.
            bump = update(REPOS).where(REPOS.c.repo == repo)
            await session.execute(bump.values(version=REPOS.c.version + 1, changed_at=self._clock()))
            before = await _state(session, repo)
            assert before is not None
            checksum = before.checksum if before.version > 1 else ""
            _check_precondition(checksum, if_match=if_match, if_none_match=if_none_match)
            after = _merged(before, entries, deleted)
            if len(after.live) > self._limits.entries:
                raise TooManyEntries(maximum=self._limits.entries, received=len(after.live))
            after = await self._outlived(session, repo, before=before, after=after)
            await self._store(session, repo, before=before, after=after, texts=entries, author=author)
            await self.audit.write(session, _entry(repo, before=before, after=after, who=author, peer=peer))
            return after

    async def _outlived(self, session: AsyncSession, repo: str, *, before: RepoState, after: RepoState) -> RepoState:
        """Delete the record of deletions that are told no more, and return what is left of the state."""
        old = after.deleted.keys() & before.deleted.keys()
        if not old:
            return after
        columns = select(ENTRIES.c.key, ENTRIES.c.changed_at).where(ENTRIES.c.repo == repo, ENTRIES.c.deleted)
        rows = (await session.execute(columns.order_by(ENTRIES.c.changed_at.desc(), ENTRIES.c.key))).all()
        since = after.changed_at - timedelta(days=self._limits.tombstone_days)
        fresh = [key for key, changed_at in rows if key in old and changed_at >= since]
        kept = {*fresh[: max(0, self._limits.tombstones - len(after.deleted) + len(old))]}
        gone = old - kept
        for start in range(0, len(gone), _AT_ONCE):
            these = sorted(gone)[start : start + _AT_ONCE]
            await session.execute(delete(ENTRIES).where(ENTRIES.c.repo == repo, ENTRIES.c.key.in_(these)))
        return replace(after, deleted={key: value for key, value in after.deleted.items() if key not in gone})

    def _check_sizes(self, entries: Mapping[str, str]) -> None:
        for key, text in entries.items():
            if len(text.encode()) > self._limits.entry_bytes:
                raise TooLarge(f"the entry {key!r} is larger than {self._limits.entry_bytes} bytes")

    async def _ensure(self, repo: str) -> None:
        async with self._database.read() as session:
            found = await session.scalar(select(REPOS.c.repo).where(REPOS.c.repo == repo))
        if found is not None:
            return
        try:
            async with self._database.write() as session:
                await session.execute(insert(REPOS).values(repo=repo, version=0, changed_at=self._clock()))
        except IntegrityError:
            return  # another writer was first

    async def _store(
        self,
        session: AsyncSession,
        repo: str,
        *,
        before: RepoState,
        after: RepoState,
        texts: Mapping[str, str],
        author: str,
    ) -> None:
        known = before.live.keys() | before.deleted.keys()
        for key in sorted({key for key, _ in after.live.items() ^ before.live.items()}):
            values = {
                "text": texts[key].encode() if key in after.live else b"",
                "hash": after.live.get(key) or after.deleted[key],
                "deleted": key in after.deleted,
                "version": after.version,
                "author": author,
                "changed_at": after.changed_at,
            }
            if key in known:
                here = (ENTRIES.c.repo == repo) & (ENTRIES.c.key == key)
                await session.execute(update(ENTRIES).where(here).values(**values))
            else:
                await session.execute(insert(ENTRIES).values(repo=repo, key=key, **values))


def _check_precondition(checksum: str, *, if_match: str | None, if_none_match: str | None) -> None:
    passed = if_match is not None and not names_tag(if_match, checksum)
    if passed or (if_none_match is not None and names_tag(if_none_match, checksum)):
        raise PreconditionFailed(checksum=checksum)


def _merged(before: RepoState, entries: Mapping[str, str], deleted: Sequence[str]) -> RepoState:
    live = {**before.live, **{key: content_hash(text) for key, text in entries.items()}}
    taken = {key: live.pop(key) for key in deleted if key in live}
    gone = {key: value for key, value in taken.items() if key in before.live}  # else it never was: nothing to tell
    buried = {key: value for key, value in before.deleted.items() if key not in live}
    return RepoState(version=before.version, changed_at=before.changed_at, live=live, deleted={**buried, **gone})


def _entry(repo: str, *, before: RepoState, after: RepoState, who: str, peer: str) -> Entry:
    return Entry(
        who=who,
        peer=peer,
        repo=repo,
        method="PUT",
        status=200,
        written=sorted(key for key, value in after.live.items() if before.live.get(key) != value),
        deleted=sorted(before.live.keys() - after.live.keys()),
    )


async def _repo_row(session: AsyncSession, repo: str) -> tuple[int, datetime] | None:
    query = select(REPOS.c.version, REPOS.c.changed_at).where(REPOS.c.repo == repo, REPOS.c.version > 0)
    row = (await session.execute(query)).one_or_none()
    return None if row is None else (row.version, row.changed_at)


async def _state(session: AsyncSession, repo: str) -> RepoState | None:
    row = await _repo_row(session, repo)
    if row is None:
        return None
    query = select(ENTRIES.c.key, ENTRIES.c.hash, ENTRIES.c.deleted).where(ENTRIES.c.repo == repo)
    entries = (await session.execute(query)).all()
    return RepoState(
        version=row[0],
        changed_at=row[1],
        live={entry.key: entry.hash for entry in entries if not entry.deleted},
        deleted={entry.key: entry.hash for entry in entries if entry.deleted},
    )
