import asyncio
import json
import re
import shlex
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import anthropic
import httpx
import pytest
from click.testing import CliRunner
from slack_sdk.web.async_client import AsyncWebClient

from adapters.telegram.connection import connect
from gateway.errors import StartRefused
from gateway.settings import load
from gateway.standins import serve, standins
from tests.ports import held_port
from tests.waiting import HANGS

LONGEST_LINE = 350  # the one that scripts an answer long enough to be stopped
ANY = {"Telegram": 0, "Slack": 0, "the model": 0}


@asynccontextmanager
async def standing_in(ports: Mapping[str, int] = ANY) -> AsyncIterator[str]:
    """Serve, yield what was said, and stop."""
    told: asyncio.Queue[str] = asyncio.Queue()
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(serve(ports, say=told.put_nowait, stop=stop))
        async with asyncio.timeout(HANGS):
            yield await told.get()
            stop.set()


def exported(said: str) -> dict[str, str]:
    lines = [line.removeprefix("export ") for line in said.splitlines() if line.startswith("export ")]
    return {name: shlex.split(value)[0] for name, _, value in (line.partition("=") for line in lines)}


async def curl(line: str) -> httpx.Response:
    """Do what `curl` would do with this line."""
    _, _, url, *data = shlex.split(line)
    async with httpx.AsyncClient(trust_env=False) as client:
        return await client.post(url, content=data[1]) if data else await client.get(url)


async def test_the_exported_lines_are_settings_that_the_real_sdks_connect_with() -> None:
    async with standing_in() as said:
        settings = load(exported(said), read_files=False)
        assert settings.telegram
        assert settings.slack
        async with connect(settings.telegram) as bot:
            assert bot.bot.username == "reverie_bot"
        slack = AsyncWebClient(settings.slack.bot_token.get_secret_value(), base_url=settings.slack.api_url)
        slack.proxy = None
        assert (await slack.auth_test())["ok"]
        environ = exported(said)
        key, base = environ["ANTHROPIC_API_KEY"], environ["ANTHROPIC_BASE_URL"]
        async with anthropic.AsyncAnthropic(api_key=key, base_url=base) as client:
            assert (
                await client.messages.count_tokens(
                    model=settings.model.chat, messages=[{"role": "user", "content": "hi"}]
                )
            ).input_tokens


async def test_every_curl_line_works_as_it_is_printed() -> None:
    async with standing_in() as said:
        lines = [line for line in said.splitlines() if line.startswith("curl ")]
        assert len(lines) >= 7
        for line in lines:
            answer = await curl(line)
            assert answer.status_code == 200, (line, answer.text)
            assert "error" not in answer.text
        shown = [json.loads((await curl(line)).text) for line in lines if "/control/messages" in line]
    assert "short answers" in str(shown[0])
    assert "I am Bo" in str(shown[1])
    assert "<@UBOT> hello" in str(shown[2])


async def test_it_says_how_to_stop_an_answer_and_let_a_stranger_in_and_that_shared_chats_are_open() -> None:
    async with standing_in() as said:
        lines = [line for line in said.splitlines() if line.startswith("curl ")]
        assert any('"/stop"' in line for line in lines)
        assert any('"/reverie"' in line for line in lines)
        (stranger,) = [line for line in lines if '"chat": 77' in line]
        assert lines.index(stranger) < next(n for n, line in enumerate(lines) if "messages?chat=77" in line)
        assert "reverie access approve CODE" in said
        before, _, _ = said.partition("export REVERIE_ACCESS__SHARED=open")
        assert "Groups and channels are open" in before


async def test_the_given_ports_are_used() -> None:
    with held_port() as port:
        async with standing_in({**ANY, "Slack": port}) as said:
            assert exported(said)["SLACK_API_URL"] == f"http://127.0.0.1:{port}/api/"


async def test_a_port_in_use_is_one_sentence_with_the_cure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StartRefused, match=f"Port {port} for the model .* Give another one"):
            await serve({**ANY, "the model": port}, say=lambda _: None, stop=asyncio.Event())


def test_the_command_has_a_port_for_each_and_refuses_what_is_none() -> None:
    help_text = CliRunner().invoke(standins, ["--help"]).output
    assert set(re.findall(r"--\w+-port", help_text)) == {"--telegram-port", "--slack-port", "--model-port"}
    assert CliRunner().invoke(standins, ["--slack-port", "70000"]).exit_code == 2


async def test_what_is_printed_is_read_line_by_line() -> None:
    async with standing_in() as said:
        lines = said.splitlines()
        assert max(map(len, lines)) <= LONGEST_LINE
        for name in ("Telegram", "Slack", "Model"):
            assert len([line for line in lines if line.split()[:2] == ["#", name] and "http://127.0.0.1:" in line]) == 1
        exports = [line for line in lines if line.startswith("export ")]
        assert all(line.count("=") == 1 for line in exports)
