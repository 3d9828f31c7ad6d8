"""Instruction files of the folders between the top of a git checkout and the project's root in it."""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from memory.errors import PathRefused
from memory.instructions.files import Loaded
from memory.instructions.layers import Instructions
from memory.instructions.settings import InstructionSettings
from memory.paths import Homes, ProjectRef, readable_path
from memory.scope import Mode, Scope
from memory.settings import MemorySettings

CANARY = "canary-51c2"


@dataclass(frozen=True, kw_only=True)
class World:
    """A checkout `mono` with the project's root in it, and the homes beside it."""

    base: Path

    @property
    def top(self) -> Path:
        return self.base / "mono"

    @property
    def root(self) -> Path:
        return self.top / "services" / "apollo"

    def scope(self, *, root: Path | None = None, homes: Path | None = None, member: bool = True) -> Scope:
        return Homes(homes or self.base / "homes", settings=MemorySettings()).scope(
            principal="ann", project=ProjectRef(name="apollo", root=root or self.root), member=member, shared=False,
            mode=Mode.AUTO, timezone="UTC",
        )  # fmt: skip

    async def load(self, *, root: Path | None = None, homes: Path | None = None, member: bool = True) -> Loaded:
        homes = homes or self.base / "homes"
        found = Instructions(
            homes=Homes(homes, settings=MemorySettings()), managed_dir=self.base / "etc", settings=InstructionSettings()
        )
        return await found.load(self.scope(root=root, homes=homes, member=member))


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(base=tmp_path.resolve())
    made.root.mkdir(parents=True)
    return made


def put(path: Path, text: str = "words") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def git(folder: Path, *words: str) -> None:
    names = {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1", **names}
    subprocess.run(["git", *words], cwd=folder, env=environ, check=True, capture_output=True, timeout=60)


def paths(loaded: Loaded) -> Sequence[Path]:
    return [file.path for file in loaded.files]


async def test_from_the_top_of_the_checkout_down_to_the_root_every_folder_has_its_say(world: World) -> None:
    git(world.top, "init")
    names = ("CLAUDE.md", ".claude/CLAUDE.md", ".claude/rules/a.md")
    expected = [put(folder / name) for folder in (world.top, world.top / "services", world.root) for name in names]
    put(world.base / "CLAUDE.md", CANARY)
    put(world.top / "other/CLAUDE.md", CANARY)
    loaded = await world.load()
    assert paths(loaded) == expected
    assert (await world.load(member=False)).files == ()


async def test_in_a_worktree_the_walk_begins_at_the_worktree_even_inside_its_repository(world: World) -> None:
    git(world.top, "init")
    put(world.top / "CLAUDE.md", CANARY)
    git(world.top, "commit", "--allow-empty", "-m", "x")
    git(world.top, "worktree", "add", "trees/side")
    side = world.top / "trees" / "side"
    expected = [put(side / "CLAUDE.md"), put(side / "services/apollo/CLAUDE.md")]
    assert paths(await world.load(root=side / "services/apollo")) == expected


@pytest.mark.parametrize("forged", ["", "gitdir: /nowhere", "gitdir: {other}/.git/worktrees/side"])
async def test_a_git_file_that_anybody_could_have_made_up_opens_nothing(world: World, forged: str) -> None:
    other = world.base / "other"
    other.mkdir()
    git(other, "init")
    (other / ".git/worktrees/side").mkdir(parents=True)
    put(other / ".git/worktrees/side/commondir", "../..")
    put(other / ".git/worktrees/side/gitdir", f"{other}/elsewhere/.git")
    put(world.top / ".git", forged.format(other=other))
    put(world.top / "CLAUDE.md", CANARY)
    assert paths(await world.load()) == [] == paths(await world.load(root=world.top / "services"))


async def test_without_a_checkout_only_the_root_counts(world: World) -> None:
    put(world.top / "CLAUDE.md", CANARY)
    own = put(world.root / "CLAUDE.md")
    assert paths(await world.load()) == [own]


async def test_a_checkout_that_holds_the_homes_is_none(world: World) -> None:
    git(world.top, "init")
    put(world.top / "CLAUDE.md", CANARY)
    own = put(world.root / "CLAUDE.md")
    assert paths(await world.load(homes=world.top / "reverie/homes")) == [own]


async def test_the_checkout_opens_nothing_else_to_a_tool(world: World) -> None:
    git(world.top, "init")
    above = put(world.top / "CLAUDE.md")
    assert paths(await world.load()) == [above]
    assert world.scope().readable == (world.scope().memory_dir, world.root)
    for path in (above, world.top / "secrets.md"):
        with pytest.raises(PathRefused):
            readable_path(world.scope(), str(path))


async def test_an_include_reaches_what_lies_below_its_own_folder_or_in_the_root_and_nothing_else(world: World) -> None:
    git(world.top, "init")
    middle = put(world.top / "services/CLAUDE.md", "@docs/a.md @../secrets.md @.git/config @apollo/own.md @/etc/hosts")
    allowed = [put(world.top / "services/docs/a.md", "@b.md @../c.md"), put(world.top / "services/docs/b.md")]
    own = put(world.root / "own.md")
    for name in ("secrets.md", "services/c.md", "services/.git/config"):
        put(world.top / name, CANARY)
    inner = put(world.root / "CLAUDE.md", "@../docs/other.md")
    put(world.top / "services/docs/other.md", CANARY)
    loaded = await world.load()
    assert paths(loaded) == [middle, *allowed, own, inner]
    assert {skipped.label for skipped in loaded.skipped} == {str(each) for each in (middle, allowed[0], inner)}


async def test_an_include_by_way_of_the_home_reaches_no_more_there_than_from_the_home(world: World) -> None:
    git(world.top, "init")
    home = world.base / "homes" / "ann"
    above = put(world.top / "CLAUDE.md", "@~/own.md @~/projects/other/memory/secret.md")
    own = put(home / "own.md", "@projects/other/memory/secret.md @more.md")
    more = put(home / "more.md")
    put(home / "projects/other/memory/secret.md", CANARY)
    assert paths(await world.load()) == [above, own, more]


async def test_a_link_in_the_checkout_leads_nowhere_else(world: World) -> None:
    git(world.top, "init")
    (world.top / "CLAUDE.md").symlink_to(put(world.base / "outside.md", CANARY))
    (world.top / "services/CLAUDE.md").symlink_to(put(world.top / "secrets.md", CANARY))
    (world.top / ".claude").symlink_to(put(world.base / "elsewhere/CLAUDE.md", CANARY).parent)
    put(world.base / "elsewhere/rules/a.md", CANARY)
    beside = put(world.top / "services/AGENTS.md")
    put(world.top / "services/.claude/x.md").with_name("CLAUDE.md").symlink_to(beside)
    assert paths(await world.load()) == [beside]
