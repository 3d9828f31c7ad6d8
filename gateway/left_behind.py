"""Notes that no chat comes to any more, as their project's folder has another name by now.

The folder of a project is named for its name or, where it has a root, for that and its repo. One that is given a root,
or another root or repo, begins a new one, and a project that is declared no more leaves its own behind.
"""

from dataclasses import dataclass
from pathlib import Path

from gateway.settings import ProjectSettings, Settings
from memory.paths import UNNAMED, project_folder


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftBehind:
    """A folder in `projects/` of a home, how many notes lie in it, and where they belong now, if that can be told."""

    folder: Path
    notes: int
    project: str = ""
    now: Path | None = None


def left_behind(settings: Settings, projects: Path) -> list[LeftBehind]:
    """Return what is left behind in one home; blocking. `projects` is the folder over all memories of it."""
    if projects.resolve().parent.parent != (settings.memory_base / "homes").resolve() or not projects.is_dir():
        return []  # elsewhere the operator has chosen the names
    present = {_folder(name, project): name for name, project in settings.projects.items()}
    former = {old: name for name, project in settings.projects.items() for old in _former(name, project)}
    found = []
    for folder in sorted(projects.iterdir()):
        notes = sum(1 for each in folder.glob("memory/**/*.md"))
        if notes and folder.name not in present and folder.name != UNNAMED:
            name = former.get(folder.name, "")
            now = projects / _folder(name, settings.projects[name]) if name else None
            found.append(LeftBehind(folder=folder, notes=notes, project=name, now=now))
    return found


def _folder(name: str, project: ProjectSettings) -> str:
    return project_folder(name, root=project.root, repo=project.repo or name)


def _former(name: str, project: ProjectSettings) -> set[str]:
    """Return the folder names that a project had before it was given its root, or its repo."""
    return {project_folder(name, root=None, repo=name), project_folder(name, root=project.root, repo=name)}
