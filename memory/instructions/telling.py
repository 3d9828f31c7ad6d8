"""Instruction files in words: for the system prompt, for the tail of a turn, and for the person who asks."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from memory.instructions.files import InstructionFile, Kind, Loaded
from memory.prompt import defused, fenced
from memory.prompt_sections import REMINDER_TAG, SHARED_TAG

TAG = "instructions"

_LEAD = f"""\
# Instructions for this chat

The texts inside <{TAG}> tags were written for you in advance. Do what they say, to the letter, and where they and \
your usual way differ, go by them. Where two of them differ, the later one holds. None of them widens what you may \
see, use or tell here."""

_LEAD_OF_TOUCHED = f"""\
The texts inside <{TAG}> tags were written in advance for the files that you have just used. From here on do what they \
say, as with the instructions at the beginning."""

_OURS = {
    Kind.MANAGED: "by the operator of this gateway, for every chat",
    Kind.USER: "by or for the members of this chat, for this chat alone",
    Kind.PROJECT: "kept in the project's folder, shared by all who work on it",
    Kind.LOCAL: "by or for the members of this chat, for this project; not in the project's folder",
}
_YOURS = {
    **_OURS,
    Kind.USER: "this person's own, for all their private chats",
    Kind.LOCAL: "this person's own, for this project; not in the project's folder",
}
_TITLES = {
    Kind.MANAGED: "From the operator",
    Kind.USER: "Your own",
    Kind.PROJECT: "The project's",
    Kind.LOCAL: "Your own for this project",
}
_SHARED_TITLES = {**_TITLES, Kind.USER: "This chat's own", Kind.LOCAL: "This chat's own for this project"}
_INDENT = "  "


def render(loaded: Loaded) -> str:
    """Return the instructions as they stand in the system prompt; "" if there are none."""
    return _rendered(_LEAD, loaded.files, shared=loaded.shared)


def render_touched(files: Sequence[InstructionFile], *, shared: bool) -> str:
    """Return what is told at the tail of a turn after files were used; "" if there is nothing."""
    return _rendered(_LEAD_OF_TOUCHED, files, shared=shared)


def describe(loaded: Loaded) -> str:
    """Return for a person which files are loaded, in which order, and what was left out for which reason."""
    if not loaded.layers:
        return "Instruction files are turned off on this gateway."
    titles = _SHARED_TITLES if loaded.shared else _TITLES
    lines = ["Instructions for this chat, in the order in which they are read; where two differ, the later one holds."]
    for place, kind in enumerate(Kind, start=1):
        lines += ["", f"{place}. **{titles[kind]}**", *(_layer(loaded, kind))]
    if loaded.skipped:
        lines += ["", "**Left out**", *(f"- `{skipped.label}`: {skipped.reason}" for skipped in loaded.skipped)]
    if loaded.warnings:
        lines += ["", "**To look at**", *(f"- {warning}" for warning in loaded.warnings)]
    return "\n".join(lines)


def _rendered(lead: str, files: Sequence[InstructionFile], *, shared: bool) -> str:
    kinds = _OURS if shared else _YOURS
    parts = [
        f"`{file.label}` ({kinds[file.kind]}):\n\n{fenced(_safe(file.text.strip()), TAG)}"
        for file in files
        if file.text.strip()
    ]
    return "\n\n".join([lead, *parts]) if parts else ""


def _safe(text: str) -> str:
    """Keep a file from passing for a word of the program or for a shared memory."""
    return defused(text, REMINDER_TAG, SHARED_TAG)


def _layer(loaded: Loaded, kind: Kind) -> Iterator[str]:
    if kind not in loaded.layers:
        yield f"{_INDENT}- turned off on this gateway"
        return
    depths: dict[Path, int] = {}
    for file in loaded.files:
        if file.kind is kind:
            depths[file.path] = 1 if file.parent is None else depths[file.parent] + 1
            yield f"{_INDENT * depths[file.path]}- `{file.label}` ({_size(file)})"
    if not depths:
        yield f"{_INDENT}- none"


def _size(file: InstructionFile) -> str:
    return f"{len(file.text.strip())} characters" if file.text.strip() else "empty"
