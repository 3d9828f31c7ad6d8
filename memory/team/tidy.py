"""Puts a team's memory in order on a copy that nobody uses, and says what would have to change for it.

Nothing of the team's is written here. The run sees the notes of T and the conflict copies from all homes, laid out in
a folder of the project's own, and can reach nothing else: no private memory is in its scope.
"""

import hashlib
import shutil
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path, PurePosixPath

import anyio
import anyio.to_thread

from memory.consolidation import Consolidated, Consolidation, Task
from memory.errors import WriteRefused
from memory.facts import facts
from memory.index import INDEX, merged
from memory.judgement import Ending, Sources
from memory.notes import Notes, content_hash
from memory.paths import TEAM, folder_name, make_private
from memory.ports import UNLIMITED, Budget, Clock, Leases, Progress, Run
from memory.scan import LOGS
from memory.scope import Mode, Scope
from memory.settings import MemorySettings
from memory.team.local import LocalCopy, is_conflict_copy, read_copy
from memory.team.proposal import Change, changes_between, secrets_in

PRINCIPAL = "project"
"""Whose work it is: nobody's in particular."""
PURPOSE = "tidy"
_FOLDER = "tidy"
_APART = (TEAM, LOGS)  # in a memory directory these folders mean something else, and no run may write there


@dataclass(frozen=True, kw_only=True)
class Material:
    """What a project shares: notes and indexes as one copy has them, and the conflict copies from all of them."""

    notes: Mapping[str, str]
    copies: Mapping[str, str]

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """All of it, by key."""
        return {**self.copies, **self.notes}

    @cached_property
    def digest(self) -> str:
        """Changes with every change of it."""
        listing = "".join(f"{key} {content_hash(text)}\n" for key, text in sorted(self.texts.items()))
        return hashlib.sha256(listing.encode("utf-8", "surrogatepass")).hexdigest()


def gather(first: Path, others: Iterable[Path]) -> Material:
    """Read the team directory `first`, and of the others the conflict copies; blocking."""
    read = read_copy(first).texts
    texts = [read, *(read_copy(other).texts for other in others)]
    copies = {key: text for each in reversed(texts) for key, text in each.items() if is_conflict_copy(key)}
    return Material(notes={key: text for key, text in read.items() if not is_conflict_copy(key)}, copies=copies)


