"""Rules with `paths`: how the patterns are read, and when a rule is told."""

import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.instructions.layers import Instructions
from memory.instructions.rules import MAX_EXPANDED, matches, patterns, with_plain_globs
from memory.instructions.settings import InstructionSettings
from memory.metadata import parse
from memory.paths import Homes, ProjectRef
from memory.scope import Mode, Scope
from memory.settings import MemorySettings

BASE = Path("/srv/apollo")
NOTHING: frozenset[Path] = frozenset()


@pytest.fixture
def homes(tmp_path: Path) -> Homes:
    return Homes(Path(os.path.realpath(tmp_path)) / "homes", settings=MemorySettings())


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return Path(os.path.realpath(tmp_path)) / "src" / "apollo"


def make_scope(homes: Homes, project: Path | None, *, member: bool = True) -> Scope:
    return homes.scope(
        principal="ann",
        project=ProjectRef(name="apollo", root=project) if project else None,
        member=member,
        shared=False,
        mode=Mode.AUTO,
        timezone="UTC",
    )


def make_instructions(homes: Homes) -> Instructions:
    managed = homes.home("ann").parent.parent / "etc"
    return Instructions(homes=homes, managed_dir=managed, settings=InstructionSettings())


def put(path: Path, text: str = "some words") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def rule(globs: str) -> str:
    return f"---\npaths: {globs}\n---\nthe rule\n"


async def told(homes: Homes, scope: Scope, touched: Path, already: frozenset[Path] = NOTHING) -> list[Path]:
    return [file.path for file in await make_instructions(homes).rules_for(scope, touched, already)]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("paths: src/*.py", ("src/*.py",)),
        ("paths: a/*.py, b/*.py", ("a/*.py", "b/*.py")),
        ("paths:\n  - a\n  - b, c", ("a", "b", "c")),
        ("paths: [a, 'b']", ("a", "b")),
        ("paths: **/*.ts", ("**/*.ts",)),
        ("paths:\n  - **/*.ts\n  - *.js", ("**/*.ts", "*.js")),
        ("paths: {a,b}/*.py", ("a/*.py", "b/*.py")),
        ("paths: {a,b}", ("a", "b")),
        ("paths: [src/*.{ts,tsx}, lib]", ("src/*.ts", "src/*.tsx", "lib")),
        ("paths: src/{a,b{1,2}}/x", ("src/a/x", "src/b1/x", "src/b2/x")),
        ("paths: src/**", ("src",)),
        ("paths: a{b", ("a{b",)),
        ("paths: **", ()),
        ("paths: '**, **'", ()),
        ("paths:", ()),
        ("paths: []", ()),
        ("other: x", ()),
    ],
)
def test_patterns_are_read_as_people_write_them(head: str, expected: tuple[str, ...]) -> None:
    assert patterns(parse(with_plain_globs(f"---\n{head}\n---\nbody"))[0]) == expected


def test_braces_that_come_to_too_much_stay_as_they_are() -> None:
    many = "{0,1,2,3,4,5,6,7,8,9}" * 3
    assert len(patterns({"paths": many})) == MAX_EXPANDED
    assert patterns({"paths": f"x{many}{{a,b}}"}) == (f"x{many}{{a,b}}",)
    assert patterns({"paths": "{a,b}" * 1000}) == ("{a,b}" * 1000,)


@pytest.mark.parametrize(
    ("glob", "path", "expected"),
    [
        ("*.py", "a/b/c.py", True),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/b/a.py", False),
        ("src/**/*.py", "src/b/c/a.py", True),
        ("src", "src/deep/a.py", True),
        ("/a.py", "b/a.py", False),
        ("*.py", ".hidden/a.py", True),
        ("*.py", "a.pyc", False),
        ("[z-a]*", "z", False),
        ("[[a]", "a", False),
        ("a\\", "a", False),
        ("!", "a", False),
    ],
)
def test_patterns_match_as_in_a_gitignore_and_bad_ones_match_nothing(glob: str, path: str, expected: bool) -> None:
    assert matches([glob], BASE / path, base=BASE) is expected


def test_a_file_outside_the_base_never_matches() -> None:
    assert not matches(["**", "*.py"], Path("/srv/other/a.py"), base=BASE)


def test_patterns_made_to_take_for_ever_are_given_up() -> None:
    began = time.monotonic()
    for glob in ("*a" * 30 + "b", "**/a/" * 30 + "b", "*a*a*a*a*a/" * 5 + "b"):
        assert not matches([glob], BASE / ("a/" * 40) / ("a" * 200), base=BASE)
    assert time.monotonic() - began < 5


