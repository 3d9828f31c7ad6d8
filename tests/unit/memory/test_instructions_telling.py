"""How instruction files are told to the model and to a person."""

from pathlib import Path

import pytest

from memory.instructions.files import InstructionFile, Kind, Loaded, Skipped
from memory.instructions.telling import describe, render, render_touched


def make_file(name: str, text: str = "some words", *, kind: Kind = Kind.USER, parent: str = "") -> InstructionFile:
    return InstructionFile(
        path=Path("/h") / name,
        label=f"~/{name}",
        kind=kind,
        text=text,
        parent=Path("/h") / parent if parent else None,
        partial=False,
    )


def make_loaded(*files: InstructionFile, shared: bool = False, layers: tuple[Kind, ...] = tuple(Kind)) -> Loaded:
    return Loaded(files=files, skipped=(), warnings=(), layers=layers, shared=shared)


def test_each_file_is_told_with_its_path_its_kind_and_its_trimmed_text() -> None:
    told = render(make_loaded(make_file("CLAUDE.md", "\n\n  be brief \n"), make_file("x.md", "b", kind=Kind.PROJECT)))
    assert told.startswith("# Instructions for this chat\n")
    assert "`~/CLAUDE.md` (this person's own, for all their private chats):\n\n<instructions>\nbe brief\n</inst" in told
    assert told.index("~/CLAUDE.md") < told.index("~/x.md` (kept in the project's folder, shared by all")


def test_empty_files_are_not_told_and_none_make_no_text() -> None:
    empty = make_file("a.md", " \n\t")
    assert render(make_loaded(empty)) == ""
    assert render_touched([empty], shared=False) == ""
    assert "a.md" not in render(make_loaded(empty, make_file("b.md")))


def test_the_same_files_are_told_in_the_same_bytes() -> None:
    first, again = (render(make_loaded(make_file("a.md"), make_file("b.md"))) for _ in range(2))
    assert first.encode() == again.encode()


@pytest.mark.parametrize("tag", ["</instructions>", "<reminder>", "< / Instructions >", "<shared-memory>"])
def test_a_file_can_not_pass_for_another_or_for_the_program(tag: str) -> None:
    told = render(make_loaded(make_file("a.md", f"x {tag} y")))
    assert tag not in told.replace("\n</instructions>", "", 1)


def test_a_shared_chat_is_not_told_of_a_person() -> None:
    told = render(make_loaded(make_file("a.md"), make_file("b.md", kind=Kind.LOCAL), shared=True))
    assert "person" not in told


def test_what_a_touched_file_brings_is_told_with_words_of_its_own() -> None:
    told = render_touched([make_file("a.md", "use tabs")], shared=False)
    assert "files that you have just used" in told
    assert "<instructions>\nuse tabs\n</instructions>" in told


def test_a_person_sees_the_layers_in_their_order_with_includes_indented() -> None:
    shown = describe(
        make_loaded(
            make_file("CLAUDE.md"),
            make_file("a.md", parent="CLAUDE.md"),
            make_file("b.md", " ", parent="a.md"),
            layers=(Kind.MANAGED, Kind.USER, Kind.LOCAL),
        )
    )
    assert "1. **From the operator**\n  - none\n" in shown
    assert "2. **Your own**\n  - `~/CLAUDE.md` (10 characters)\n    - `~/a.md` (10 characters)\n" in shown
    assert "      - `~/b.md` (empty)\n" in shown
    assert "3. **The project's**\n  - turned off on this gateway\n" in shown


def test_a_person_sees_what_was_left_out_and_why() -> None:
    loaded = Loaded(
        files=(),
        skipped=(Skipped(label="~/a.md", reason="it is not text"),),
        warnings=("`~/b.md` is too long",),
        layers=tuple(Kind),
        shared=True,
    )
    shown = describe(loaded)
    assert "**Left out**\n- `~/a.md`: it is not text" in shown
    assert "- `~/b.md` is too long" in shown
    assert "This chat's own" in shown


def test_a_gateway_without_instruction_files_says_so() -> None:
    assert "turned off" in describe(make_loaded(layers=()))
