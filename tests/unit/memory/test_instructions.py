"""The layers of instruction files: what is loaded for whom, in which order, and what never is."""

import errno
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from memory.disk import Folder, Stored
from memory.instructions import loading
from memory.instructions.files import InstructionFile, Kind, Loaded
from memory.instructions.layers import Instructions
from memory.instructions.settings import InstructionSettings
from memory.instructions.telling import describe
from memory.paths import Homes, ProjectRef
from memory.scope import Mode, Scope
from memory.settings import MemorySettings

CANARY = "canary-7f3a"


@dataclass(frozen=True, kw_only=True)
class World:
    """A gateway's folders, with the person ann and the project apollo in them."""

    root: Path
    homes: Homes

    @property
    def managed(self) -> Path:
        return self.root / "etc"

    @property
    def project(self) -> Path:
        return self.root / "src" / "apollo"

    @property
    def home(self) -> Path:
        return self.homes.home("ann")

    def scope(
        self, principal: str = "ann", *, member: bool = True, project: bool = True, shared: bool = False
    ) -> Scope:
        return self.homes.scope(
            principal=principal,
            project=ProjectRef(name="apollo", root=self.project) if project else None,
            member=member,
            shared=shared,
            mode=Mode.AUTO,
            timezone="UTC",
        )

    @property
    def local(self) -> Path:
        return self.scope().memory_dir.parent

    def instructions(self, options: InstructionSettings | None = None) -> Instructions:
        return Instructions(homes=self.homes, managed_dir=self.managed, settings=options or InstructionSettings())

    async def load(self, scope: Scope | None = None, options: InstructionSettings | None = None) -> Loaded:
        return await self.instructions(options).load(scope or self.scope())


def make_world(root: Path, *, directory: str | None = None) -> World:
    root = Path(os.path.realpath(root))
    return World(root=root, homes=Homes(root / "homes", settings=MemorySettings(auto_memory_directory=directory)))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


def put(path: Path, text: str | bytes = "some words") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def paths(files: Sequence[InstructionFile]) -> list[Path]:
    return [file.path for file in files]


def texts(loaded: Loaded) -> str:
    return "\n".join(file.text for file in loaded.files)


async def test_the_layers_are_loaded_from_the_operators_to_the_persons_own_for_the_project(world: World) -> None:
    expected = [
        put(world.managed / "CLAUDE.md"),
        put(world.managed / ".claude/rules/a.md"),
        put(world.home / "CLAUDE.md"),
        put(world.home / "rules/b/c.md"),
        put(world.project / "CLAUDE.md"),
        put(world.project / ".claude/CLAUDE.md"),
        put(world.project / ".claude/rules/d.md"),
        put(world.local / "CLAUDE.local.md"),
    ]
    loaded = await world.load()
    assert paths(loaded.files) == expected
    assert [str(file.kind)[0] for file in loaded.files] == list("mmuupppl")


async def test_nothing_is_loaded_and_nothing_told_where_there_are_no_files(world: World) -> None:
    loaded = await world.load()
    assert (loaded.files, loaded.skipped, loaded.warnings) == ((), (), ())


async def test_rules_come_in_the_order_of_their_paths(world: World) -> None:
    for name in ("b.md", "a/z.md", "a/b/c.md", "c.txt", "README.MD"):
        put(world.home / "rules" / name)
    found = [str(file.path.relative_to(world.home / "rules")) for file in (await world.load()).files]
    assert found == ["README.MD", "a/b/c.md", "a/z.md", "b.md"]


async def test_what_lies_above_the_projects_root_is_not_read(world: World) -> None:
    put(world.project.parent / "CLAUDE.md", CANARY)
    put(world.root / "CLAUDE.md", CANARY)
    put(world.project / "CLAUDE.md", "ours")
    loaded = await world.load()
    assert (texts(loaded), loaded.skipped) == ("ours", ())


async def test_folders_above_the_root_come_first_where_the_scope_may_read_them(world: World) -> None:
    scope = replace(world.scope(), readable=(world.scope().memory_dir, world.project, world.project.parent))
    put(world.root / "CLAUDE.md", CANARY)
    above = put(world.project.parent / "CLAUDE.md")
    own = put(world.project / "CLAUDE.md")
    assert paths((await world.load(scope)).files) == [above, own]


