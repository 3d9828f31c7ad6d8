"""The memories in the homes: whether a chat comes to each of them."""

from gateway.checks.finding import Finding, ok, warn
from gateway.left_behind import LeftBehind, left_behind
from gateway.settings import Settings
from memory.counts import counted

_LISTED = 10


def check_memories(settings: Settings) -> list[Finding]:
    """Name the folders with notes that no chat comes to, as their project is declared otherwise by now."""
    homes = sorted((settings.memory_base / "homes").glob("*/projects"))
    found = [each for home in homes for each in left_behind(settings, home)]
    more = [f"{len(found) - _LISTED} more folders"] if len(found) > _LISTED else []
    said = [_said(each) for each in found[:_LISTED]]
    said += [warn("memories", f"{each} hold notes that nothing reads any more", _OTHERWISE) for each in more]
    return said or [ok("memories", "every folder with notes belongs to a project as it is declared now")]


_OTHERWISE = (
    "If a project has another root or repo by now, stop the gateway and move what lies in its memory folder to that of "
    "the same home whose name the project has now; if it is declared no more, declare it again, or keep the folder as "
    "an archive."
)


def _said(each: LeftBehind) -> Finding:
    notes = f"{each.folder} has {counted(each.notes, 'note')} that nothing reads any more"
    if each.now is None:
        return warn("memories", f"{notes}: no project is declared that would have this folder", _OTHERWISE)
    why = f"{each.project} has a root or a repo by now, and with it another folder"
    how = f"move it to {each.now}" if not each.now.exists() else f"move its notes to {each.now / 'memory'}"
    return warn("memories", f"{notes}: {why}", f"Stop the gateway and {how}, or take the root or repo out again.")
