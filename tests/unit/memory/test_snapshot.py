"""What is kept of a memory directory before it is consolidated."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memory import snapshot
from memory.journal import unfinished
from memory.paths import Homes, ensure
from memory.scope import Mode, Scope
from memory.settings import MemorySettings

NOW = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture
def scope(tmp_path: Path) -> Scope:
    homes = Homes(tmp_path / "homes", settings=MemorySettings())
    scope = homes.scope(principal="ann", project=None, member=False, shared=False, mode=Mode.AUTO, timezone="UTC")
    ensure(scope)
    return scope


def test_all_notes_are_kept_but_for_those_of_the_team_and_hidden_folders(scope: Scope) -> None:
    for name in (
        "a.md",
        "sub/b.md",
        "MEMORY.md",
        "logs/2026/05/2026-05-01.md",
        "team/c.md",
        ".git/d.md",
        ".e.md",
        "f.txt",
    ):
        path = scope.memory_dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    taken = snapshot.take(scope, NOW)
    kept = {path.relative_to(taken.folder / "before").as_posix() for path in taken.folder.rglob("*.md")}
    assert kept == {"a.md", "sub/b.md", "MEMORY.md", "logs/2026/05/2026-05-01.md"}


def test_only_the_newest_snapshots_stay(scope: Scope) -> None:
    folders = [snapshot.take(scope, NOW + timedelta(days=day)).folder for day in range(10)]
    assert [folder.exists() for folder in folders] == [False] * 3 + [True] * 7


def test_what_is_no_text_no_file_or_not_in_the_directory_is_left_out(scope: Scope, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("canary")
    (scope.memory_dir / "latin.md").write_bytes(b"caf\xe9")
    (scope.memory_dir / "link.md").symlink_to(tmp_path / "secret.md")
    with (scope.memory_dir / "big.md").open("wb") as stream:
        stream.truncate(50_000_000)
    assert snapshot.read_all(scope) == {}
    for path in (scope.memory_dir / "link.md", tmp_path / "secret.md", scope.memory_dir / "none.md"):
        assert snapshot.read_one(scope, path) is None


def test_where_the_clock_was_set_back_the_newest_is_the_last_and_stays(scope: Scope) -> None:
    for day in range(7):
        snapshot.take(scope, NOW + timedelta(days=3000 + day))
    taken = [snapshot.take(scope, NOW).folder for _ in range(12)]
    assert snapshot.folders(scope) == taken[-7:]


@pytest.mark.parametrize("thrown_away", ["before", "record.json", "journal"])
def test_a_snapshot_that_a_kill_has_left_half_thrown_away_is_none_and_is_cleared_later(
    scope: Scope, monkeypatch: pytest.MonkeyPatch, thrown_away: str
) -> None:
    old = snapshot.take(scope, NOW).folder
    (old / "record.json").write_text("{}")

    def killed(folder: Path, *, ignore_errors: bool = False) -> None:
        assert ignore_errors
        (folder / thrown_away).rename(folder / "gone") if (folder / thrown_away).exists() else None
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("memory.snapshot.shutil.rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            snapshot.discard(old)
    assert (snapshot.folders(scope), unfinished(scope)) == ([], [])
    kept = snapshot.take(scope, NOW).folder
    assert list(snapshot.kept_beside(scope).iterdir()) == [kept]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be"])
def test_a_snapshot_holds_a_file_to_the_byte_and_as_text_that_can_be_scrubbed(scope: Scope, encoding: str) -> None:
    data = ("\ufeff" * encoding.startswith("utf-16") + "- Café\r\n").encode(encoding)
    (scope.memory_dir / "a.md").write_bytes(data)
    taken = snapshot.take(scope, NOW)
    [saved] = snapshot.load(scope, taken.folder).files.values()
    assert (saved.data, saved.text) == (data, "- Café\r\n")
    assert (taken.folder / "before" / "a.md").read_bytes() == "- Café\r\n".encode()


def test_a_snapshot_of_an_older_version_still_knows_what_had_a_byte_order_mark(scope: Scope) -> None:
    path = scope.memory_dir / "a.md"
    path.write_text("- a\n")
    folder = snapshot.take(scope, NOW).folder
    (folder / "forms.json").write_text(json.dumps({snapshot.name_hash(scope, path): [0o644, True]}))
    saved = snapshot.load(scope, folder).files[path]
    assert (saved.data, saved.mode) == (b"\xef\xbb\xbf- a\n", 0o644)