async def test_someone_who_is_no_member_sees_nothing_of_the_project(world: World) -> None:
    put(world.project / "CLAUDE.md", CANARY)
    assert (await world.load(world.scope(member=False))).files == ()


async def test_a_persons_files_are_in_nobody_elses_chats(world: World) -> None:
    for place in (world.home / "CLAUDE.md", world.home / "rules/a.md", world.local / "CLAUDE.local.md"):
        put(place, CANARY)
    group = world.scope("chat-group", shared=True)
    for scope in (group, world.scope("bob"), world.scope("bob", project=False)):
        assert (await world.load(scope)).files == ()
    assert texts(await world.load()).count(CANARY) == 3


async def test_a_shared_chat_has_instructions_of_its_own(world: World) -> None:
    put(world.homes.home("chat-group") / "CLAUDE.md", "be brief")
    assert texts(await world.load(world.scope("chat-group", shared=True))) == "be brief"
    assert texts(await world.load()) == ""


@pytest.mark.parametrize(
    "target", ["homes/bob/CLAUDE.md", "outside/CLAUDE.md", "homes/ann/projects/other/memory/secret.md"]
)
@pytest.mark.parametrize("name", ["CLAUDE.md", ".claude/rules/a.md"])
async def test_a_link_in_a_project_leads_to_nothing_that_the_chat_may_not_read(
    world: World, name: str, target: str
) -> None:
    link = world.project / name
    link.parent.mkdir(parents=True)
    link.symlink_to(put(world.root / target, CANARY))
    loaded = await world.load()
    assert CANARY not in texts(loaded)
    assert [skipped.label for skipped in loaded.skipped] == [str(link)]
    assert target not in loaded.skipped[0].reason


async def test_a_linked_folder_of_rules_is_not_followed_outside(world: World) -> None:
    put(world.root / "outside/a.md", CANARY)
    (world.home / "rules").mkdir(parents=True)
    (world.home / "rules/more").symlink_to(world.root / "outside")
    loaded = await world.load()
    assert CANARY not in texts(loaded)
    assert [skipped.label for skipped in loaded.skipped] == ["~/rules/more"]


async def test_linked_folders_of_rules_that_go_round_in_circles_end(world: World) -> None:
    put(world.home / "rules/a/b.md")
    (world.home / "rules/a/again").symlink_to(world.home / "rules")
    assert paths((await world.load()).files) == [world.home / "rules/a/b.md"]


async def test_a_home_that_has_become_a_link_is_not_read(world: World) -> None:
    put(world.homes.home("bob") / "CLAUDE.md", CANARY)
    put(world.homes.home("bob") / "rules/a.md", CANARY)
    scope = world.scope(project=False)
    world.home.symlink_to(world.homes.home("bob"))
    assert (await world.load(scope)).files == ()


@pytest.mark.parametrize("swap", ["link", "nothing", "folder"])
async def test_a_file_that_is_swapped_after_the_check_is_not_followed(
    world: World, monkeypatch: pytest.MonkeyPatch, swap: str
) -> None:
    other = put(world.homes.home("bob") / "CLAUDE.md", CANARY)
    file = put(world.home / "CLAUDE.md")
    identity = loading._identity

    def swapped(path: Path) -> tuple[int, int] | None:
        found = identity(path)
        if found and path == file:
            file.unlink()
            match swap:
                case "link":
                    file.symlink_to(other)
                case "folder":
                    file.mkdir()
        return found

    monkeypatch.setattr(loading, "_identity", swapped)
    assert (await world.load()).files == ()


async def test_a_file_that_several_names_lead_to_is_loaded_once(world: World) -> None:
    main = put(world.home / "CLAUDE.md", "once @./CLAUDE.md @rules/link.md @rules/hard.md")
    (world.home / "rules").mkdir()
    (world.home / "rules/link.md").symlink_to(main)
    os.link(main, world.home / "rules/hard.md")
    assert paths((await world.load()).files) == [main]


