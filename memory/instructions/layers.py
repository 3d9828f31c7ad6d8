"""The four layers of instruction files: the operator's, the principal's, the project's, the principal's for it.

managed < user < project, from the top of its checkout down to its root < local: what is loaded later wins
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from anyio import to_thread

from memory.errors import PathRefused
from memory.instructions.files import InstructionFile, Kind, Loaded
from memory.instructions.loading import Loading, Occasion
from memory.instructions.reach import Reach
from memory.instructions.settings import InstructionSettings
from memory.paths import Homes
from memory.scope import Scope

MAIN = "CLAUDE.md"
LOCAL = "CLAUDE.local.md"
_HIDDEN = ".claude"
_RULES = "rules"


class Instructions:
    """Loads the instruction files of a scope. `managed_dir` is the operator's folder; it need not exist."""

    def __init__(self, *, homes: Homes, managed_dir: Path, settings: InstructionSettings) -> None:
        self._homes = homes
        self._managed_dir = managed_dir
        self._settings = settings

    async def load(self, scope: Scope) -> Loaded:
        """Return what a session of this scope begins with; never raises for what is in files or folders.

        Nothing is kept from one call to the next: the host freezes the answer for a session.
        """
        return await to_thread.run_sync(self._load, scope)

    async def rules_for(self, scope: Scope, touched: Path, already: frozenset[Path]) -> Sequence[InstructionFile]:
        """Return what is to be told because a tool has used the file `touched`, least important first.

        These are the rules whose `paths` it matches and the instruction files of the folders between the
        project's root and it. `already` are the paths that this session has been told; whoever calls adds those
        of the answer, and begins anew after a compaction. Nothing for a file that the scope can't read.
        """
        return await to_thread.run_sync(partial(self._for_touched, scope, touched, already))

    def _load(self, scope: Scope) -> Loaded:
        layers = self._settings.layers
        reach = Reach(scope, homes=self._homes, managed_dir=self._managed_dir)
        loading = Loading(reach, self._settings, Occasion())
        if Kind.MANAGED in layers:
            loading.take(reach.managed / MAIN, Kind.MANAGED)
            self._general_rules(loading, reach, Kind.MANAGED, always=True)
        if Kind.USER in layers:
            loading.take(reach.home / MAIN, Kind.USER)
            self._general_rules(loading, reach, Kind.USER, always=True)
        for folder in reach.project_folders() if Kind.PROJECT in layers else ():
            _take_folder(loading, folder)
        if Kind.LOCAL in layers:
            loading.take(reach.local / LOCAL, Kind.LOCAL)
        return Loaded(
            files=tuple(loading.files),
            skipped=tuple(loading.skipped),
            warnings=tuple(loading.warnings),
            layers=layers,
            shared=scope.shared,
            unreadable=tuple(loading.unreadable),
        )

    def _for_touched(self, scope: Scope, path: Path, already: frozenset[Path]) -> Sequence[InstructionFile]:
        reach = Reach(scope, homes=self._homes, managed_dir=self._managed_dir)
        try:
            touched = reach.touched(path)
        except PathRefused:
            return ()
        layers = self._settings.layers
        loading = Loading(reach, self._settings, Occasion(touched=touched, already=already))
        for kind in (Kind.MANAGED, Kind.USER):
            if kind in layers:
                self._general_rules(loading, reach, kind, always=False)
        if Kind.PROJECT in layers:
            for folder in reach.folders_towards(touched):
                _take_folder(loading, folder)
            for folder in reach.project_folders():
                loading.take_rules(folder / _HIDDEN / _RULES, Kind.PROJECT, base=folder, always=False)
        return tuple(loading.files)

    def _general_rules(self, loading: Loading, reach: Reach, kind: Kind, *, always: bool) -> None:
        """Take the rules that stand outside of any project: their patterns count from where the chat works."""
        folder = reach.managed / _HIDDEN / _RULES if kind is Kind.MANAGED else reach.home / _RULES
        loading.take_rules(folder, kind, base=reach.work, always=always)


def _take_folder(loading: Loading, folder: Path) -> None:
    loading.take(folder / MAIN, Kind.PROJECT, folder=folder)
    loading.take(folder / _HIDDEN / MAIN, Kind.PROJECT, folder=folder)
    loading.take_rules(folder / _HIDDEN / _RULES, Kind.PROJECT, base=folder, always=True)
