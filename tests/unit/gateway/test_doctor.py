import json
import logging
import os
import socket
import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import telegram as telegram_library
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from adapters.serving import serving
from adapters.slack.manifest import SCOPES
from adapters.standins.slack import SlackStandin
from adapters.standins.telegram import TelegramStandin
from gateway.asgi import application
from gateway.checks.finding import Limits
from gateway.checks.machine import check_files, check_home
from gateway.db.engine import connect, migrate
from gateway.doctor import examine
from gateway.home import LOCK, only_gateway
from gateway.llm.standin.server import ModelStandin
from gateway.settings import load
from gateway.shell.starting import hold_home

TELEGRAM_TOKEN = "4200000000:stand-in"
Found = Mapping[str, Mapping[str, str]]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
async def serve() -> AsyncIterator["Servers"]:
    async with AsyncExitStack() as stack:
        yield Servers(stack)


class Servers:
    """Opens servers for the length of a test."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack

    async def __call__(self, app: Starlette) -> str:
        return await self._stack.enter_async_context(serving(app))


class WithScopes:
    """Adds Slack's header of granted scopes to each answer."""

    def __init__(self, app: ASGIApp, scopes: str) -> None:
        self._app, self._scopes = app, scopes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["x-oauth-scopes"] = self._scopes
            await send(message)

        await self._app(scope, receive, sending)


async def examined(home: Path, **environ: str) -> tuple[int, Found]:
    return await examined_with(home, Limits(), **environ)


async def examined_with(home: Path, limits: Limits, **environ: str) -> tuple[int, Found]:
    said: list[str] = []
    given = {"REVERIE_HOME": str(home), "REVERIE_MANAGED_DIR": str(home / "none"), "REVERIE_HTTP": "127.0.0.1:0"}
    code = await examine(as_json=True, say=said.append, environ=given | environ, limits=limits)
    return code, {each["check"]: each for each in json.loads(said[0])}


def slack_env(base: str, *, bot: str = "xoxb-stand-in", app: str = "xapp-stand-in") -> dict[str, str]:
    return {"SLACK_BOT_TOKEN": bot, "SLACK_APP_TOKEN": app, "SLACK_API_URL": f"{base}/api/"}


async def test_agents_whose_files_are_at_fault_are_named_with_the_cure(home: Path, tmp_path: Path) -> None:
    for root, folder in ((home, "agents"), (tmp_path / "tea", ".claude/agents")):
        (root / folder).mkdir(parents=True)
        (root / folder / "good.md").write_text("---\nname: good\ndescription: d\ntools: [read]\n---\n\nWork.\n")
    projects = json.dumps({"tea": {"root": str(tmp_path / "tea"), "chats": ["telegram:-1"]}})
    _, found = await examined(home)
    assert (found["agents"]["status"], "good" in found["agents"]["finding"]) == ("ok", True)
    _, found = await examined(home, REVERIE_PROJECTS=projects)
    assert str(tmp_path / "tea/.claude/agents/good.md") in found["agents"]["finding"]
    assert "already" in found["agents"]["finding"]
    (home / "agents/odd.md").write_text("---\nname: odd\ndescription: d\ntools: [read, bash]\n---\n\nWork.\n")
    _, found = await examined(home)
    assert (found["agents"]["status"], "bash" in found["agents"]["finding"]) == ("warn", True)
    (home / "agents/odd.md").write_text("no head")
    _, found = await examined(home)
    assert "no frontmatter" in found["agents"]["finding"]
    assert "between two lines of ---" in found["agents"]["cure"]


def open_to_others(path: Path) -> None:
    path.chmod(0o755)


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


async def test_nothing_set_up_is_no_failure(home: Path) -> None:
    code, found = await examined(home)
    assert code == 0
    assert {found[name]["status"] for name in ("telegram", "slack", "model", "clock")} == {"off"}
    assert "TELEGRAM_BOT_TOKEN" in found["telegram"]["cure"]
    assert {found[name]["status"] for name in ("settings", "home", "database", "http")} == {"ok"}
    assert list(os.scandir(home)) == []


