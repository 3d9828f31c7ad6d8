import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from adapters.slack.adapter import COMMAND
from adapters.slack.manifest import EVENTS, MANIFEST, SCOPES
from gateway.settings import _FIXED_NAMES, Settings, load

TOP = Path(__file__).parents[3]
DEPLOY = TOP / "deploy"
CONTRACT = {
    "REVERIE_HOME", "DATABASE_URL", "TELEGRAM_BOT_TOKEN", "TELEGRAM_API_URL", "SLACK_BOT_TOKEN", "SLACK_APP_TOKEN",
    "SLACK_SIGNING_SECRET", "SLACK_API_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "REVERIE_HTTP",
    "REVERIE_ACCESS__PRIVATE", "REVERIE_ACCESS__SHARED", "REVERIE_ACCESS__OWNERS", "REVERIE_CACHE",
    "REVERIE_MANAGED_DIR",
}  # fmt: skip
SCOPE_OF_CALL = {
    "auth_test": None,
    "apps_connections_open": None,  # the app token's own scope
    "chat_postMessage": "chat:write",
    "chat_update": "chat:write",
    "chat_startStream": "chat:write",
    "chat_appendStream": "chat:write",
    "chat_stopStream": "chat:write",
    "chat_postEphemeral": "chat:write",
    "chat_delete": "chat:write",
    "agents_sessions_setStatus": "chat:write",
    "assistant_threads_setStatus": "chat:write",
    "assistant_threads_setSuggestedPrompts": "assistant:write",
    "assistant_threads_setTitle": "assistant:write",
    "conversations_history": "channels:history",
    "conversations_replies": "channels:history",
    "conversations_info": "channels:read",
    "users_info": "users:read",
    "files_info": "files:read",
    "files_upload_v2": "files:write",
    "reactions_add": "reactions:write",
    "reactions_remove": "reactions:write",
    "views_publish": None,
}


def examples() -> dict[str, str]:
    lines = (DEPLOY / "env.example").read_text().splitlines()
    return dict(line.removeprefix("#").split("=", 1) for line in lines if re.match(r"#?[A-Z_]+=", line))


def test_the_env_example_has_each_variable_of_the_contract_with_a_comment_of_its_own() -> None:
    lines = (DEPLOY / "env.example").read_text().splitlines()
    assert set(examples()) >= CONTRACT
    for number, line in enumerate(lines):
        if re.match(r"#?[A-Z_]+=", line):
            assert lines[number - 1].startswith("# "), line


def test_the_env_example_names_every_top_level_setting_and_every_section() -> None:
    text = (DEPLOY / "env.example").read_text()
    fixed = {path[0] for path in _FIXED_NAMES.values()}
    for name in Settings.model_fields:
        forms = (f"#REVERIE_{name.upper()}=", f"#REVERIE_{name.upper()}__", f"[{name}.")
        assert name in fixed or any(form in text for form in forms), f"name {name} in deploy/env.example"


def test_the_env_example_names_only_settings_that_there_are() -> None:
    for name in examples().keys() - CONTRACT:
        section, _, key = name.removeprefix("REVERIE_").lower().partition("__")
        fields = Settings.model_fields if not key else type(getattr(load({}, read_files=False), section)).model_fields
        assert (key or section) in fields, name


def test_the_env_example_is_valid_when_everything_is_taken_in() -> None:
    settings = load(examples(), read_files=False)
    assert settings.telegram
    assert settings.slack
    assert settings.slack.app_token
    assert settings.database == "sqlite+aiosqlite:////var/lib/reverie/reverie.db"
    assert [str(owner) for owner in settings.access.owners] == ["telegram:42", "slack:T1/U1"]


def test_the_env_example_switches_nothing_on_as_it_is() -> None:
    assert not [line for line in (DEPLOY / "env.example").read_text().splitlines() if line and not line.startswith("#")]


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # systemd's names have capitals
    parser.read_string((DEPLOY / "reverie.service").read_text())
    return parser