async def test_frontmatter_and_block_comments_are_stripped_and_make_the_file_partial(world: World) -> None:
    put(world.home / "CLAUDE.md", "---\na: b\n---\n<!-- hidden -->\nsaid <!-- kept -->\n")
    put(world.home / "rules/a.md", "plain\n")
    main, rule = (await world.load()).files
    assert main.text.strip() == "said <!-- kept -->"
    assert (main.partial, rule.partial) == (True, False)


async def test_a_file_over_40_000_characters_is_loaded_whole_with_a_warning(world: World) -> None:
    put(world.home / "CLAUDE.md", "x" * 40_000)
    assert (await world.load()).warnings == ()
    put(world.home / "CLAUDE.md", "x" * 40_001)
    loaded = await world.load()
    assert len(loaded.files[0].text) == 40_001
    assert "40001" in loaded.warnings[0]


async def test_a_huge_file_is_cut_at_a_lines_end_and_said_to_be(world: World) -> None:
    put(world.home / "CLAUDE.md", ("é" * 50 + "\n") * 50_000)
    loaded = await world.load()
    assert len(loaded.files[0].text.encode()) <= 100_000
    assert loaded.files[0].text.endswith("é\n")
    assert loaded.files[0].partial
    assert any("only its first" in warning for warning in loaded.warnings)


async def test_many_files_end_at_the_limits(world: World) -> None:
    for number in range(12):
        put(world.home / f"rules/{number:02}.md", "x" * 900)
    few = await world.load(options=InstructionSettings(max_files=5))
    short = await world.load(options=InstructionSettings(total_max_bytes=2000))
    assert len(few.files) == 5
    assert sum(len(file.text) for file in short.files) == 2000
    assert {skipped.reason for skipped in (*few.skipped, *short.skipped)} == {"there are too many instructions already"}
    for loaded in (few, short):
        assert len([warning for warning in loaded.warnings if "the rest is left out" in warning]) == 1


async def test_no_session_is_born_full_of_instructions(world: World) -> None:
    put(world.home / "CLAUDE.md", "\n".join(f"@p{number}.md" for number in range(4)))
    for number in range(4):
        put(world.home / f"p{number}.md", "word and word\n" * 3000)
    loaded = await world.load()
    assert 90_000 < sum(len(file.text.encode()) for file in loaded.files) <= 100_000
    assert [skipped.label for skipped in loaded.skipped] == ["~/p3.md"]
    assert any("the rest is left out" in warning for warning in loaded.warnings)
    assert "~/p3.md" in describe(loaded)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00a", b"a\0b"])
async def test_a_file_that_is_not_text_is_left_out(world: World, content: bytes) -> None:
    put(world.home / "CLAUDE.md", content)
    loaded = await world.load()
    assert [skipped.reason for skipped in loaded.skipped] == ["it is not text"]
    assert loaded.files == ()


async def test_folders_and_pipes_in_the_place_of_files_are_passed_over(world: World) -> None:
    (world.home / "CLAUDE.md").mkdir(parents=True)
    (world.project / ".claude").mkdir(parents=True)
    os.mkfifo(world.project / ".claude/CLAUDE.md")
    put(world.project / ".claude/rules", "a file")
    assert (await world.load()).files == ()


async def test_what_may_not_be_read_is_said_and_stops_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    put(world.home / "CLAUDE.md", "closed")
    put(world.home / "rules/closed/a.md")
    kept = put(world.project / "CLAUDE.md")
    read, listed = Folder.read, Path.iterdir

    def closed_file(folder: Folder, name: str, *, limit: int) -> Stored | None:
        stored = read(folder, name, limit=limit)
        if stored and stored.data == b"closed":
            raise PermissionError(errno.EACCES, "closed")
        return stored

    def closed_folder(folder: Path) -> Iterator[Path]:
        if folder.name == "closed":
            raise PermissionError(errno.EACCES, "closed")
        return listed(folder)

    monkeypatch.setattr(Folder, "read", closed_file)
    monkeypatch.setattr(Path, "iterdir", closed_folder)
    loaded = await world.load()
    assert paths(loaded.files) == [kept]
    assert [skipped.label for skipped in loaded.skipped] == ["~/CLAUDE.md", "~/rules/closed"]
    assert loaded.unreadable == (Kind.USER, Kind.USER)