async def test_everything_set_up_right_is_fine(home: Path, serve: Servers) -> None:
    slack = SlackStandin()
    slack.app.add_middleware(WithScopes, scopes=",".join(SCOPES))
    telegram, model = TelegramStandin(TELEGRAM_TOKEN, privacy=False), ModelStandin(api_key="right")
    environ = {"TELEGRAM_BOT_TOKEN": TELEGRAM_TOKEN, "TELEGRAM_API_URL": await serve(telegram.app)}
    environ |= slack_env(await serve(slack.app))
    environ |= {"ANTHROPIC_API_KEY": "right", "ANTHROPIC_BASE_URL": await serve(model.app)}
    environ |= {"REVERIE_PROJECTS": '{"garden": {"chats": ["telegram:-1"]}}'}
    code, found = await examined(home, **environ)
    assert code == 0
    assert {each["status"] for check, each in found.items() if check != "files"} == {"ok"}, found
    assert {"telegram", "telegram groups", "slack scopes", "slack events", "model", "model for recall", "clock"} <= set(
        found
    )
    assert "getUpdates" not in [call.method for call in telegram.calls]
    assert slack.deliveries.connected_in_all == 0


async def test_wrong_tokens_fail_with_their_cures_and_are_never_shown(home: Path, serve: Servers) -> None:
    secrets = {"TELEGRAM_BOT_TOKEN": "4200000001:wrong-telegram", "ANTHROPIC_API_KEY": "wrong-model-key"}
    environ = {"TELEGRAM_API_URL": await serve(TelegramStandin(TELEGRAM_TOKEN).app)} | secrets
    environ |= slack_env(await serve(SlackStandin().app), bot="wrong-slack-bot", app="wrong-slack-app")
    environ["ANTHROPIC_BASE_URL"] = await serve(ModelStandin(api_key="right").app)
    code, found = await examined(home, **environ)
    assert code == 1
    cures = {
        "telegram": "@BotFather",
        "slack": "SLACK_BOT_TOKEN",
        "slack events": "SLACK_APP_TOKEN",
        "model": "ANTHROPIC_API_KEY",
    }
    for check, cure in cures.items():
        assert found[check]["status"] == "fail"
        assert cure in found[check]["cure"]
    assert not [word for word in json.dumps(found).split() if "wrong-" in word]


async def test_a_token_that_a_server_repeats_is_hidden(home: Path, serve: Servers) -> None:
    model = ModelStandin()
    model.fail(400, times=2, message="no credit is left on the account of my-own-secret-key")
    _, found = await examined(home, ANTHROPIC_API_KEY="my-own-secret-key", ANTHROPIC_BASE_URL=await serve(model.app))
    assert "no credit is left on the account of [redacted]" in found["model"]["finding"]


async def test_servers_that_are_away_fail_and_name_the_address(home: Path) -> None:
    away = f"http://127.0.0.1:{closed_port()}"
    environ = {"TELEGRAM_BOT_TOKEN": TELEGRAM_TOKEN, "TELEGRAM_API_URL": away, "ANTHROPIC_BASE_URL": away}
    code, found = await examined(home, **environ, **slack_env(away))
    assert code == 1
    for check, name in {
        "telegram": "TELEGRAM",
        "slack": "SLACK",
        "slack events": "SLACK",
        "model": "ANTHROPIC",
    }.items():
        assert found[check]["status"] == "fail"
        assert "reached" in found[check]["finding"]
        assert name in found[check]["cure"]
    assert found["clock"]["status"] == "off"


async def test_an_address_that_leads_elsewhere_fails_for_each_service(home: Path, serve: Servers) -> None:
    async def page(_: Request) -> Response:
        return PlainTextResponse("Sign in to the network")

    base = await serve(Starlette(routes=[Route("/{path:path}", page, methods=["GET", "POST", "HEAD"])]))
    environ = {"TELEGRAM_BOT_TOKEN": TELEGRAM_TOKEN, "TELEGRAM_API_URL": base, "ANTHROPIC_BASE_URL": base}
    code, found = await examined(home, **environ, **slack_env(base))
    assert code == 1
    assert {found[check]["status"] for check in ("telegram", "slack", "slack events", "model")} == {"fail"}
    assert "does not speak the Messages API" in found["model"]["finding"]
    assert not [each for each in found.values() if "check itself failed" in each["finding"]]


