from pathlib import Path

import pytest
from structlog.testing import capture_logs

from memory.preferences import PRINCIPAL_FILE, PROJECT_FILE, Preferences
from memory.scope import OptOut, Part
from memory.settings import MemorySettings

NO = "[memory]\nauto_memory_enabled = false\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "root/.claude").mkdir(parents=True)
    return tmp_path / "root"


def test_without_files_nobody_has_opted_out(home: Path, project: Path) -> None:
    preferences = Preferences()
    assert not preferences.opted_out(home=home / "missing", project_root=None)
    assert not preferences.opted_out(home=home, project_root=project)


def test_the_principal_may_opt_out_and_in_again(home: Path) -> None:
    preferences = Preferences()
    (home / PRINCIPAL_FILE).write_text(NO)
    assert preferences.opted_out(home=home, project_root=None)
    (home / PRINCIPAL_FILE).write_text(NO.replace("false", "true"))
    assert not preferences.opted_out(home=home, project_root=None)
    (home / PRINCIPAL_FILE).write_text(NO)
    (home / PRINCIPAL_FILE).unlink()
    assert not preferences.opted_out(home=home, project_root=None)


def test_the_project_may_opt_out_for_those_who_work_in_it(home: Path, project: Path) -> None:
    (project / PROJECT_FILE).write_text(NO)
    assert Preferences().opted_out(home=home, project_root=project)
    assert not Preferences().opted_out(home=home, project_root=None)


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ('auto_memory_directory = "~/.ssh"', "auto_memory_directory"),
        ("dream_min_hours = 0", "dream_min_hours"),
        ('"Ann\'s secret" = 1', "unknown"),
    ],
)
def test_anything_else_is_ignored_and_logged_once_by_a_name_of_ours(home: Path, line: str, key: str) -> None:
    preferences = Preferences()
    (home / PRINCIPAL_FILE).write_text(f"[memory]\n{line}\n")
    with capture_logs() as logged:
        assert not any(preferences.opted_out(home=home, project_root=None) for _ in range(3))
    assert [(entry["event"], entry["key"]) for entry in logged] == [("memory.untrusted_setting_ignored", key)]
    assert "ssh" not in str(logged)


@pytest.mark.parametrize("part", Part)
def test_a_part_may_be_left_out_alone_by_either_file(home: Path, project: Path, part: Part) -> None:
    (home / PRINCIPAL_FILE).write_text(f"[memory]\n{part} = false\n")
    (project / PROJECT_FILE).write_text(f'[memory]\n{part} = "off"\n')
    own, theirs = (OptOut(part=part, file=file.as_posix()) for file in (PRINCIPAL_FILE, PROJECT_FILE))
    assert Preferences().opted_out(home=home, project_root=None) == (own,)
    assert Preferences().opted_out(home=home, project_root=project) == (own, theirs)


@pytest.mark.parametrize("part", Part)
def test_a_value_that_makes_no_sense_leaves_out_what_it_is_about_and_no_more(home: Path, part: Part) -> None:
    preferences = Preferences()
    (home / PRINCIPAL_FILE).write_text(f"[memory]\n{part} = 'perhaps'\n")
    with capture_logs() as logged:
        (found,), _ = (preferences.opted_out(home=home, project_root=None) for _ in range(2))
    assert (found.part, found.fault) == (part, "switch_neither_on_nor_off")
    assert [(entry["key"], entry["cause"]) for entry in logged] == [(part, "switch_neither_on_nor_off")]


@pytest.mark.parametrize("part", Part)
def test_what_the_operator_has_off_no_file_turns_on_and_that_is_logged_once(home: Path, part: Part) -> None:
    (home / PRINCIPAL_FILE).write_text(f"[memory]\n{part} = true\n")
    off = Preferences(MemorySettings.model_validate({part.value: False}))
    with capture_logs() as logged:
        assert not any(off.opted_out(home=home, project_root=None) for _ in range(2))
        assert not Preferences().opted_out(home=home, project_root=None)
    assert [(entry["event"], entry["key"]) for entry in logged] == [("memory.untrusted_setting_ignored", part)]


@pytest.mark.parametrize(
    "value",
    [
        "false",
        '"false"',
        '"False "',
        "0",
        '"off"',
        '"no"',
        "0.0",
        '"maybe"',
        "[]",
        "2",
        pytest.param(f"0x{'f' * 5000}", id="a long number"),
    ],
)
def test_whatever_is_not_a_clear_yes_is_an_opt_out(home: Path, value: str) -> None:
    (home / PRINCIPAL_FILE).write_text(f"[memory]\nauto_memory_enabled = {value}\n")
    assert Preferences().opted_out(home=home, project_root=None)


@pytest.mark.parametrize("value", ["true", '"true"', "1", '"on"', '"Yes"'])
def test_a_clear_yes_in_any_form_is_none(home: Path, value: str) -> None:
    (home / PRINCIPAL_FILE).write_text(f"[memory]\nauto_memory_enabled = {value}\n")
    assert not Preferences().opted_out(home=home, project_root=None)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (b"\xff\xfe", "UnicodeDecodeError"),
        (b"[memory", "TOMLDecodeError"),
        (b"a = " + b"9" * 5000, "ValueError"),
        (b"memory = 3", "memory_is_no_table"),
        (b"a = " + b"[" * 60_000, "RecursionError"),
        (b"x" * 100_000, "too_long"),
        (b"[memory]\nauto_memory_enabled = 'maybe'", "switch_neither_on_nor_off"),
    ],
)
def test_a_file_that_makes_no_sense_is_an_opt_out_and_logged_once(home: Path, text: bytes, cause: str) -> None:
    preferences = Preferences()
    (home / PRINCIPAL_FILE).write_bytes(text)
    with capture_logs() as logged:
        assert all(preferences.opted_out(home=home, project_root=None) for _ in range(3))
    assert [(entry["event"], entry["cause"]) for entry in logged] == [("memory.preferences_unreadable", cause)]


def test_an_empty_file_says_nothing(home: Path) -> None:
    (home / PRINCIPAL_FILE).touch()
    assert not Preferences().opted_out(home=home, project_root=None)


@pytest.mark.parametrize("target", ["elsewhere.toml", "missing.toml"])
def test_a_link_is_not_followed_and_counts_as_an_opt_out(home: Path, target: str) -> None:
    preferences = Preferences()
    (home / "elsewhere.toml").write_text(NO.replace("false", "true"))
    (home / PRINCIPAL_FILE).symlink_to(home / target)
    with capture_logs() as logged:
        assert all(preferences.opted_out(home=home, project_root=None) for _ in range(2))
    assert [entry["event"] for entry in logged] == ["memory.preferences_unreadable"]


def test_a_file_that_turns_unreadable_another_way_is_logged_again(home: Path) -> None:
    preferences = Preferences()
    file = home / PRINCIPAL_FILE
    with capture_logs() as logged:
        file.write_text("[memory")
        preferences.opted_out(home=home, project_root=None)
        file.unlink()
        file.mkdir()
        assert preferences.opted_out(home=home, project_root=None)
    assert [entry["cause"] for entry in logged] == ["TOMLDecodeError", "link_or_no_plain_file"]


def test_no_more_files_are_remembered_than_asked(home: Path, project: Path) -> None:
    preferences = Preferences(remembered=1)
    for file in (home / PRINCIPAL_FILE, project / PROJECT_FILE):
        file.write_text("[memory]\ndream_min_hours = 0\n")
    with capture_logs() as logged:
        for _ in range(2):
            preferences.opted_out(home=home, project_root=project)
    assert [entry["source"] for entry in logged] == ["principal", "project"] * 2
