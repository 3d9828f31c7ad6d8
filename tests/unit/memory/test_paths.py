"""Where memory lies and what stays outside."""

import os
import unicodedata
from dataclasses import replace
from itertools import permutations, product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.checkout import canonical_root
from memory.errors import PathRefused
from memory.paths import (
    UNNAMED,
    Homes,
    ProjectRef,
    SharedDirectory,
    contained,
    ensure,
    folder_name,
    readable_path,
    writable_path,
)
from memory.scope import Mode, Scope
from memory.settings import MemorySettings, enabled

ALIKE = (
    "ann",
    "Ann",
    "ANN",
    "ann ",
    "a/nn",
    "..",
    "",
    "_chat",
    "\u00e9",
    "e\u0301",
    "memory",
    "{principal}",
    "{project}",
)
TEMPLATE_PARTS = st.sampled_from(
    ["{principal}", "{project}", "m-{principal}", "{principal}{project}", "{project}-x", "memory", "..", ".", "", "a b"]
)
IDS = st.one_of(st.text(max_size=90), st.from_regex(r"[a-z0-9-]{1,20}(-[0-9a-f]{16})?", fullmatch=True))


def make_scope(
    homes: Homes, *, principal: str = "ann", project: ProjectRef | None = None, member: bool = True
) -> Scope:
    return homes.scope(
        principal=principal, project=project, member=member, shared=False, mode=Mode.AUTO, timezone="UTC"
    )


def folded(place: Path) -> Path:
    """Return a path as file systems have it that ignore case and Unicode forms."""
    return Path(unicodedata.normalize("NFC", str(place)).casefold())


def make_homes(root: Path, *, override: str | None = None, directory: str | None = None) -> Homes:
    return Homes(root, settings=MemorySettings(auto_memory_directory=directory), override=override)


@settings(deadline=None)
@given(st.lists(IDS, min_size=2, max_size=6, unique=True))
def test_different_ids_never_share_a_folder(ids: list[str]) -> None:
    assert len({folder_name(raw).casefold() for raw in ids}) == len(ids)


@settings(deadline=None)
@given(IDS)
def test_a_folder_name_is_plain_bounded_and_differs_from_its_own_hashed_form(raw: str) -> None:
    name = folder_name(raw)
    assert 0 < len(name) <= 77
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert not name.startswith("-")
    assert name != UNNAMED
    assert name == raw or folder_name(name) != name


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/a/b-c", "/a-b/c"),
        ("项目一号", "项目二号"),
        ("Ann", "ann"),
        ("", "x"),
        ("é", "e\u0301"),
        ("a" * 61, "a" * 60),
    ],
)
def test_ids_that_clean_to_the_same_text_stay_apart(one: str, other: str) -> None:
    assert folder_name(one) != folder_name(other)


def test_a_clean_id_keeps_its_name() -> None:
    assert folder_name("person-17") == "person-17"


def test_the_default_directory_is_the_principals_own(tmp_path: Path) -> None:
    scope = make_scope(make_homes(tmp_path), project=ProjectRef(name="apollo"))
    assert scope.memory_dir == Path(os.path.realpath(tmp_path)) / "ann/projects/apollo/memory"
    assert scope.team_dir == scope.memory_dir / "team"
    assert scope.readable == scope.writable == (scope.memory_dir,)


def test_a_chat_without_a_project_has_no_team_and_a_folder_no_project_can_take(tmp_path: Path) -> None:
    homes = make_homes(tmp_path)
    unnamed = make_scope(homes)
    assert unnamed.team_dir is None
    assert unnamed.memory_dir.parent.name == UNNAMED
    assert make_scope(homes, project=ProjectRef(name=UNNAMED)).memory_dir != unnamed.memory_dir


def test_one_project_of_two_principals_has_two_directories(tmp_path: Path) -> None:
    homes, project = make_homes(tmp_path), ProjectRef(name="apollo", root=tmp_path / "code")
    ann, bob = (make_scope(homes, principal=name, project=project) for name in ("ann", "bob"))
    assert ann.memory_dir != bob.memory_dir
    assert ann.memory_dir.parent.name == bob.memory_dir.parent.name


