"""The direction of imports, held by import-linter's contracts in pyproject.toml."""

import subprocess
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).parent.parent
TOP_LEVEL = {"pyproject.toml", "gateway", "adapters", "memory", "scheduler", "tests", "deploy", "README.md", "Makefile",
             "requirements.lock", "LICENSE"}  # fmt: skip


def test_imports_point_one_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert lint_imports(config_filename="pyproject.toml", no_cache=True) == 0


def test_the_top_level_holds_nothing_else() -> None:
    assert {name for name in top_level(ROOT) if not name.startswith(".")} == TOP_LEVEL


def top_level(root: Path) -> set[str]:
    """Name what belongs to the project: what git knows, or without git what lies there and is not made by building."""
    try:
        listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, check=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return {path.name for path in root.iterdir()} - {"build", "uv.lock", "reverie.egg-info"}
    return {name.partition("/")[0] for name in listed.stdout.splitlines()}


def test_a_stray_file_is_no_part_of_the_project_but_counts_where_git_can_not_tell(tmp_path: Path) -> None:
    (tmp_path / "stray.txt").touch()
    (tmp_path / "build").mkdir()
    assert top_level(tmp_path) == {"stray.txt"}
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    assert top_level(tmp_path) == set()