async def test_layers_can_be_dropped_and_all_of_it_turned_off(world: World) -> None:
    managed = put(world.managed / "CLAUDE.md")
    for place in (world.home / "CLAUDE.md", world.project / "CLAUDE.md", world.local / "CLAUDE.local.md"):
        put(place)
    options = InstructionSettings.model_validate({"without": ["user", "project", "local"]})
    assert paths((await world.load(options=options)).files) == [managed]
    assert (await world.load(options=InstructionSettings(enabled=False))).files == ()


async def test_the_operators_layer_can_neither_be_dropped_nor_excluded(world: World) -> None:
    managed = put(world.managed / "CLAUDE.md", "@more.md")
    more = put(world.managed / "more.md")
    assert paths((await world.load(options=InstructionSettings(excludes=("**",)))).files) == [managed, more]
    with pytest.raises(ValidationError):
        InstructionSettings.model_validate({"without": ["managed"]})


@pytest.mark.parametrize(
    "glob",
    ["{project}/.claude/rules/**", "**/.claude/rules/*.md", "{link}/.claude/rules/**", "{project}/.claude/*/a.md"],
)
async def test_globs_on_absolute_paths_exclude_files_also_through_links(world: World, glob: str) -> None:
    kept = put(world.project / "CLAUDE.md", "@.claude/rules/a.md")
    put(world.project / ".claude/rules/a.md", CANARY)
    (world.root / "link").symlink_to(world.project)
    excludes = (glob.format(project=world.project, link=world.root / "link"),)
    loaded = await world.load(options=InstructionSettings(excludes=excludes))
    assert paths(loaded.files) == [kept]
    assert [skipped.label for skipped in loaded.skipped] == [str(world.project / ".claude/rules/a.md")]


def test_a_glob_that_can_not_be_read_is_refused_with_the_settings() -> None:
    with pytest.raises(ValidationError):
        InstructionSettings(excludes=("a/\\",))


async def test_homes_below_the_operators_folder_stay_closed_to_its_files(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    put(world.homes.home("bob") / "CLAUDE.md", CANARY)
    put(world.root / "CLAUDE.md", f"@homes/bob/CLAUDE.md @{world.homes.home('bob')}/CLAUDE.md @ok.md")
    put(world.root / "ok.md", "fine")
    instructions = Instructions(homes=world.homes, managed_dir=world.root, settings=InstructionSettings())
    loaded = await instructions.load(world.scope())
    assert [file.label for file in loaded.files] == ["managed/CLAUDE.md", "managed/ok.md"]


async def test_the_local_file_stays_in_the_home_where_memory_is_kept_elsewhere(tmp_path: Path) -> None:
    usual = make_world(tmp_path)
    put(usual.local / "CLAUDE.local.md", "for apollo")
    moved = make_world(tmp_path, directory=f"{tmp_path}/store/{{principal}}/{{project}}")
    assert not moved.scope().memory_dir.is_relative_to(moved.home)
    assert texts(await moved.load()) == "for apollo"
    unnamed = put(moved.home / "projects/_chat/CLAUDE.local.md", "for this chat")
    assert paths((await moved.load(moved.scope(project=False))).files) == [unnamed]


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.one_of(
        st.binary(max_size=300), st.text(alphabet="-@ab/.~\\ `<!>{}[]*:,'\"#\n\r\t", max_size=200).map(str.encode)
    )
)
async def test_no_content_of_a_file_ever_raises(world: World, content: bytes) -> None:
    for place in (world.home / "CLAUDE.md", world.project / ".claude/rules/a.md", world.local / "CLAUDE.local.md"):
        put(place, content)
    loaded = await world.load()
    assert len(loaded.files) <= 3
    touched = await world.instructions().rules_for(world.scope(), world.project / "a/b", frozenset())
    assert len(touched) <= 1