def test_the_unit_runs_the_gateway_with_a_private_state_and_no_rights() -> None:
    service = unit()["Service"]
    assert service["ExecStart"].endswith("/reverie run")
    assert service["StateDirectoryMode"] == "0700"
    assert service["Environment"] == "REVERIE_HOME=/var/lib/" + service["StateDirectory"]
    assert service["CapabilityBoundingSet"] == ""
    assert {service[name] for name in ("NoNewPrivileges", "PrivateTmp", "DynamicUser", "ProtectHome")} == {"yes"}
    assert service["ProtectSystem"] == "strict"
    assert service["RestartPreventExitStatus"] == "2"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_has_no_complaint_about_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "reverie.service").read_text().replace("/opt/reverie/bin/reverie", sys.executable)
    (tmp_path / "reverie.service").write_text(text)
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / "reverie.service")]
    verified = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    complaints = [line for line in verified.stderr.splitlines() if "reverie.service" in line]
    assert (verified.returncode, complaints) == (0, [])


def instructions() -> list[tuple[str, str]]:
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def test_the_image_is_built_in_stages_from_the_lock_and_runs_as_nobody_special() -> None:
    found = instructions()
    words = [word for word, _ in found]
    known = {"FROM", "ENV", "WORKDIR", "RUN", "COPY", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
    assert set(words) <= known
    assert words.count("FROM") == 2
    assert any("--require-hashes -r requirements.lock" in rest for word, rest in found if word == "RUN")
    assert dict(found)["USER"] == "10001:10001"
    assert words.index("USER") < words.index("ENTRYPOINT")
    assert dict(found)["ENTRYPOINT"] == '["reverie"]'


def test_the_image_gets_every_package_and_nothing_that_is_missing() -> None:
    copied = {
        name
        for word, rest in instructions()
        if word == "COPY" and not rest.startswith("--")
        for name in rest.split()[:-1]
    }
    packages = {folder.parent.name for folder in TOP.glob("*/__init__.py")}
    assert packages <= copied
    assert copied <= {*packages, "requirements.lock", "pyproject.toml", "README.md", "LICENSE"}


def test_compose_runs_the_gateway_on_a_volume_with_no_rights() -> None:
    compose: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    gateway = compose["services"]["gateway"]
    assert list(compose["services"]) == ["gateway"]
    assert gateway["volumes"] == [f"home:{gateway['environment']['REVERIE_HOME']}"]
    assert "home" in compose["volumes"]
    assert (DEPLOY / gateway["build"]["context"] / gateway["build"]["dockerfile"]).samefile(DEPLOY / "Dockerfile")
    assert gateway["cap_drop"] == ["ALL"]
    assert all(port.startswith("127.0.0.1:") for port in gateway["ports"])


def test_the_slack_manifest_is_the_text_that_init_prints() -> None:
    assert (DEPLOY / "slack-manifest.yaml").read_text() == MANIFEST


def test_the_slack_manifest_has_what_the_adapter_declares() -> None:
    manifest = yaml.safe_load(MANIFEST)
    assert manifest["oauth_config"]["scopes"]["bot"] == list(SCOPES)
    assert manifest["settings"]["event_subscriptions"]["bot_events"] == list(EVENTS)
    assert [command["command"] for command in manifest["features"]["slash_commands"]] == [COMMAND]
    assert manifest["features"]["app_home"]["messages_tab_enabled"] is True
    assert manifest["features"]["app_home"]["messages_tab_read_only_enabled"] is False
    assert manifest["settings"]["socket_mode_enabled"] is True
    assert len(manifest["display_information"]["name"]) <= 35
    assert len(manifest["display_information"]["description"]) <= 140


def test_every_call_of_the_slack_adapter_has_its_scope_in_the_manifest() -> None:
    source = "\n".join(file.read_text() for file in (TOP / "adapters" / "slack").glob("*.py"))
    names = set(re.findall(r"client\.([a-z]+_\w+)\(", source))
    assert names <= set(SCOPE_OF_CALL), "give the new call its scope"
    assert {"chat_postMessage", "users_info", "conversations_replies"} <= names
    assert {scope for name in names if (scope := SCOPE_OF_CALL[name])} <= set(SCOPES)