@settings(deadline=None, max_examples=300)
@given(
    template=st.lists(TEMPLATE_PARTS, min_size=1, max_size=4).map("/".join),
    start=st.sampled_from(["{tmp}/", "{tmp}/homes/", "~/", "/srv/", ""]),
    by_operator=st.booleans(),
    principals=st.lists(st.one_of(IDS, st.sampled_from(ALIKE)), min_size=2, max_size=4, unique=True),
    names=st.lists(st.one_of(st.none(), IDS, st.sampled_from(ALIKE)), min_size=1, max_size=3, unique=True),
    root=st.sampled_from([None, "", "code", "homes", "homes/ann", "homes/ann/projects"]),
)
def test_two_principals_never_share_a_directory(
    tmp_path_factory: pytest.TempPathFactory,
    *,
    template: str,
    start: str,
    by_operator: bool,
    principals: list[str],
    names: list[str | None],
    root: str | None,
) -> None:
    top = Path(os.path.realpath(tmp_path_factory.getbasetemp()))
    given = (start + template).replace("{tmp}", str(top))
    try:
        homes = make_homes(top / "homes", **{"override" if by_operator else "directory": given})
    except SharedDirectory:
        return
    projects = [
        None if name is None else ProjectRef(name=name, root=None if root is None else top / root) for name in names
    ]
    owned = {who: [make_scope(homes, principal=who, project=project) for project in projects] for who in principals}
    for (_, scopes), (_, others) in permutations(owned.items(), 2):
        for scope, other in product(scopes, others):
            reached = [folded(place) for place in (*scope.readable, *scope.writable)]
            foreign = folded(other.memory_dir)
            assert not any(foreign.is_relative_to(place) or place.is_relative_to(foreign) for place in reached)


@pytest.mark.parametrize("given", ["~/", "~/.", "~/..", "/", "/a", "/a/../b", "../m", "m", "a\0b", "\\\\s\\h", "//s/h"])
def test_a_directory_that_is_not_allowed_gives_way_to_the_default(tmp_path: Path, given: str) -> None:
    default = make_scope(make_homes(tmp_path)).memory_dir
    assert make_scope(make_homes(tmp_path, directory=given)).memory_dir == default
    assert make_scope(make_homes(tmp_path, override=given)).memory_dir == default


def test_a_tilde_in_the_settings_is_each_principals_home_and_nothing_in_the_environment(
    tmp_path: Path,
) -> None:
    homes = make_homes(tmp_path, directory="~/m///")
    assert make_scope(homes).memory_dir == homes.home("ann") / "m"
    assert make_scope(homes, principal="bob").memory_dir == homes.home("bob") / "m"
    passed_over = make_homes(tmp_path, directory="~/m", override="~/n/{principal}")
    assert make_scope(passed_over).memory_dir == homes.home("ann") / "m"


@pytest.mark.parametrize("given", ["/srv/memory", "/srv/{project}", "/srv/{principal}/..", "/srv/{principal}{project}"])
def test_a_directory_for_several_principals_is_refused_with_the_cure(tmp_path: Path, given: str) -> None:
    with pytest.raises(SharedDirectory, match=r"REVERIE_MEMORY_PATH_OVERRIDE .* add \{principal\}"):
        make_homes(tmp_path, override=given)
    with pytest.raises(SharedDirectory, match="auto_memory_directory"):
        make_homes(tmp_path, directory=given)


def test_placeholders_are_filled_in_and_without_the_project_there_is_no_team(tmp_path: Path) -> None:
    project = ProjectRef(name="Apollo 11")
    both = make_scope(make_homes(tmp_path, override=f"{tmp_path}/{{project}}/m-{{principal}}"), project=project)
    assert both.memory_dir.parts[-2:] == (folder_name("Apollo 11"), "m-ann")
    assert both.team_dir is not None
    alone = make_scope(make_homes(tmp_path, override=f"{tmp_path}/x/{{principal}}"), project=project)
    assert alone.team_dir is None  # else two projects would share one copy of their team memory


def test_a_former_member_sees_neither_the_team_nor_the_root_folder(tmp_path: Path) -> None:
    root = tmp_path / "code"
    project = ProjectRef(name="apollo", root=root)
    former = make_scope(make_homes(tmp_path / "homes"), project=project, member=False)
    assert former.team_dir is None
    assert former.project_root is None
    assert former.readable == (former.memory_dir,)
    with pytest.raises(PathRefused, match="no team memory"):
        readable_path(former, "team/plan.md")


def test_a_root_folder_that_holds_the_homes_is_not_readable(tmp_path: Path) -> None:
    homes = make_homes(tmp_path / "homes")
    for root in (tmp_path, tmp_path / "homes/bob"):
        scope = make_scope(homes, project=ProjectRef(name="apollo", root=root))
        assert scope.readable == (scope.memory_dir,)


def test_a_link_among_the_homes_never_leads_into_another_principals_memory(tmp_path: Path) -> None:
    homes = make_homes(tmp_path)
    ensure(make_scope(homes, principal="bob"))
    homes.home("ann").symlink_to(homes.home("bob"))
    with pytest.raises(PathRefused, match="link"):
        make_scope(homes)


