import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.cli import cli
from gateway.errors import StartRefused
from gateway.shell.jobs import NAMES
from tests.acceptance.whole import ANN, Speaker, Whole, whole

GROUP = Speaker(user="42", chat="-100")
PROJECT = '[projects.garden]\nchats = ["telegram:-100"]\n'
Shell = Callable[..., Result]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home of a gateway that has been talked to in private and in a group, and was stopped."""

    async def live(running: Whole) -> None:
        for who in (ANN, GROUP):
            await running.tell(who, "Hello there")
        await running.remember(ANN, "Ann keeps a zebra")
        await running.remember(GROUP, "tomatoes in bed 3", name="beds", team=True)

    _during(tmp_path / "home", live)
    return tmp_path / "home"


def _during(home: Path, act: Callable[[Whole], Awaitable[None]]) -> None:
    async def go() -> None:
        async with whole(home, PROJECT) as running:
            await act(running)
            await running.settled()

    asyncio.run(go())


@pytest.fixture
def shell(home: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setattr("gateway.log.configure", lambda **_: None)  # it would keep the runner's closed streams
    monkeypatch.delenv("DATABASE_URL", raising=False)
    places = {"REVERIE_HOME": str(home), "REVERIE_MANAGED_DIR": str(home / "none")}
    nobody = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "REVERIE_MODEL__RETRIES": "0"}
    environ = places | nobody
    return lambda *words, **more: CliRunner().invoke(cli, words, env=environ | more)


def test_memory_is_listed_shown_and_searched_by_principal(shell: Shell) -> None:
    rows = json.loads(shell("memory", "list", "--json").stdout)
    assert {(row["principal"], row["project"]) for row in rows} == {
        (ANN.principal, "_chat"),
        (GROUP.principal, "garden"),
    }
    ann, group = ("--principal", ANN.principal), ("--principal", GROUP.principal, "--project", "garden")
    assert "canary.md" in shell("memory", "list", *ann).stdout
    assert "Ann keeps a zebra" in shell("memory", "show", "canary.md", *ann).stdout
    assert "team/beds.md" in shell("memory", "search", "tomatoes", *group).stdout
    assert shell("memory", "search", "zebra", *group).stdout == "nothing\n"


def test_the_notes_of_a_chat_that_was_bound_since_are_listed_and_shown_still(shell: Shell, home: Path) -> None:
    bound = PROJECT.replace('"telegram:-100"', '"telegram:-100", "telegram:42"')
    (home / "reverie.toml").write_text(bound)
    rows = json.loads(shell("memory", "list", "--json").stdout)
    left = [(row["principal"], row["project"]) for row in rows if row["bound"]]
    assert left == [(ANN.principal, "_chat")]
    assert {row["project"] for row in rows if row["principal"] == ANN.principal} == {"_chat", "garden"}
    for project in ((), ("--project", "_chat")):
        assert "canary.md" in shell("memory", "list", "--principal", ANN.principal, *project).stdout
        assert "a zebra" in shell("memory", "show", "canary", "--principal", ANN.principal, *project).stdout
    assert "canary" not in shell("memory", "list", "--principal", ANN.principal, "--project", "garden").stdout


def test_memory_show_finds_a_note_as_the_chat_command_does(shell: Shell, home: Path) -> None:
    (memory,) = home.glob("homes/person-*/projects/_chat/memory")
    (memory / "a-1.md").write_text("---\nname: The Zoo\n---\n\na giraffe\n")
    (memory / "a-2.md").write_text("an okapi\n")
    show = ("memory", "show", "--principal", ANN.principal)
    assert "giraffe" in shell(*show, "the zoo").stdout
    several = shell(*show, "a")
    assert (several.exit_code, "a-1.md" in several.stderr, len(several.stderr.splitlines())) == (1, True, 1)


def test_the_log_of_a_day_is_listed_and_shown_by_its_date(shell: Shell, home: Path) -> None:
    (memory,) = home.glob("homes/person-*/projects/_chat/memory")
    (memory / "logs/2026/12").mkdir(parents=True)
    (memory / "logs/2026/12/2026-12-01.md").write_text("- 10:00 a giraffe\n")
    assert "logs/2026/12/2026-12-01.md" in shell("memory", "list", "--principal", ANN.principal).stdout
    assert shell("memory", "show", "2026-12-01", "--principal", ANN.principal).stdout == "- 10:00 a giraffe\n"


def test_memory_show_can_not_leave_the_scope(shell: Shell, home: Path) -> None:
    (private,) = home.glob("homes/person-*/projects/_chat/memory/canary.md")
    (group,) = home.glob("homes/chat-*/projects/garden/memory")
    (group / "link.md").symlink_to(private)
    (group / "folder").symlink_to(private.parent)
    for note in (str(private), os.path.relpath(private, group), "link.md", "folder/canary.md"):
        result = shell("memory", "show", note, "--principal", GROUP.principal, "--project", "garden")
        assert (result.exit_code, "zebra" in result.output, len(result.stderr.splitlines())) == (1, False, 1)


def test_what_is_not_there_or_elsewhere_is_one_line_and_no_success(shell: Shell, home: Path) -> None:
    for note in ("none.md", "../x.md", str(home / "reverie.toml")):
        result = shell("memory", "show", note, "--principal", ANN.principal)
        assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)
    assert isinstance(shell("memory", "list", "--principal", "person:nobody").exception, StartRefused)


def test_jobs_are_listed_and_run_by_hand(shell: Shell, home: Path) -> None:
    ran = shell("jobs", "run", "team-sync")
    assert (ran.exit_code, "team-sync" in ran.stdout, ": done: " in ran.stdout) == (0, True, True), ran.output
    rows = {row["job"]: row for row in json.loads(shell("jobs", "list", "--json").stdout)}
    assert {"close-day", "distil", "dream", "team-sync"} <= set(rows)
    assert rows["team-sync"]["last"] != "never"
    assert rows["dream"]["last"] == "never"
    assert shell("jobs", "run", "close-day").stdout == "close-day: nothing to do\n"
    assert "closes the day log" in shell("jobs", "list").stdout
    assert "; next 20" in shell("jobs", "list", "team-sync").stdout
    dry = shell("jobs", "run", "dream", "--dry-run", "--scope", ANN.principal)
    [line] = dry.stdout.splitlines()[1:]
    assert line.startswith(f"- {ANN.principal}: not now: too few sittings; by hand it would put 1 note in order; ")
    assert "no scope 'nobody'" in shell("jobs", "run", "team-sync", "--scope", "nobody").stderr
    assert {row["last"] for row in json.loads(shell("jobs", "list", "dream", "--json").stdout)} == {"never"}
    unknown = shell("jobs", "run", "nonsense")
    assert (unknown.exit_code, "nonsense" in unknown.stderr) == (1, True)


def test_a_job_that_failed_says_why_and_is_no_success(shell: Shell) -> None:
    result = shell("jobs", "run", "dream")
    assert result.exit_code == 1
    assert f"dream {ANN.principal}: failed: " in result.stdout
    assert "no usable answer" in result.stdout


@pytest.mark.parametrize("words", [("memory", "list"), ("jobs", "list")])
def test_a_broken_settings_file_of_a_home_is_one_plain_sentence_and_no_line_of_a_log(
    home: Path, words: Sequence[str]
) -> None:
    (folder,) = home.glob("homes/person*42*")
    (folder / "settings.toml").write_text("[memory]\nx = = 1\n")
    environ = {"REVERIE_HOME": str(home), "REVERIE_MANAGED_DIR": str(home / "none"), "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-m", "gateway", *words]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    (line,) = done.stderr.splitlines()
    assert f"{folder / 'settings.toml'} is not valid TOML" in line
    assert "line 2" in line
    assert "so all of its memory is off. Mend that line" in line
    assert "unreadable" not in done.stdout


def test_people_and_chats_are_let_in_and_put_out(shell: Shell) -> None:
    for what in ("telegram:77", "telegram:-300", "slack:T1/U1", "slack:T1/C1"):
        assert shell("access", "allow", what).exit_code == 0
        assert what in shell("access", "list").stdout
        assert shell("access", "revoke", what).exit_code == 0
        assert what not in shell("access", "list").stdout
    for nonsense in ("", "foo", "foo:42", "telegram", "slack:T1", "42"):
        result = shell("access", "allow", nonsense)
        assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)
        assert "A person looks like telegram:42 or slack:T1/U1" in result.stderr
    for nobody, cure in (("telegram:foo", "numbers"), ("telegram:@ann", "numbers"), ("slack:T1/general", "capital")):
        result = shell("access", "allow", nobody)
        assert (result.exit_code, cure in result.stderr, len(result.stderr.splitlines())) == (1, True, 1)
    assert "No such code" in shell("access", "approve", "ABCDEF").stderr


def test_who_was_let_in_is_listed_for_programs_too(shell: Shell) -> None:
    for what in ("telegram:7", "slack:T1/C1"):
        shell("access", "allow", what)
    rows = json.loads(shell("access", "list", "--json").stdout)
    assert {"kind": "person", "id": "telegram:7"} in rows
    assert {"kind": "chat", "id": "slack:T1/C1"} in rows


def test_revoking_somebody_who_was_not_let_in_is_no_success_and_says_where_to_look(shell: Shell) -> None:
    for nobody in ("telegram:77", "telegram:-77", "telegram:foo", "slack:T1/general"):
        result = shell("access", "revoke", nobody)
        assert (result.exit_code, f"{nobody} was not let in" in result.stderr) == (1, True)
        assert "reverie access list" in result.stderr
        assert "not allowed any more" not in result.output
    assert shell("access", "list").stdout == "nobody and nowhere yet\n"


def test_revoking_somebody_whom_the_settings_let_in_names_the_setting(shell: Shell) -> None:
    owner = shell("access", "revoke", "telegram:42", REVERIE_ACCESS__OWNERS="telegram:42")
    assert (owner.exit_code, "owners" in owner.stderr) == (1, True)
    bound = shell("access", "revoke", "telegram:-100")
    assert (bound.exit_code, "[projects.garden]" in bound.stderr) == (1, True)
    shell("access", "allow", "telegram:-100")
    both = shell("access", "revoke", "telegram:-100")
    assert (both.exit_code, "not allowed any more" in both.stdout) == (0, True)
    assert "[projects.garden]" in both.stderr


@pytest.mark.parametrize("words", [("dream", "run"), ("dream", "status"), ("memory", "search", "tea")])
def test_an_unknown_principal_is_an_error_that_shows_how_principals_look(shell: Shell, words: Sequence[str]) -> None:
    said = str(shell(*words, "--principal", "foo").exception)
    assert "no memory of 'foo'" in said
    assert "chat:slack:T1/C1" in said
    assert ANN.principal in said
    assert "reverie memory list" in said
    assert ANN.principal in str(shell(*words, "--principal", "telegram:42").exception)
    elsewhere = str(shell(*words, "--principal", GROUP.principal).exception)
    assert "Add --project garden" in elsewhere


def test_a_dream_by_hand_ends_with_the_failure_of_its_job(shell: Shell) -> None:
    result = shell("dream", "run", "--principal", ANN.principal)
    assert (result.exit_code, f"dream {ANN.principal}: failed: " in result.stdout) == (1, True)


@pytest.mark.parametrize("words", [("dream", "run", "--principal", ANN.principal), ("jobs", "run", "dream")])
def test_without_a_model_the_stand_in_dreams_and_that_is_said(shell: Shell, words: Sequence[str]) -> None:
    result = shell(*words, ANTHROPIC_BASE_URL="")
    assert result.stdout.startswith("No model is set, so the built-in stand-in answers")
    assert (result.exit_code, f"dream {ANN.principal}: done: " in result.stdout) == (0, True)


def test_a_dream_that_can_not_be_is_told_as_not_due(shell: Shell, home: Path) -> None:
    for file in home.glob("homes/person-*/projects/_chat/memory/*.md"):
        file.unlink()
    result = shell("dream", "run", "--principal", ANN.principal)
    assert f"dream {ANN.principal}: done: not due; " in result.stdout


def test_a_job_of_the_whole_gateway_is_named_without_a_scope(shell: Shell) -> None:
    assert shell("jobs", "run", "forget-runs").stdout.splitlines()[-1].startswith("forget-runs: done: ")


def test_the_help_of_running_a_job_names_every_job(shell: Shell) -> None:
    rows = json.loads(shell("jobs", "list", "--json").stdout)
    assert {row["job"] for row in rows} == set(NAMES)
    for words in (("jobs", "run", "--help"), ("jobs", "list", "--help")):
        assert set(NAMES) <= set(shell(*words).stdout.split())


def test_run_warns_of_misspelt_variables_and_of_grants_for_no_projects_repo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.log.configure", lambda **_: None)
    (tmp_path / "reverie.toml").write_text(
        f'{PROJECT}[memory.team_grants.other]\ntoken = "at-least-sixteen-characters"\nrepos = ["gardn"]\n'
    )
    environ = {"REVERIE_HOME": str(tmp_path), "REVERIE_MANAGED_DIR": str(tmp_path / "none")}
    result = CliRunner().invoke(cli, ["run"], env=environ | {"REVERIE_ACESS__PRIVATE": "off"})
    assert isinstance(result.exception, StartRefused)
    lines = [line for line in result.stderr.splitlines() if "REVERIE_TEST" not in line]
    assert [line.startswith("Warning   ") for line in lines] == [True, True]
    assert "did you mean REVERIE_ACCESS__PRIVATE?" in lines[0]
    assert "memory.team_grants.other opens 'gardn'" in lines[1]
    assert "did you mean garden?" in lines[1]
