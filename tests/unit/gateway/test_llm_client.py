import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import SecretStr

from adapters.serving import serving
from gateway.errors import ModelFault, ModelRefused, ModelUnavailable
from gateway.llm.client import Model, Reply, Request, Tokens, connect
from gateway.llm.standin.answers import Answer, Failure, Flaw, ToolCall
from gateway.llm.standin.server import ModelStandin
from gateway.settings import ModelSettings
from tests.ports import held_port
from tests.waiting import HANGS

WORDS = "An answer that is long enough to come in several pieces over the wire."
FLAWS = [Flaw.DROP, Flaw.CORRUPT, Flaw.EARLY_END, Flaw.ERROR]
PATIENT = ModelSettings(retries=0, timeout=HANGS)


@pytest.fixture
def standin() -> ModelStandin:
    return ModelStandin()


@pytest.fixture
async def model(standin: ModelStandin) -> AsyncIterator[Model]:
    async with serving(standin.app) as url, connect(PATIENT, base_url=url) as model:
        yield model


def asking(**changes: Any) -> Request:
    given: dict[str, Any] = {
        "model": "claude-sonnet-5-5",
        "max_tokens": 500,
        "system": [{"type": "text", "text": "You help."}],
        "tools": [],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello there"}]}],
    }
    return Request(**given | changes)


async def streamed(model: Model, **changes: Any) -> tuple[str, Reply]:
    pieces, reply = "", None
    async for event in model.stream(asking(**changes)):
        if isinstance(event, Reply):
            reply = event
        else:
            pieces += event
    assert reply is not None
    return pieces, reply


async def test_pieces_and_reply_say_the_same(model: Model, standin: ModelStandin) -> None:
    standin.script(WORDS)
    pieces, reply = await streamed(model)
    assert pieces == reply.text == WORDS
    assert reply.stop_reason == "end_turn"
    assert reply.tokens.input > 0


async def test_a_block_is_kept_as_a_later_request_may_hold_it(model: Model, standin: ModelStandin) -> None:
    tool = {"name": "look", "description": "Look.", "input_schema": {"type": "object", "additionalProperties": False}}
    call = ToolCall(name="look", input={"b": 1, "a": [1.5, "ü"]})
    standin.script(Answer(thinking="Hm.", text="I look.", tools=[call]))
    _, reply = await streamed(model, tools=[tool])
    assert [sorted(block) for block in reply.content] == [
        ["signature", "thinking", "type"], ["text", "type"], ["id", "input", "name", "type"],
    ]  # fmt: skip
    assert list(reply.tool_calls[0]["input"]) == ["b", "a"]
    result = {"type": "tool_result", "tool_use_id": reply.tool_calls[0]["id"], "content": "x"}
    again = [*asking().messages, {"role": "assistant", "content": reply.content}, {"role": "user", "content": [result]}]
    await streamed(model, tools=[tool], messages=again)


@pytest.mark.parametrize("flaw", FLAWS)
@pytest.mark.parametrize("after", [0, 2])
async def test_half_a_stream_is_no_answer(model: Model, standin: ModelStandin, flaw: Flaw, after: int) -> None:
    standin.script(Answer(text=WORDS, flaw=flaw, flaw_after=after))
    with pytest.raises(ModelUnavailable):
        await streamed(model)


async def test_of_an_answer_that_is_left_midway_what_has_come_is_counted(model: Model, standin: ModelStandin) -> None:
    lost: list[Tokens] = []
    standin.script(Answer(text=WORDS, chunk_delay=0.001))
    stream, pieces = model.stream(asking(), broken_off=lost.append), ""
    while len(pieces) < 40:
        piece = await anext(stream)
        assert isinstance(piece, str)
        pieces += piece
    await stream.aclose()
    [used] = lost
    assert used.input + used.cache_read + used.cache_write > 0
    assert used.output >= 10


async def test_of_an_answer_that_came_whole_nothing_is_counted_as_lost(model: Model, standin: ModelStandin) -> None:
    lost: list[Tokens] = []
    standin.script(WORDS)
    async for _ in model.stream(asking(), broken_off=lost.append):
        pass
    assert lost == []