def test_directories_are_made_for_their_owner_only(tmp_path: Path) -> None:
    scope = make_scope(make_homes(tmp_path / "homes"), project=ProjectRef(name="apollo"))
    assert ensure(scope)
    assert ensure(scope)
    made = [place for place in (tmp_path / "homes").rglob("*") if place.is_dir()]
    assert scope.team_dir in made
    assert {place.stat().st_mode & 0o777 for place in made} == {0o700}


def test_a_base_that_can_not_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "homes").write_text("a file where the homes should be")
    assert not ensure(make_scope(make_homes(tmp_path / "homes")))


@pytest.fixture
def fenced(tmp_path: Path) -> Path:
    """A directory with every kind of trap in it."""
    base = Path(os.path.realpath(tmp_path)) / "memory"
    (base / "sub").mkdir(parents=True)
    (base.parent / "memory-evil").mkdir()
    (base / "out").symlink_to(base.parent / "memory-evil")
    (base / "dangling.md").symlink_to(base.parent / "nowhere.md")
    (base / "loop").symlink_to(base / "loop")
    (base / "inner").symlink_to(base / "sub")
    (base / "plain.md").write_text("x")
    return base


@pytest.mark.parametrize(
    ("path", "real"),
    [
        ("a.md", "a.md"),
        ("sub/../a.md", "a.md"),
        ("new/deep/a.md", "new/deep/a.md"),
        ("inner/a.md", "sub/a.md"),
        ("100%.md", "100%.md"),
        ("e\u0301.md", "é.md"),
        (".", ""),
        ("%2e%2e/x.md", "%2e%2e/x.md"),
    ],
)
def test_a_path_inside_is_resolved(fenced: Path, path: str, real: str) -> None:
    assert contained(path, base=fenced, roots=[fenced]) == fenced / real
    assert contained(f"{fenced}/{path}", base=Path("/"), roots=[fenced]) == fenced / real


@pytest.mark.parametrize(
    "path",
    [
        "",
        "../x",
        "sub/../../x",
        "/etc/passwd",
        "//etc/passwd",
        "../memory-evil/x",
        "out/x.md",
        "out",
        "dangling.md",
        "dangling.md/x",
        "loop",
        "loop/x",
        "a\0b",
        "a\nb",
        "a\\b",
        "~/x",
        "~root/x",
        "\ud800.md",
    ],
)
def test_a_path_that_leaves_is_refused_without_telling_where_it_led(fenced: Path, path: str) -> None:
    with pytest.raises(PathRefused) as refusal:
        contained(path, base=fenced, roots=[fenced])
    assert str(fenced.parent) not in str(refusal.value)
    assert "passwd" not in str(refusal.value)


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(["..", ".", "sub", "out", "inner", "loop", "a", "", "dangling.md", "．．"]),
        max_size=8,
    )
)
def test_whatever_the_path_is_the_answer_lies_inside(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str]
) -> None:
    base = Path(os.path.realpath(tmp_path_factory.getbasetemp())) / "walks"
    (base / "sub").mkdir(parents=True, exist_ok=True)
    for link, target in (
        ("out", "/tmp"),
        ("inner", "sub"),
        ("loop", "loop"),
        ("dangling.md", "/nowhere/at/all"),
    ):
        if not (base / link).is_symlink():
            (base / link).symlink_to(target)
    try:
        found = contained("/".join(parts), base=base, roots=[base])
    except PathRefused:
        return
    assert found.is_relative_to(base)
    assert Path(os.path.realpath(found)) == found


def test_a_file_from_elsewhere_is_found_under_its_own_unicode_form(fenced: Path) -> None:
    (fenced / "e\u0301.md").write_text("x")
    assert contained("e\u0301.md", base=fenced, roots=[fenced]).exists()


def test_a_project_root_is_readable_and_not_writable(tmp_path: Path) -> None:
    root = tmp_path / "code"
    scope = make_scope(make_homes(tmp_path / "homes"), project=ProjectRef(name="apollo", root=root))
    assert readable_path(scope, f"{root}/main.py").name == "main.py"
    with pytest.raises(PathRefused):
        writable_path(scope, f"{root}/main.py")


def make_worktree(repository: Path, worktree: Path, *, listed: bool = True) -> None:
    own = repository / ".git/worktrees/side"
    own.mkdir(parents=True)
    worktree.mkdir()
    (worktree / ".git").write_text(f"gitdir: {own}\n")
    (own / "commondir").write_text("../..\n")
    (own / "gitdir").write_text(f"{worktree if listed else repository}/.git\n")


