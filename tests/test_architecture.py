"""The direction of imports, held by import-linter's contracts in pyproject.toml."""

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
    present = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    grown_while_building = {"build", "uv.lock", "reverie.egg-info"}
    assert present - grown_while_building == TOP_LEVEL
