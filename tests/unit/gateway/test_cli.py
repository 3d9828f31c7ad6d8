import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from gateway.cli import COMMANDS, cli

HEAVY = ("anthropic", "slack_bolt", "slack_sdk.web.async_client", "telegram.ext", "apscheduler", "uvicorn")
ROOT = Path(__file__).parents[3]
GROUPS = ("access", "memory", "jobs", "dream")


def loaded_by(home: Path, *words: str) -> set[str]:
    """Run a command in a process of its own, and return which of the heavy modules it has loaded."""
    code = (
        f"import sys; from gateway.cli import main; sys.argv = ['reverie', *{words!r}]\n"
        "try: main()\n"
        f"finally: print(*[name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    environ = {"REVERIE_HOME": str(home), "REVERIE_MANAGED_DIR": str(home / "none"), "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False)
    return set(done.stderr.splitlines()[-1].split())  # `run` says before it that there is nothing to run


@pytest.mark.parametrize("words", [("--help",), ("access", "list"), ("memory", "list"), ("memory", "--help"), ("run",)])
def test_a_command_that_only_looks_loads_no_sdk(tmp_path: Path, words: tuple[str, ...]) -> None:
    assert loaded_by(tmp_path / "home", *words) == set()


def test_a_process_that_ends_does_not_look_through_all_that_it_has_loaded() -> None:
    code = (
        "import atexit, gc, sys; from gateway.cli import main; sys.argv = ['reverie', '--version']\n"
        "atexit.register(lambda: print('frozen' if gc.get_freeze_count() else 'looked through'))\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split()[-1] == "frozen"


def test_the_help_says_of_each_command_what_the_command_itself_says() -> None:
    context = click.Context(cli)
    for name, place in COMMANDS.items():
        command = cli.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert command.get_short_help_str(1000) == place.summary


@pytest.mark.parametrize("group", [(), *((name,) for name in GROUPS)])
def test_the_help_of_a_group_cuts_no_sentence_off(group: tuple[str, ...]) -> None:
    listed = CliRunner().invoke(cli, [*group, "--help"]).output.partition("Commands:")[2]
    assert "..." not in listed
    assert listed.rstrip().endswith(".")


@pytest.mark.parametrize("group", [(), *((name,) for name in GROUPS)])
def test_an_unknown_command_is_an_error_that_lists_those_that_there_are(group: tuple[str, ...]) -> None:
    result = CliRunner().invoke(cli, [*group, "lst"])
    assert result.exit_code == 2
    found = cli.get_command(click.Context(cli), group[0]) if group else cli
    assert isinstance(found, click.Group)
    assert all(name in result.stderr for name in found.list_commands(click.Context(found)))