def test_worktrees_share_the_memory_of_their_repository(tmp_path: Path) -> None:
    base = Path(os.path.realpath(tmp_path))
    make_worktree(base / "main", base / "side")
    (base / "side/deep").mkdir()
    assert canonical_root(base / "side/deep") == canonical_root(base / "main") == base / "main"


def test_a_worktree_that_its_repository_does_not_list_keeps_its_own_memory(tmp_path: Path) -> None:
    base = Path(os.path.realpath(tmp_path))
    make_worktree(base / "main", base / "side", listed=False)
    assert canonical_root(base / "side") == base / "side"


def test_projects_with_a_team_of_their_own_share_nothing_though_they_lie_in_one_checkout(tmp_path: Path) -> None:
    base, homes = Path(os.path.realpath(tmp_path)), make_homes(tmp_path / "homes")
    make_worktree(base / "main", base / "side")
    (base / "main/deep").mkdir()
    projects = [ProjectRef(name=name, root=base / where) for name, where in (("a", "main"), ("b", "main/deep"))]
    assert len({make_scope(homes, project=project).memory_dir for project in projects}) == 2
    moved = ProjectRef(name="a", root=base / "side")
    assert make_scope(homes, project=moved).memory_dir == make_scope(homes, project=projects[0]).memory_dir
    same = [replace(project, repo="o/r") for project in projects]
    assert len({make_scope(homes, project=project).memory_dir for project in same}) == 1


def test_no_project_reaches_into_what_the_host_keeps(tmp_path: Path) -> None:
    kept = tmp_path / "gateway"
    kept.mkdir()
    homes = Homes(tmp_path / "elsewhere/homes", settings=MemorySettings(), kept=(kept,))
    for root in (tmp_path, kept, kept / "deep"):
        assert make_scope(homes, project=ProjectRef(name="a", root=root)).project_root is None


def test_the_agents_memory_of_a_project_that_lies_within_another_is_not_read_from_there(tmp_path: Path) -> None:
    homes, root = make_homes(tmp_path / "homes"), tmp_path / "mono"
    own, others = (root / each / ".claude/agent-memory/gardener/x.md" for each in (".", "secret"))
    for path in (own, others):
        path.parent.mkdir(parents=True)
        path.touch()
    scope = make_scope(homes, project=ProjectRef(name="garden", root=root))
    assert readable_path(scope, str(own)) == Path(os.path.realpath(own))
    with pytest.raises(PathRefused, match="another project"):
        readable_path(scope, str(others))
    inner = make_scope(homes, project=ProjectRef(name="secret", root=root / "secret"))
    assert readable_path(inner, str(others)) == Path(os.path.realpath(others))


def test_a_root_stays_one_though_a_file_of_the_host_lies_in_it_and_that_file_can_not_be_read(tmp_path: Path) -> None:
    root, names = tmp_path / "app", ("reverie.db", "reverie.db-wal", "reverie.db.bak")
    (root / "data").mkdir(parents=True)
    for name in (*names, "read.md"):
        (root / "data" / name).touch()
        (root / f"linked-{name}").hardlink_to(root / "data" / name)
        (root / f"to-{name}").symlink_to(root / "data" / name)
    homes = Homes(tmp_path / "homes", settings=MemorySettings(), kept=(root / "data/reverie.db",))
    scope = make_scope(homes, project=ProjectRef(name="a", root=root))
    for path in (f"{root}/{before}{name}" for before in ("data/", "linked-", "to-") for name in names):
        with pytest.raises(PathRefused, match="gateway's own"):
            readable_path(scope, path)
    for path in ("data/read.md", "linked-read.md", "to-read.md", "data", "."):
        assert readable_path(scope, f"{root}/{path}").is_relative_to(os.path.realpath(root))


def test_the_hosts_file_is_not_read_through_a_hard_link_from_elsewhere(tmp_path: Path) -> None:
    root, own = tmp_path / "app", tmp_path / "data/reverie.db"
    for folder in (root, own.parent):
        folder.mkdir()
    own.touch()
    (root / "x.db").hardlink_to(own)
    homes = Homes(tmp_path / "homes", settings=MemorySettings(), kept=(own,))
    with pytest.raises(PathRefused, match="gateway's own"):
        readable_path(make_scope(homes, project=ProjectRef(name="a", root=root)), str(root / "x.db"))


