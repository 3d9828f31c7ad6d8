"""The `@` includes of instruction files: what counts as one, and that none leads outside."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory.instructions.files import Kind, Loaded
from memory.instructions.includes import includes
from memory.instructions.layers import Instructions
from memory.instructions.settings import InstructionSettings
from memory.paths import Homes, ProjectRef
from memory.scope import Mode, Scope
from memory.settings import MemorySettings

CANARY = "canary-51d0"


@pytest.fixture
def homes(tmp_path: Path) -> Homes:
    return Homes(Path(os.path.realpath(tmp_path)) / "homes", settings=MemorySettings())


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return Path(os.path.realpath(tmp_path)) / "src" / "apollo"


def make_scope(homes: Homes, project: Path, *, principal: str = "ann", shared: bool = False) -> Scope:
    return homes.scope(
        principal=principal,
        project=ProjectRef(name="apollo", root=project),
        member=True,
        shared=shared,
        mode=Mode.AUTO,
        timezone="UTC",
    )


async def load(homes: Homes, scope: Scope) -> Loaded:
    managed = homes.home("ann").parent.parent / "etc"
    return await Instructions(homes=homes, managed_dir=managed, settings=InstructionSettings()).load(scope)


def put(path: Path, text: str = "some words") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@a.md", ["a.md"]),
        ("see @./a.md and @docs/b.txt", ["./a.md", "docs/b.txt"]),
        ("- item\n  @_x/y.md\n\n> @-z.md\n\n# @h.md", ["_x/y.md", "-z.md", "h.md"]),
        ("@my\\ own\\ file.md rest", ["my own file.md"]),
        ("@a.md#part @b.md#", ["a.md", "b.md"]),
        ("@~/me.md @/srv/x.md", ["~/me.md", "/srv/x.md"]),
        ("@README @LICENSE @x.PY", ["README", "LICENSE", "x.PY"]),
        ("@snake_case_name.md *@a*", ["snake_case_name.md"]),
        ("@записки.md", ["записки.md"]),
        ("@a.md @a.md", ["a.md"]),
        ("<!-- note --> @left.md", ["left.md"]),
    ],
)
def test_a_path_after_a_blank_or_at_a_lines_start_is_included(text: str, expected: list[str]) -> None:
    assert list(includes(text.replace("<!-- note -->", ""))) == expected


@pytest.mark.parametrize(
    "text",
    [
        "`@a.md`",
        "```\n@a.md\n```",
        "    @a.md",
        "~~~\n@a.md",
        "<div>\n@a.md\n</div>",
        "<b>@a.md</b>",
        "<!-- @a.md -->",
        "<!-- never closed\n@a.md",
        "me@example.org",
        "(@a.md)",
        "\\@a.md",
        "&#64;a.md",
        "`x`@a.md",
        "@/",
        "@",
        "@ a.md",
        "@#a.md",
        "@!a.md",
        "@~other/a.md",
        "@a.png",
        "@a.zip",
        "@a.md,",
    ],
)
def test_what_stands_in_code_or_html_or_is_no_text_file_is_not_included(text: str) -> None:
    assert list(includes(text)) == []


@settings(deadline=None)
@given(st.text(alphabet="@ab/.~\\ `<!->#\n\t*_[]()", max_size=120))
def test_any_text_can_be_searched_for_includes(text: str) -> None:
    assert all(path and not path.startswith(("@", "#")) for path in includes(text))


async def test_includes_follow_their_file_and_inherit_its_kind(homes: Homes, project: Path) -> None:
    main = put(project / "CLAUDE.md", "@docs/a.md @docs/c.md")
    first = put(project / "docs/a.md", "@b.md")
    deep, last = put(project / "docs/b.md"), put(project / "docs/c.md")
    files = (await load(homes, make_scope(homes, project))).files
    assert [(file.path, file.parent) for file in files] == [(main, None), (first, main), (deep, first), (last, main)]
    assert {file.kind for file in files} == {Kind.PROJECT}


async def test_an_include_counts_from_where_the_including_file_really_is(homes: Homes, project: Path) -> None:
    real = put(project / "docs/main.md", "@near.md")
    near = put(project / "docs/near.md")
    put(project / "near.md", CANARY)
    (project / "CLAUDE.md").symlink_to(real)
    assert [file.path for file in (await load(homes, make_scope(homes, project))).files] == [real, near]


async def test_includes_go_four_files_deep_and_no_further(homes: Homes, project: Path) -> None:
    put(project / "CLAUDE.md", "@1.md")
    for number in range(1, 8):
        put(project / f"{number}.md", f"@{number + 1}.md")
    loaded = await load(homes, make_scope(homes, project))
    assert [file.path.name for file in loaded.files] == ["CLAUDE.md", "1.md", "2.md", "3.md", "4.md"]
    assert [skipped.label for skipped in loaded.skipped] == [str(project / "5.md")]


async def test_circles_end_and_missing_files_are_passed_over(homes: Homes, project: Path) -> None:
    put(project / "CLAUDE.md", "@a.md @missing.md @docs @ann")
    put(project / "a.md", "@CLAUDE.md @a.md @docs/../a.md")
    (project / "docs").mkdir()
    loaded = await load(homes, make_scope(homes, project))
    assert [file.path.name for file in loaded.files] == ["CLAUDE.md", "a.md"]
    assert loaded.skipped == ()


async def test_the_home_is_the_principals_own(homes: Homes, project: Path) -> None:
    put(project / "CLAUDE.md", "@~/style.md")
    put(homes.home("ann") / "style.md", "for ann")
    put(homes.home("group") / "style.md", "for the group")
    private = await load(homes, make_scope(homes, project))
    shared = await load(homes, make_scope(homes, project, principal="group", shared=True))
    assert [file.text for file in private.files[1:]] == ["for ann"]
    assert [file.text for file in shared.files[1:]] == ["for the group"]
    assert len((await load(homes, make_scope(homes, project, principal="bob"))).files) == 1


CLOSED = [
    "homes/bob/CLAUDE.md",
    "homes/ann/projects/other/memory/x.md",
    "homes/ann/Projects/other/memory/x.md",
    "homes/ann/agent-memory/reviewer/MEMORY.md",
    "homes/ann/projects/{slug}/agent-memory-local/reviewer/x.md",
    "src/apollo/.claude/agent-memory/reviewer/x.md",
    "src/apollo/secret/.claude/agent-memory/reviewer/x.md",
    "homes/ann-2/CLAUDE.md",
    "etc/CLAUDE.md",
    "outside.md",
    "src/other/CLAUDE.md",
]


@pytest.mark.parametrize("target", CLOSED)
@pytest.mark.parametrize("form", ["{path}", "../{relative}", "~/../../{target}", "link.md", "folder/{name}"])
async def test_no_include_leaves_what_the_chat_may_read(homes: Homes, project: Path, target: str, form: str) -> None:
    root = homes.home("ann").parent.parent
    target = target.format(slug=make_scope(homes, project).memory_dir.parent.name)
    path = put(root / target, CANARY)
    put(project / "link.md").unlink()
    (project / "link.md").symlink_to(path)
    (project / "folder").symlink_to(path.parent)
    relative = f"../{path.relative_to(root)}"
    written = "@" + form.format(path=path, relative=relative, target=target, name=path.name)
    for place in (project / "CLAUDE.md", homes.home("ann") / "CLAUDE.md"):
        put(place, written)
    loaded = await load(homes, make_scope(homes, project))
    assert not any(CANARY in file.text for file in loaded.files if file.kind is not Kind.MANAGED)
    assert loaded.skipped or form != "{path}"


async def test_what_others_write_into_the_team_memory_never_becomes_an_instruction(homes: Homes, project: Path) -> None:
    scope = make_scope(homes, project)
    assert scope.team_dir is not None
    put(scope.team_dir / "evil.md", CANARY)
    own = put(scope.memory_dir / "own.md", f"@team/evil.md @{scope.team_dir}/evil.md")
    put(homes.home("ann") / "CLAUDE.md", f"@{own.relative_to(homes.home('ann'))}")
    files = (await load(homes, scope)).files
    assert [file.path.name for file in files] == ["CLAUDE.md", "own.md"]


PIECES = st.sampled_from(
    ["..", ".", "homes", "bob", "ann", "src", "apollo", "CLAUDE.md", "docs", "out", "projects", "x.md", "~"]
)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=st.lists(PIECES, min_size=1, max_size=9), start=st.sampled_from(["", "/", "~/", "./", "{root}/"]))
async def test_whatever_is_written_an_include_stays_inside(
    homes: Homes, project: Path, pieces: list[str], start: str
) -> None:
    root = homes.home("ann").parent.parent
    for place in (
        "homes/bob/CLAUDE.md",
        "homes/bob/x.md",
        "src/x.md",
        "x.md",
        "homes/ann/projects/x.md",
        "src/out/x.md",
    ):
        put(root / place, CANARY)
    if not (project / "out").is_symlink():
        put(project / "docs/x.md", "fine")
        (project / "out").symlink_to(root / "src/out")
    written = "@" + start.format(root=root) + "/".join(pieces)
    for file in (project / "CLAUDE.md", homes.home("ann") / "CLAUDE.md"):
        put(file, written)
    loaded = await load(homes, make_scope(homes, project))
    assert loaded.files
    assert not any(CANARY in found.text for found in loaded.files)