async def test_an_unknown_model_is_told_apart_from_a_wrong_key(home: Path, serve: Servers) -> None:
    base = await serve(ModelStandin().app)
    _, found = await examined(home, ANTHROPIC_BASE_URL=base, REVERIE_MODEL__RECALL="claude-of-tomorrow")
    assert found["model"]["status"] == "ok"
    assert found["model for recall"]["status"] == "fail"
    assert "does not know the model claude-of-tomorrow" in found["model for recall"]["finding"]


async def test_a_busy_model_is_only_a_warning(home: Path, serve: Servers) -> None:
    model = ModelStandin()
    model.fail(529, times=2)
    code, found = await examined(home, ANTHROPIC_BASE_URL=await serve(model.app))
    assert (code, found["model"]["status"]) == (0, "warn")


async def test_a_missing_scope_is_named_with_what_it_costs(home: Path, serve: Servers) -> None:
    slack = SlackStandin()
    slack.app.add_middleware(WithScopes, scopes=",".join(scope for scope in SCOPES if scope != "im:history"))
    code, found = await examined(home, **slack_env(await serve(slack.app)))
    assert (code, found["slack scopes"]["status"]) == (0, "warn")
    assert "direct messages" in found["slack scopes"]["finding"]
    assert "im:history" in found["slack scopes"]["cure"]


async def test_a_bot_that_may_not_post_fails(home: Path, serve: Servers) -> None:
    slack = SlackStandin()
    slack.app.add_middleware(WithScopes, scopes="im:history")
    code, found = await examined(home, **slack_env(await serve(slack.app)))
    assert (code, found["slack scopes"]["status"]) == (1, "fail")


async def test_slack_without_a_way_in_fails(home: Path, serve: Servers) -> None:
    base = await serve(SlackStandin().app)
    environ = {"SLACK_BOT_TOKEN": "xoxb-stand-in", "SLACK_API_URL": f"{base}/api/"}
    assert (await examined(home, **environ))[1]["slack events"]["status"] == "fail"
    assert (await examined(home, **environ, SLACK_SIGNING_SECRET="shh-shh"))[1]["slack events"]["status"] == "ok"


async def test_privacy_mode_and_a_foreign_webhook_are_warnings(home: Path, serve: Servers) -> None:
    telegram = TelegramStandin(TELEGRAM_TOKEN)
    base = await serve(telegram.app)
    bot = connect_telegram(base)
    async with bot:
        await bot.set_webhook("https://elsewhere.example/hook")
    code, found = await examined(home, TELEGRAM_BOT_TOKEN=TELEGRAM_TOKEN, TELEGRAM_API_URL=base)
    assert (code, found["telegram"]["status"]) == (0, "ok")
    assert "/setprivacy" in found["telegram groups"]["cure"]
    assert found["telegram webhook"]["status"] == "warn"
    assert "elsewhere.example" in found["telegram webhook"]["finding"]


def connect_telegram(base: str) -> "telegram_library.Bot":
    return telegram_library.Bot(TELEGRAM_TOKEN, base_url=f"{base}/bot")


async def test_a_server_that_does_not_answer_costs_no_more_than_the_limit(home: Path, serve: Servers) -> None:
    telegram = TelegramStandin(TELEGRAM_TOKEN)
    telegram.delay("getMe", 30)
    environ = {"TELEGRAM_BOT_TOKEN": TELEGRAM_TOKEN, "TELEGRAM_API_URL": await serve(telegram.app)}
    code, found = await examined_with(home, Limits(answer_within=0.5), **environ)
    assert (code, found["telegram"]["status"]) == (1, "fail")
    assert "0.5 s" in found["telegram"]["finding"]


async def test_a_wrong_clock_is_a_warning_that_says_how_far(home: Path, serve: Servers) -> None:
    said: list[str] = []
    environ = {"REVERIE_HOME": str(home), "ANTHROPIC_BASE_URL": await serve(ModelStandin().app)}
    environ |= {"REVERIE_HTTP": "127.0.0.1:0"}
    late = datetime.now(UTC) - timedelta(minutes=5)
    assert await examine(as_json=True, say=said.append, environ=environ, now=lambda: late) == 0
    clock = next(each for each in json.loads(said[0]) if each["check"] == "clock")
    assert clock["status"] == "warn"
    assert "behind" in clock["finding"]