@pytest.mark.parametrize("status", [401, 403, 404, 408, 409, 429, 500, 502, 503, 504, 529])
async def test_what_may_pass_is_unavailable(model: Model, standin: ModelStandin, status: int) -> None:
    standin.fail(status, retry_after=3, message="because of it")
    with pytest.raises(ModelUnavailable, match=f"{status}: because of it"):
        await streamed(model)


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_what_would_meet_the_same_answer_again_is_refused(
    model: Model, standin: ModelStandin, status: int
) -> None:
    standin.fail(status)
    with pytest.raises(ModelRefused):
        await streamed(model)


async def test_a_refused_key_names_the_setting_and_not_the_key() -> None:
    standin = ModelStandin(api_key="sk-ant-right")
    settings = PATIENT.model_copy(update={"api_key": SecretStr("sk-ant-wrong")})
    async with serving(standin.app) as url, connect(settings, base_url=url) as model:
        with pytest.raises(ModelUnavailable, match="ANTHROPIC_API_KEY") as raised:
            await streamed(model)
    assert "sk-ant" not in str(raised.value)


async def test_the_server_says_when_to_come_again(model: Model, standin: ModelStandin) -> None:
    standin.fail(429, retry_after=7)
    with pytest.raises(ModelUnavailable) as raised:
        await streamed(model)
    assert raised.value.retry_after == 7


async def test_a_passing_failure_is_tried_again_before_anybody_hears_of_it(standin: ModelStandin) -> None:
    standin.fail(529, retry_after=0.01)
    async with serving(standin.app) as url, connect(ModelSettings(retries=1), base_url=url) as model:
        assert (await streamed(model))[1].text


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    with held_port() as port:
        async with connect(PATIENT, base_url=f"http://127.0.0.1:{port}") as model:
            with pytest.raises(ModelUnavailable, match="can't be reached"):
                await streamed(model)


async def test_a_server_that_says_nothing_is_unavailable_in_time(standin: ModelStandin) -> None:
    standin.script(Answer(text=WORDS, delay=600))
    settings = ModelSettings(retries=0, timeout=0.3)
    async with serving(standin.app) as url, connect(settings, base_url=url) as model, asyncio.timeout(HANGS):
        with pytest.raises(ModelUnavailable):
            await streamed(model)


async def test_a_stream_that_falls_silent_is_unavailable_in_time(standin: ModelStandin) -> None:
    standin.script(Answer(text=WORDS, chunk_delay=600))
    settings = ModelSettings(retries=0, timeout=0.3)
    async with serving(standin.app) as url, connect(settings, base_url=url) as model, asyncio.timeout(HANGS):
        with pytest.raises(ModelUnavailable):
            await streamed(model)


@pytest.mark.parametrize("reason", ["refusal", "pause_turn", "max_tokens"])
async def test_the_reason_of_the_end_is_handed_on(model: Model, standin: ModelStandin, reason: str) -> None:
    standin.script(Answer(text="Well,", stop_reason=reason))
    assert (await streamed(model))[1].stop_reason == reason


async def test_an_empty_answer_has_no_blocks(model: Model, standin: ModelStandin) -> None:
    standin.script(Answer(text=""))
    assert (await streamed(model))[1].content == []


@pytest.mark.parametrize("flaw", [Flaw.NONE, Flaw.DROP])
async def test_a_side_query_has_its_answer_whole_or_not_at_all(model: Model, standin: ModelStandin, flaw: Flaw) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
              "additionalProperties": False}  # fmt: skip
    standin.script(Answer(text='{"a": "' + "b" * 100 + '"}', flaw=flaw))
    try:
        assert (await model.ask(asking(output_schema=schema))).text.endswith('b"}')
        assert flaw is Flaw.NONE
    except ModelFault:
        assert flaw is Flaw.DROP


async def test_a_failure_with_no_reason_is_told_by_its_status(model: Model, standin: ModelStandin) -> None:
    standin.script(Failure(status=500))
    with pytest.raises(ModelUnavailable, match="500"):
        await streamed(model)