def scope_of(home: Path, project: str, *, timezone: str) -> Scope:
    """Return the scope of a project's tidying; `home` is the real path of the gateway's home."""
    directory = home / "projects" / folder_name(project) / _FOLDER / "memory"
    return Scope(
        principal=PRINCIPAL,
        project=project,
        memory_dir=directory,
        team_dir=None,
        mode=Mode.AUTO,
        shared=True,
        enabled=True,
        timezone=timezone,
        readable=(directory,),
        writable=(directory,),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Tidied:
    """How a run ended, why if not well, and what it would change; `removed` are facts that would be nowhere then."""

    ending: Ending
    changes: tuple[Change, ...] = ()
    removed: tuple[str, ...] = ()
    reason: str = ""


class Tidy:
    """Has the model put the material in order, under the same guard as a dream."""

    def __init__(
        self,
        run: Run,
        *,
        notes: Notes,
        leases: Leases,
        settings: MemorySettings,
        clock: Clock,
        budget: Budget = UNLIMITED,
    ) -> None:
        self._run = run
        self._notes = notes
        self._leases = leases
        self._settings = settings
        self._clock = clock
        self._budget = budget

    async def __call__(
        self,
        scope: Scope,
        material: Material,
        *,
        ledger: Sources,
        left_alone: Collection[str] = (),
        progress: Progress | None = None,
    ) -> Tidied:
        """Look at it; the caller sees to it that a project has one run at a time.

        `left_alone` are keys that are not to be changed. The folder that it works in is gone afterwards; what a killed
        run has left there goes at the beginning of the next one.
        """
        folder, laid = scope.memory_dir.parent, _laid(material)
        await anyio.to_thread.run_sync(_lay_out, folder, scope.memory_dir, laid)
        try:
            done = await self._consolidated(scope, material, ledger, left_alone, progress)
            if not done.ending.good:
                return Tidied(ending=done.ending, reason=done.reason)
            after = await anyio.to_thread.run_sync(read_copy, scope.memory_dir)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(partial(shutil.rmtree, folder, ignore_errors=True))
        if too_many := await anyio.to_thread.run_sync(self._too_many_gone, laid, done.removed):
            return Tidied(ending=Ending.REFUSED, reason=too_many)
        return await anyio.to_thread.run_sync(_compared, material, laid, after, done)

    def _too_many_gone(self, laid: Mapping[str, str], removed: Collection[str]) -> str:
        """Count each fact once: a conflict copy repeats most of its note, which would make losses look small."""
        notes = (text for key, text in laid.items() if PurePosixPath(key).name != INDEX)
        total = len({fact.casefold() for text in notes for fact in facts(text)})
        if len(removed) <= max(1, self._settings.dream_max_removed * total):
            return ""
        return f"it would have removed {len(removed)} of {total} facts"

    async def _consolidated(
        self, scope: Scope, material: Material, ledger: Sources, left_alone: Collection[str], progress: Progress | None
    ) -> Consolidated:
        async def task() -> Task:
            return Task(
                purpose=PURPOSE,
                prompt=tidy_prompt(scope, material, left_alone, now=self._clock()),
                max_turns=self._settings.team_tidy_max_turns,
                told=_nothing_told,
            )

        consolidate = Consolidation(
            self._run,
            notes=self._notes,
            leases=self._leases,
            notice=_unheard,
            settings=self._settings,
            clock=self._clock,
            ledger=ledger,
            budget=self._budget,
        )
        return await consolidate(scope, task, progress=progress)


def _laid(material: Material) -> dict[str, str]:
    """Return what the run is given: without what it can't have, and with the indexes' conflict copies merged already.

    Lines of an index need no judgement, and as facts of a note they would be missed.
    """
    shown = {key: text for key, text in material.texts.items() if PurePosixPath(key).parts[0] not in _APART}
    for copy in [key for key in shown if _of_index(key)]:
        index = PurePosixPath(copy).with_name(INDEX)
        here = partial(_stands, shown, index.parent)
        shown[str(index)] = merged(shown.pop(copy), shown.get(str(index), ""), seen=(), exists=here)
    return shown


def _of_index(key: str) -> bool:
    name = PurePosixPath(key).name
    return is_conflict_copy(name) and name.startswith(f"{PurePosixPath(INDEX).stem}.conflict-")


def _stands(texts: Mapping[str, str], folder: PurePosixPath, name: str) -> bool:
    return str(folder / name) in texts


def _lay_out(folder: Path, directory: Path, texts: Mapping[str, str]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    make_private(directory)
    for key, text in texts.items():
        place = directory / key
        make_private(place.parent)
        place.touch(mode=0o600)
        with place.open("w", encoding="utf-8", newline="") as stream:
            stream.write(text)


def _compared(material: Material, laid: Mapping[str, str], after: LocalCopy, done: Consolidated) -> Tidied:
    settled = {key for key in material.copies if _of_index(key)}
    before = {key: text for key, text in material.texts.items() if key in laid or key in settled}
    if after.skipped or any(is_conflict_copy(key) and text != before.get(key) for key, text in after.texts.items()):
        return Tidied(ending=Ending.REFUSED, reason="it left a file that can't be shared")
    try:
        changes = changes_between(before, after.texts)
    except WriteRefused as error:
        return Tidied(ending=Ending.REFUSED, reason=str(error))
    if secrets := secrets_in(changes):
        return Tidied(ending=Ending.REFUSED, reason=f"what it wrote can't be shared: {secrets}")
    ending = Ending.CHANGED if changes else Ending.UNCHANGED
    return Tidied(ending=ending, changes=changes, removed=done.removed)


def tidy_prompt(scope: Scope, material: Material, left_alone: Collection[str], *, now: datetime) -> str:
    """Return the task: the conflict copies first, then what else is double, contradicts itself or is listed wrong."""
    copies = sorted(key for key in material.copies if not _of_index(key))
    listed = "\n".join(f"- {key}" for key in copies) or "(none)"
    kept = "".join(f"\n- Leave `{key}` as it is: an administrator wants that." for key in sorted(left_alone))
    return f"""This is the tidying of a team's shared notes (today is {now.date().isoformat()}). What you write is a \
proposal: the team's administrators see each difference and may refuse it. So change what needs it, and nothing else.

Memory directory: {scope.memory_dir}

Conflict copies, each the text that lost when two people changed a note at once:
{listed}

What holds throughout:
- A fact leaves only when another one repeats it. When in doubt it stays.
- Keep with each fact who said it and when, in the words that stand there. Never move a fact to another person.
- Where two facts contradict each other and it is not plain which holds now, keep both, each with its name and date.
- Leave `author` and `source` in the headers alone: they are put there for you.
- Read a note before you change it. Turns are limited: do all reading first, then all writing.{kept}

1. Conflict copies. `NAME.conflict-….md` belongs to `NAME.md`. Put what only the copy says into `NAME.md`, and make \
that note anew if it is gone. Then delete the copy.
2. Doubles. Where two notes say the same, merge them into the one with the better name, and delete the other.
3. The index `{INDEX}`. One line for each note; take out lines whose note is gone, add those that are missing. No line \
for a conflict copy.

End with two or three plain sentences on what you changed and why, or say that nothing needed changing."""


def _nothing_told(_: Consolidated) -> str:
    return ""


async def _unheard(scope: Scope, text: str) -> None:
    """Tell nobody: there is no chat that this memory is of."""