async def test_a_broken_settings_file_is_one_finding_and_the_rest_goes_on(home: Path, serve: Servers) -> None:
    (home / "reverie.toml").write_text("timezone = [")
    (home / "reverie.toml").chmod(0o600)
    telegram = TelegramStandin(TELEGRAM_TOKEN, privacy=False)
    environ = {"TELEGRAM_BOT_TOKEN": TELEGRAM_TOKEN, "TELEGRAM_API_URL": await serve(telegram.app)}
    code, found = await examined(home, **environ)
    assert (code, found["settings"]["status"]) == (1, "fail")
    assert "reverie.toml is not valid TOML" in found["settings"]["finding"]
    assert "Mend that line" in found["settings"]["cure"]
    assert found["telegram"]["status"] == "ok"
    assert "settings can't be read" in found["slack"]["finding"]


async def test_a_broken_environment_leaves_the_checks_of_the_machine(home: Path) -> None:
    code, found = await examined(home, REVERIE_TIMEZONE="Mars/Olympus")
    assert (code, found["settings"]["status"]) == (1, "fail")
    assert "Mars/Olympus" in found["settings"]["finding"]
    assert found["home"]["status"] == "ok"


async def test_a_home_that_is_a_file_fails(home: Path) -> None:
    file = home / "file"
    file.write_text("")
    code, found = await examined(file)
    assert (code, found["home"]["status"]) == (1, "fail")
    assert "REVERIE_HOME" in found["home"]["cure"]


async def test_a_home_that_nobody_can_make_fails() -> None:
    code, found = await examined(Path("/dev/null/home"))
    assert (code, found["home"]["status"]) == (1, "fail")


@pytest.fixture
def as_nobody(home: Path) -> Iterator[None]:
    home.chmod(0o000)
    user = os.geteuid()
    if user == 0:  # for whom no rights count
        os.seteuid(65534)
    yield
    os.seteuid(user)
    home.chmod(0o700)


@pytest.mark.usefixtures("as_nobody")
def test_a_home_that_this_user_may_not_read_fails(home: Path) -> None:
    found = check_home(home, Limits())
    assert [each.status for each in found] == ["fail"]
    assert f"chmod 700 {home}" in found[0].cure
    assert [each.status for each in check_files(home, Limits())] == ["off"]


