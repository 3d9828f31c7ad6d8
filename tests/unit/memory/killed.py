"""Dreams that are killed at every system call that writes, each in a process of its own; prints what is found after.

`python -m tests.unit.memory.killed FOLDER OUTCOME` lets the run end so, and prints one JSON object per kill: the notes
after the recovery, and whether a dream that had not ended is left. REVERIE_TEST_STRIDE=1 kills at every single call.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from memory.journal import unfinished
from memory.ports import Outcome
from memory.scope import Scope
from tests.unit.memory.dreams import Night, ScriptedRun, tidy

_CALLS = ("fsync", "rename", "unlink", "write", "replace")
_KILLED = 9
_STRIDE = int(os.environ.get("REVERIE_TEST_STRIDE", "5"))
_SAID = "- just said by Ann\n"


def main(root: Path, outcome: Outcome) -> None:
    """Kill at the first call, the second, and so on, until a dream lives to its end."""
    step, alive = _STRIDE, False
    while not alive:
        step += _STRIDE
        folder = root / f"{step}"
        folder.mkdir()
        alive = not _apart(lambda: _dream(folder, outcome, kill_at=step))  # noqa: B023  (it is called at once)
        if not alive:
            _apart(lambda: _recover(folder))  # noqa: B023


def _apart(work: Callable[[], None]) -> bool:
    """Do the work in another process and return whether it was killed."""
    child = os.fork()
    if not child:
        work()
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, _KILLED), status
    return status == _KILLED


def _dream(folder: Path, outcome: Outcome, *, kill_at: int) -> None:
    night = Night(folder)
    night.put("old.md", "- another fact about trains\n")
    night.put("MEMORY.md", "- [A](a.md) — tea\n- [Old](old.md) — trains\n")
    night.run.script, night.run.outcome = _tidy, outcome
    _count(kill_at)
    asyncio.run(night.dream(night.scope))


async def _tidy(run: ScriptedRun, scope: Scope) -> None:
    await run.delete(scope, "old.md")
    await tidy(run, scope)


def _count(kill_at: int) -> None:
    """Let the process die right before its n-th call, or right after it."""
    calls = 0

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **more: Any) -> Any:
            nonlocal calls
            for moment in (lambda: None, lambda: real(*given, **more)):
                done = moment()
                calls += 1
                if calls == kill_at:
                    os._exit(_KILLED)
            return done

        return call

    for name in _CALLS:
        setattr(os, name, counted(getattr(os, name)))


def _recover(folder: Path) -> None:
    """Find what the dead one left, as another process does; meanwhile somebody has said something."""
    night = Night(folder, fresh=False)
    with (night.directory / "a.md").open("a") as note:
        note.write(_SAID)
    (night.directory / "c.md").write_text(_SAID)
    with night.scope.index.open("a") as index:
        index.write("- [C](c.md) — said\n")
    asyncio.run(night.consolidation.recover(night.scope))
    print(json.dumps({"texts": night.texts(), "left": len(unfinished(night.scope)), "told": night.told}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Outcome(sys.argv[2]))