@pytest.mark.parametrize("folder", ["agent-memory", "agent-memory-local", "agent-memory-snapshots", "Agent-Memory"])
def test_what_agents_keep_in_a_project_is_not_read_where_memory_is_off(tmp_path: Path, folder: str) -> None:
    homes, root = make_homes(tmp_path / "homes"), tmp_path / "app"
    note = root / ".claude" / folder / "gardener/x.md"
    note.parent.mkdir(parents=True)
    note.touch()
    scope = make_scope(homes, project=ProjectRef(name="garden", root=root))
    assert readable_path(scope, str(note)) == Path(os.path.realpath(note))
    for path in (note, note.parent, note.parents[1]):
        with pytest.raises(PathRefused, match="memory is off"):
            readable_path(replace(scope, enabled=False), str(path))


@pytest.mark.parametrize("text", ["", "gitdir:", "gitdir: /nowhere", "nonsense", "gitdir: a\nb", "gitdir: \0"])
def test_a_broken_git_file_leaves_the_plain_root(tmp_path: Path, text: str) -> None:
    (tmp_path / ".git").write_text(text)
    assert canonical_root(tmp_path) == Path(os.path.realpath(tmp_path))


@pytest.mark.parametrize(
    ("environ", "setting", "bare", "on"),
    [
        ({}, True, False, True),
        ({}, False, False, False),
        ({"REVERIE_DISABLE_AUTO_MEMORY": " YES "}, True, False, False),
        ({"REVERIE_DISABLE_AUTO_MEMORY": "0"}, False, True, True),
        ({"REVERIE_DISABLE_AUTO_MEMORY": ""}, False, False, False),
        ({"REVERIE_DISABLE_AUTO_MEMORY": "maybe"}, True, False, True),
        ({}, True, True, False),
        ({"REVERIE_SIMPLE": "1"}, True, False, False),
        ({"REVERIE_REMOTE": "on"}, True, False, False),
        ({"REVERIE_REMOTE": "on", "REVERIE_REMOTE_MEMORY_DIR": "/m"}, True, False, True),
    ],
)
def test_the_first_opinion_decides_whether_memory_is_on(
    environ: dict[str, str], setting: bool, bare: bool, on: bool
) -> None:
    assert enabled(MemorySettings(auto_memory_enabled=setting), environ=environ, bare=bare) is on


def test_a_link_that_took_the_place_of_the_memory_directory_is_not_made_use_of(tmp_path: Path) -> None:
    scope = make_scope(make_homes(tmp_path / "homes"))
    scope.memory_dir.parent.mkdir(parents=True)
    scope.memory_dir.symlink_to(tmp_path / "elsewhere")
    assert not ensure(scope)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("name", ["a\\b.md", "~.md", "~ann/x.md"])
def test_a_name_that_only_a_person_gives_a_file_is_reached_where_it_exists(tmp_path: Path, name: str) -> None:
    scope = make_scope(make_homes(tmp_path / "homes"))
    with pytest.raises(PathRefused):
        readable_path(scope, name)
    (scope.memory_dir / name).parent.mkdir(parents=True)
    (scope.memory_dir / name).touch()
    assert readable_path(scope, name) == scope.memory_dir / name


def test_a_name_that_is_no_text_is_refused_even_where_it_exists(tmp_path: Path) -> None:
    scope = make_scope(make_homes(tmp_path / "homes"))
    scope.memory_dir.mkdir(parents=True)
    name = b"caf\xe9.md".decode("utf-8", "surrogateescape")
    (scope.memory_dir / name).touch()
    with pytest.raises(PathRefused, match="not valid Unicode"):
        readable_path(scope, name)


@pytest.mark.parametrize("name", [".pets.md", ".hidden/pets.md", "team/.pets.md", "a/.b/c.md"])
def test_no_name_in_memory_begins_with_a_dot(tmp_path: Path, name: str) -> None:
    scope = make_scope(make_homes(tmp_path / "homes"))
    place = scope.memory_dir / name
    place.parent.mkdir(parents=True)
    place.write_text("- Ann keeps bees\n")
    for reach in (readable_path, writable_path):
        with pytest.raises(PathRefused, match="begins with a dot"):
            reach(scope, name)


@pytest.mark.parametrize("name", ["pets.txt", "pets.markdown", "pets.MD", "pets"])
def test_of_memory_only_notes_are_read_and_of_the_project_every_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "code").mkdir()
    scope = make_scope(make_homes(tmp_path / "homes"), project=ProjectRef(name="p", root=tmp_path / "code"))
    ensure(scope)
    for place in (scope.memory_dir / name, tmp_path / "code" / name):
        place.write_text("Ann keeps bees\n")
    with pytest.raises(PathRefused, match="no note"):
        readable_path(scope, name)
    assert readable_path(scope, str(tmp_path / "code" / name)) == tmp_path / "code" / name
    assert readable_path(scope, ".") == scope.memory_dir