async def test_where_the_home_is_a_file_each_cure_is_about_the_home(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    _, found = await examined(tmp_path / "home", REVERIE_MANAGED_DIR=str(tmp_path / "none"))
    failed = {name: each["cure"] for name, each in found.items() if each["status"] in {"fail", "warn"}}
    assert set(failed) == {"settings", "home", "database"}
    assert all(cure.startswith("Set REVERIE_HOME") for cure in failed.values())


def test_what_others_could_read_but_can_not_get_at_is_fine(home: Path) -> None:
    (home / "notes").mkdir()
    (home / "notes/note.md").write_text("secret")
    for path in (home / "notes", home / "notes/note.md"):
        open_to_others(path)
    assert [each.status for each in check_files(home, Limits())] == ["ok"]
    open_to_others(home)
    (found,) = check_files(home, Limits())
    assert (found.status, found.finding.startswith("2 below")) == ("warn", True)
    (home / "notes").chmod(0o700)
    assert [each.status for each in check_files(home, Limits())] == ["ok"]


async def test_what_others_may_read_is_a_warning(home: Path) -> None:
    (home / "note.md").write_text("secret")
    open_to_others(home / "note.md")
    open_to_others(home)
    code, found = await examined(home)
    assert code == 0
    assert (found["home"]["status"], found["home"]["cure"]) == ("warn", f"chmod 700 {home}")
    assert found["files"]["status"] == "warn"
    assert "note.md" in found["files"]["finding"]


async def test_a_disk_too_full_fails_and_too_few_open_files_are_a_warning(home: Path) -> None:
    limits = Limits(disk_needed=1 << 62, open_files=1 << 40)
    code, found = await examined_with(home, limits)
    assert (code, found["disk"]["status"]) == (1, "fail")
    assert found["limits"]["status"] in {"warn", "ok"}  # ok where any number is allowed
    assert "open files" in found["limits"]["finding"]


async def test_a_database_of_ours_is_fine_and_unchanged(home: Path) -> None:
    database = connect(f"sqlite+aiosqlite:///{home / 'reverie.db'}")
    await migrate(database)
    await database.engine.dispose()
    (home / "reverie.db").chmod(0o600)
    before = (home / "reverie.db").read_bytes()
    code, found = await examined(home)
    assert (code, found["database"]["status"]) == (0, "ok")
    assert "has schema" in found["database"]["finding"]
    assert found["files"]["status"] == "ok"
    assert (home / "reverie.db").read_bytes() == before


async def test_a_database_of_a_newer_schema_fails(home: Path) -> None:
    with sqlite3.connect(home / "reverie.db") as connection:
        connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
        connection.execute("INSERT INTO alembic_version VALUES ('9999_future')")
    connection.close()
    code, found = await examined(home)
    assert (code, found["database"]["status"]) == (1, "fail")
    assert "9999_future, which is newer" in found["database"]["finding"]


async def test_a_file_that_is_no_database_fails(home: Path) -> None:
    (home / "reverie.db").write_bytes(b"this is no database at all" * 100)
    code, found = await examined(home)
    assert (code, found["database"]["status"]) == (1, "fail")
    assert "not a database" in found["database"]["finding"]


async def test_a_database_server_that_is_away_fails_without_its_password(home: Path) -> None:
    code, found = await examined(home, DATABASE_URL=f"postgresql+asyncpg://u:hidden-word@127.0.0.1:{closed_port()}/db")
    assert (code, found["database"]["status"]) == (1, "fail")
    assert "check itself failed" not in found["database"]["finding"]
    assert "hidden-word" not in json.dumps(found)


async def test_a_port_in_use_fails_unless_our_own_gateway_uses_it(home: Path, serve: Servers) -> None:
    async def faults() -> Mapping[str, str]:
        return {"slack": "silent"}

    other, ours = (
        await serve(Starlette()),
        await serve(application(faults=faults, metrics=lambda _: (b"", "text/plain"), routes=[])),
    )
    code, found = await examined(home, REVERIE_HTTP=other.removeprefix("http://"))
    assert (code, found["http"]["status"]) == (1, "fail")
    with only_gateway(home):
        code, found = await examined(home, REVERIE_HTTP=ours.removeprefix("http://"))
    assert (code, found["http"]["status"]) == (0, "warn")
    assert "silent" in found["http"]["finding"]


async def test_settings_that_are_newer_than_the_gateway_that_runs_are_a_warning(home: Path) -> None:
    file, lock = home / "reverie.toml", home / LOCK
    file.write_text("")
    with hold_home(load({"REVERIE_HOME": str(home)})):
        os.utime(file, (lock.stat().st_mtime - 60,) * 2)
        assert "running" not in (await examined(home))[1]
        os.utime(file, (lock.stat().st_mtime + 60,) * 2)
        _, found = await examined(home)
        assert (found["running"]["status"], str(file) in found["running"]["finding"]) == ("warn", True)
        assert "Start it anew" in found["running"]["cure"]
    assert "running" not in (await examined(home))[1]


async def test_a_port_that_the_gateway_of_another_home_holds_fails_and_says_so(home: Path, serve: Servers) -> None:
    async def faults() -> Mapping[str, str]:
        return {}

    there = await serve(application(faults=faults, metrics=lambda _: (b"", "text/plain"), routes=[]))
    code, found = await examined(home, REVERIE_HTTP=there.removeprefix("http://"))
    assert (code, found["http"]["status"]) == (1, "fail")
    assert f"not that of {home}" in found["http"]["finding"]
    assert "REVERIE_HOME" in found["http"]["cure"]
    assert not (home / "gateway.lock").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[memory]\nx = = 1\n", ["is not valid TOML", "line 2", "all of its memory is off"]),
        ("[memory]\nrecall_enabled = 'perhaps'\n", ["recall_enabled that is neither true nor false", "counts as off"]),
        ("[memory]\nrecall_enable = false\n", ["sets memory.recall_enable", "did you mean recall_enabled?"]),
        ("memory = 1\n", ["memory that is no table"]),
    ],
)
@pytest.mark.parametrize("file", ["home/homes/ann/settings.toml", "garden/.claude/reverie.toml"])
async def test_preferences_that_cannot_be_understood_are_named_with_file_cause_and_cure(
    home: Path, tmp_path: Path, file: str, text: str, said: list[str]
) -> None:
    (tmp_path / file).parent.mkdir(parents=True)
    projects = json.dumps({"garden": {"root": str(tmp_path / "garden")}})
    assert (await examined(home, REVERIE_PROJECTS=projects))[1]["preferences"]["status"] == "ok"
    (tmp_path / file).write_text(text)
    code, found = await examined(home, REVERIE_PROJECTS=projects)
    about = found["preferences"]
    assert (code, about["status"], about["finding"].startswith(str(tmp_path / file))) == (0, "warn", True)
    assert [words for words in said if words not in about["finding"]] == []
    assert about["cure"]


