"""Which paths count as memory, told from their text alone."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.detection import MemoryKind, kind_of
from memory.scope import Mode, Scope

HOME = Path("/srv/reverie")
A = HOME / "homes/ann/projects/tea/memory"
SCOPE = Scope(
    principal="ann", project="tea", memory_dir=A, team_dir=A / "team", mode=Mode.AUTO, shared=False, enabled=True,
    timezone="UTC", readable=(A,), writable=(A,),
)  # fmt: skip
PIECES = st.lists(st.sampled_from(["a", "b.md", "team", "..", ".", "", "memory", "agent-memory", "teams"]), max_size=8)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (A, MemoryKind.PERSONAL),
        (A / "MEMORY.md", MemoryKind.PERSONAL),
        (A / "logs/2031/05/2031-05-02.md", MemoryKind.PERSONAL),
        (A / "agent-memory/x/a.md", MemoryKind.PERSONAL),
        ("a.md", MemoryKind.PERSONAL),
        (f"//{A}/a.md", MemoryKind.PERSONAL),
        (A / "team", MemoryKind.TEAM),
        (A / "team/sub/a.md", MemoryKind.TEAM),
        ("team/a.md", MemoryKind.TEAM),
        (A / "team/../a.md", MemoryKind.PERSONAL),
        (A / "teams/a.md", MemoryKind.PERSONAL),
        (f"{A}-evil/a.md", None),
        (A / "../x.md", None),
        (HOME / "homes/ann/agent-memory/reviewer/a.md", MemoryKind.AGENT),
        (HOME / "homes/ann/projects/tea/agent-memory-local/reviewer/a.md", MemoryKind.AGENT),
        ("/code/tea/.claude/agent-memory/reviewer", MemoryKind.AGENT),
        ("/code/tea/.claude/agent-memory", None),
        ("/code/tea/.claude/agent-memory-snapshots/reviewer/a.md", None),
        ("/code/tea/CLAUDE.md", None),
        (HOME / "homes/ann/CLAUDE.md", None),
        ("/x/session-memory/a.md", None),
        ("/x/projects/a.jsonl", None),
        ("", None),
        ("a\0.md", None),
    ],
)
def test_team_comes_before_personal_and_personal_before_agents(path: Path | str, kind: MemoryKind | None) -> None:
    assert kind_of(SCOPE, path) is kind


def test_with_memory_off_nothing_is_memory() -> None:
    assert kind_of(replace(SCOPE, enabled=False), A / "a.md") is None


def test_what_a_lost_membership_left_behind_is_no_memory() -> None:
    assert kind_of(replace(SCOPE, team_dir=None), A / "team/a.md") is None


@settings(deadline=None)
@given(PIECES)
def test_a_path_is_memory_of_the_chat_exactly_if_it_ends_up_in_it(pieces: list[str]) -> None:
    path = "/".join([str(A), *pieces])
    place: list[str] = []
    for piece in path.split("/"):
        match piece:
            case "" | ".":
                continue
            case "..":
                place = place[:-1]
            case _:
                place.append(piece)
    inside = Path("/", *place).is_relative_to(A)
    assert (kind_of(SCOPE, path) in (MemoryKind.TEAM, MemoryKind.PERSONAL)) == inside
