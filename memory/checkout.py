"""Which repository a project's root folder belongs to, so that its worktrees share one memory."""

import os
from pathlib import Path

_LONGEST = 4096


def canonical_root(folder: Path) -> Path:
    """Return the real path of the checkout around `folder` (the main one of a worktree), else of `folder`.

    A worktree's `.git` file could be made up to reach another repository's memory, so it is believed only if
    the repository lists this worktree too. For a worktree of a bare repository the repository itself is the
    answer.
    """
    real = Path(os.path.realpath(folder))
    for place in (real, *real.parents):
        mark = place / ".git"
        if mark.is_dir():
            return place
        if mark.is_file():
            return _main_checkout(place) or place
    return real


def _main_checkout(worktree: Path) -> Path | None:
    try:
        word, _, target = _line(worktree / ".git").partition(":")
        own = _resolved(worktree, target.strip())
        common = _resolved(own, _line(own / "commondir"))
        back = _resolved(own, _line(own / "gitdir"), last=False)
    except (OSError, ValueError):  # a submodule has no commondir: it keeps its own root
        return None
    if word != "gitdir" or own.parent != common / "worktrees" or back != worktree / ".git":
        return None
    return common.parent if common.name == ".git" else common


def _line(file: Path) -> str:
    with file.open(encoding="utf-8") as stream:
        text = stream.read(_LONGEST).strip()
    if not text or "\n" in text or "\0" in text:
        raise ValueError("not one line")
    return text


def _resolved(base: Path, target: str, *, last: bool = True) -> Path:
    """Resolve `target` from `base`; without `last` its final name stays as it is written."""
    joined = base / target
    return Path(os.path.realpath(joined)) if last else Path(os.path.realpath(joined.parent)) / joined.name