async def test_preferences_that_are_a_link_are_told_and_not_read_through(home: Path, tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text("[memory]\nhidden-word = 1\n")
    (home / "homes/ann").mkdir(parents=True)
    (home / "homes/ann/settings.toml").symlink_to(tmp_path / "other.toml")
    _, found = await examined(home)
    assert "is a link, or no plain file" in found["preferences"]["finding"]
    assert "hidden-word" not in json.dumps(found)


async def test_a_misspelt_variable_is_a_warning_that_names_the_right_one(home: Path) -> None:
    code, found = await examined(home, REVERIE_ACESS__PRIVATE="off")
    assert (code, found["settings"]["status"], found["environment"]["status"]) == (0, "ok", "warn")
    assert "did you mean REVERIE_ACCESS__PRIVATE?" in found["environment"]["finding"]


async def test_a_full_stop_within_a_fault_does_not_cut_it_off(home: Path) -> None:
    _, found = await examined(home, TELEGRAM_BOT_TOKEN=TELEGRAM_TOKEN, TELEGRAM_API_URL="nowhere")
    assert found["settings"]["finding"].endswith("e.g. https://api.telegram.org")
    assert found["settings"]["cure"].startswith("Mend it")


async def test_a_full_stop_within_the_name_of_a_file_does_not_cut_a_fault_off(tmp_path: Path) -> None:
    home = tmp_path / "Dr. No"
    home.mkdir(mode=0o700)
    (home / "reverie.toml").write_text("a = = 1")
    _, found = await examined(home)
    assert found["settings"]["finding"].startswith(f"{home}/reverie.toml is not valid TOML")
    assert found["settings"]["cure"] == "Mend that line, or move the file away."


async def test_a_root_that_is_not_there_is_a_warning_that_names_its_project(home: Path, tmp_path: Path) -> None:
    _, found = await examined(home, REVERIE_PROJECTS=json.dumps({"tea": {"root": str(tmp_path / "gone")}}))
    assert found["project root"]["status"] == "warn"
    assert f"the root of tea, {tmp_path / 'gone'}, is no folder here" in found["project root"]["finding"]
    assert "[projects.tea]" in found["project root"]["cure"]


async def test_each_fault_of_the_settings_is_a_finding_with_its_whole_cause(home: Path) -> None:
    said: list[str] = []
    environ = {"REVERIE_HOME": str(home), "REVERIE_HTTP": "8710", "REVERIE_WORKERS": "0"}
    assert await examine(as_json=True, say=said.append, environ=environ) == 1
    found = [each for each in json.loads(said[0]) if each["check"] == "settings"]
    assert [each["finding"].partition(":")[0] for each in found] == ["REVERIE_HTTP", "REVERIE_WORKERS"]
    assert found[0]["finding"].endswith("(127.0.0.1:8710 is one)")
    assert found[-1]["cure"].startswith("Mend it")


async def test_the_text_has_one_line_for_each_check_and_each_cure(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    said: list[str] = []
    caplog.set_level(logging.WARNING)
    open_to_others(home)
    environ = {"REVERIE_HOME": str(home), "REVERIE_HTTP": "127.0.0.1:0"}
    assert await examine(as_json=False, say=said.append, environ=environ) == 0
    assert any(line.startswith("warn  home") for line in said)
    assert f"-> chmod 700 {home}" in said[said.index(next(line for line in said if "warn" in line)) + 1]
    assert said[-1].startswith("0 failed, ")
    assert caplog.records == []