@settings(deadline=None)
@given(
    st.recursive(
        st.one_of(st.none(), st.integers(), st.text(alphabet="{},*!\\[]#ab/ ", max_size=40)), st.lists, max_leaves=6
    )
)
def test_any_value_of_paths_can_be_read_and_matched(value: object) -> None:
    found = patterns({"paths": value})
    assert len(found) <= MAX_EXPANDED
    assert matches(found, BASE / "a/b", base=BASE) in {True, False}


async def test_a_rule_with_paths_waits_for_a_file_that_matches(homes: Homes, project: Path) -> None:
    scope = make_scope(homes, project)
    place = put(project / ".claude/rules/py.md", rule("src/*.py"))
    loaded = await make_instructions(homes).load(scope)
    assert loaded.files == ()
    assert "src/*.py" in loaded.skipped[0].reason
    assert await told(homes, scope, project / "src/a.py") == [place]
    assert await told(homes, scope, project / "src/a.txt") == []


async def test_a_rule_is_told_once_in_a_session(homes: Homes, project: Path) -> None:
    scope = make_scope(homes, project)
    place = put(project / ".claude/rules/py.md", rule("'*.py'") + "@more.md")
    more = put(project / ".claude/rules/more.md", rule("nothing-matches"))
    first = await told(homes, scope, project / "a.py")
    assert first == [place, more]
    assert await told(homes, scope, project / "b.py", frozenset(first)) == []


async def test_touching_a_file_tells_the_folders_on_the_way_to_it(homes: Homes, project: Path) -> None:
    expected = [
        put(homes.home("ann") / "rules/mine.md", rule("a/**")),
        put(project / "a/CLAUDE.md"),
        put(project / "a/.claude/rules/always.md"),
        put(project / "a/b/.claude/CLAUDE.md"),
        put(project / "a/b/.claude/rules/near.md", rule("x.py")),
        put(project / ".claude/rules/top.md", rule("a/b/x.py")),
    ]
    put(project / "CLAUDE.md")
    put(project / ".claude/rules/general.md")
    put(project / "a/b/.claude/rules/far.md", rule("a/b/x.py"))
    put(project / "c/CLAUDE.md")
    assert await told(homes, make_scope(homes, project), project / "a/b/x.py") == expected


async def test_whatever_a_session_reads_it_is_told_no_more_than_it_may_begin_with(homes: Homes, project: Path) -> None:
    scope, size = make_scope(homes, project), InstructionSettings().total_max_bytes
    put(project / "CLAUDE.md", "x" * size)
    began = {file.path for file in (await make_instructions(homes).load(scope)).files}
    told_bytes = 0
    for number in range(12):
        put(project / f"{number}/CLAUDE.md", "y" * 30_000)
        found = await make_instructions(homes).rules_for(scope, project / f"{number}/a.py", frozenset(began))
        told_bytes += sum(len(file.text) for file in found)
        began |= {file.path for file in found}
    assert told_bytes == size


async def test_the_files_that_a_session_is_told_are_numbered_too(homes: Homes, project: Path) -> None:
    scope, already = make_scope(homes, project), set[Path]()
    for number in range(2 * InstructionSettings().max_files + 3):
        put(project / f"{number}/CLAUDE.md", "z")
        already |= set(await told(homes, scope, project / f"{number}/a.py", frozenset(already)))
    assert len(already) == 2 * InstructionSettings().max_files


async def test_nothing_is_told_for_a_file_that_the_chat_can_not_read(homes: Homes, project: Path) -> None:
    put(homes.home("ann") / "rules/mine.md", rule("'*.py'"))
    put(project / "a/CLAUDE.md")
    (project / "link").symlink_to(homes.home("bob"))
    scope = make_scope(homes, project)
    for touched in (project.parent / "x.py", homes.home("bob") / "x.py", project / "../x.py", project / "link/x.py"):
        assert await told(homes, scope, touched) == []
    assert await told(homes, make_scope(homes, project, member=False), project / "a/x.py") == []


async def test_without_a_project_the_patterns_of_a_persons_rules_count_from_the_memory(
    homes: Homes, project: Path
) -> None:
    scope = make_scope(homes, None)
    place = put(homes.home("ann") / "rules/logs.md", rule("logs/**"))
    put(scope.memory_dir / "logs/CLAUDE.md", "a note, no instruction")
    assert await told(homes, scope, scope.memory_dir / "logs/2026/x.md") == [place]
    assert await told(homes, scope, Path("logs/x.md")) == [place]


def seconds(text: str) -> float:
    def once() -> float:
        before = time.process_time()
        with_plain_globs(text)
        return time.process_time() - before

    return min(once() for _ in range(3))


@pytest.mark.parametrize("run", [" ", "\t", "- ", "- a ", "a\n", "- a b\n", "paths: "])
def test_a_long_head_takes_no_longer_by_its_square(run: str) -> None:
    few, many = (f"---\n: - {{\n- a{run * (size // len(run))}x\n---\nbody" for size in (10_000, 40_000))
    assert seconds(many) < 8 * seconds(few)
