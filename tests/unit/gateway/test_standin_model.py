"""The model stand-in over real HTTP, driven by the real SDK."""

import json
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import anyio
import httpx
import httpx2
import pytest
from anthropic import AsyncAnthropic
from anthropic.types import MessageParam, RawMessageStreamEvent, ToolParam
from pydantic import BaseModel

from adapters.serving import serving
from gateway.llm.standin.answers import Answer, Failure, Flaw, ToolCall
from gateway.llm.standin.server import ModelStandin
from tests.waiting import HANGS, until

MODEL = "claude-sonnet-4-6"
KEY = "test-key"
GLOB: ToolParam = {
    "name": "glob",
    "input_schema": {"type": "object", "properties": {"pattern": {"type": "string"}}},
}


class Weather(BaseModel):
    city: str
    degrees: int


@pytest.fixture
def standin() -> ModelStandin:
    return ModelStandin(api_key=KEY, min_cache_tokens=10)


@pytest.fixture
async def url(standin: ModelStandin) -> AsyncIterator[str]:
    async with serving(standin.app) as base:
        yield base


@pytest.fixture
async def client(url: str) -> AsyncIterator[AsyncAnthropic]:
    async with AsyncAnthropic(base_url=url, api_key=KEY, max_retries=0, timeout=HANGS) as client:
        yield client


def says(text: str) -> list[MessageParam]:
    return [{"role": "user", "content": text}]


async def events_of(client: AsyncAnthropic, text: str = "hi") -> list[RawMessageStreamEvent]:
    stream = await client.messages.create(model=MODEL, max_tokens=900, messages=says(text), stream=True)
    return [event async for event in stream]


async def listen(client: AsyncAnthropic, heard: list[str]) -> None:
    async with client.messages.stream(model=MODEL, max_tokens=99, messages=says("hi")) as stream:
        async for text in stream.text_stream:
            heard.append(text)  # noqa: PERF401 - it must hold what came before a break


async def until_outcome(standin: ModelStandin, outcome: str) -> None:
    await until(lambda: standin.requests and standin.requests[-1].outcome == outcome)


async def test_an_unscripted_request_is_answered_by_the_rules(client: AsyncAnthropic) -> None:
    message = await client.messages.create(model=MODEL, max_tokens=500, messages=says("I prefer green tea."))
    assert message.content[0].type == "text"
    assert "Heard: “I prefer green tea.”" in message.content[0].text
    assert message.stop_reason == "end_turn"
    assert message._request_id
    assert message._request_id.startswith("req_")


async def test_a_stream_has_the_events_of_the_api_in_their_order(client: AsyncAnthropic, standin: ModelStandin) -> None:
    standin.script(Answer(text="x" * 60, tools=[ToolCall(name="glob", input={"pattern": "*"})]))
    kinds = [event.type for event in await events_of(client)]
    text = ["content_block_start", *["content_block_delta"] * 3, "content_block_stop"]
    tool = ["content_block_start", *["content_block_delta"] * 2, "content_block_stop"]
    assert kinds == ["message_start", *text, *tool, "message_delta", "message_stop"]


async def test_a_ping_comes_after_the_first_block_has_started(url: str, standin: ModelStandin) -> None:
    standin.script("hello")
    body = {"model": MODEL, "max_tokens": 9, "messages": says("hi"), "stream": True}
    headers = {"x-api-key": KEY, "anthropic-version": "2023-06-01"}
    async with httpx.AsyncClient() as http:
        answer = await http.post(f"{url}/v1/messages", json=body, headers=headers)
    names = [line.removeprefix("event: ") for line in answer.text.splitlines() if line.startswith("event: ")]
    assert names[:4] == ["message_start", "content_block_start", "ping", "content_block_delta"]
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"


async def test_the_streamed_message_is_the_one_that_would_have_come_whole(
    client: AsyncAnthropic, standin: ModelStandin
) -> None:
    answer = Answer(
        text="Ünïcode 🙂 " * 9,
        thinking="hm",
        tools=[ToolCall(name="glob", input={"a": [1, {"b": "ü"}]}, id="toolu_1")],
    )
    standin.script(answer)
    standin.script(answer)
    whole = await client.messages.create(model=MODEL, max_tokens=900, messages=says("hi"))
    async with client.messages.stream(model=MODEL, max_tokens=900, messages=says("hi")) as stream:
        streamed = await stream.get_final_message()
    assert [b.to_dict() for b in streamed.content][1:] == [b.to_dict() for b in whole.content][1:]
    assert (streamed.stop_reason, streamed.usage.output_tokens) == ("tool_use", whole.usage.output_tokens)


async def test_a_tool_round_goes_through_the_sdk(client: AsyncAnthropic, standin: ModelStandin) -> None:
    standin.script(Answer(tools=[ToolCall(name="glob", input={"pattern": "*"})]))
    first = await client.messages.create(model=MODEL, max_tokens=99, messages=says("look"), tools=[GLOB])
    call = first.content[0]
    assert call.type == "tool_use"
    messages: list[MessageParam] = [
        *says("look"),
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "a.md"}]},
    ]
    standin.script("One file.")
    second = await client.messages.create(model=MODEL, max_tokens=99, messages=messages, tools=[GLOB])
    assert second.stop_reason == "end_turn"


async def test_a_mapping_is_structured_output_that_the_sdk_parses(
    client: AsyncAnthropic, standin: ModelStandin
) -> None:
    standin.script({"city": "Bern", "degrees": 7}, when=lambda body: "output_config" in body)
    message = await client.messages.parse(model=MODEL, max_tokens=99, messages=says("weather?"), output_format=Weather)
    assert message.parsed_output == Weather(city="Bern", degrees=7)


async def test_an_unscripted_schema_gets_a_value_that_fits_it(client: AsyncAnthropic) -> None:
    message = await client.messages.parse(model=MODEL, max_tokens=99, messages=says("weather?"), output_format=Weather)
    assert message.parsed_output == Weather(city="", degrees=0)


async def test_counted_tokens_are_the_input_of_the_same_request(client: AsyncAnthropic) -> None:
    counted = await client.messages.count_tokens(model=MODEL, messages=says("hello there"), tools=[GLOB])
    message = await client.messages.create(model=MODEL, max_tokens=99, messages=says("hello there"), tools=[GLOB])
    assert counted.input_tokens == message.usage.input_tokens > 10


async def test_the_models_that_exist_are_listed_and_others_are_not_found(client: AsyncAnthropic) -> None:
    listed = [model.id async for model in client.models.list()]
    assert MODEL in listed
    assert (await client.models.retrieve(MODEL)).id == MODEL
    with pytest.raises(anthropic.NotFoundError, match="model: claude-nonesuch"):
        await client.messages.create(model="claude-nonesuch", max_tokens=9, messages=says("hi"))


async def test_a_wrong_or_missing_key_is_refused_with_401(url: str) -> None:
    async with AsyncAnthropic(base_url=url, api_key="wrong", max_retries=0) as client:
        with pytest.raises(anthropic.AuthenticationError, match="invalid x-api-key"):
            await client.messages.create(model=MODEL, max_tokens=9, messages=says("hi"))
    async with httpx.AsyncClient() as http:
        answer = await http.post(f"{url}/v1/messages", json={})
    assert (answer.status_code, answer.json()["error"]["type"]) == (401, "authentication_error")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (429, "rate_limit_error"),
        (500, "api_error"),
        (529, "overloaded_error"),
        (413, "request_too_large"),
        (403, "permission_error"),
    ],
)
async def test_a_failure_has_the_shape_of_the_api(
    client: AsyncAnthropic, standin: ModelStandin, status: int, kind: str
) -> None:
    standin.fail(status, retry_after=1.5)
    with pytest.raises(anthropic.APIStatusError) as caught:
        await client.messages.create(model=MODEL, max_tokens=9, messages=says("hi"))
    body = json.loads(caught.value.response.text)
    assert (body["type"], body["error"]["type"], body["request_id"]) == (
        "error",
        kind,
        caught.value.request_id,
    )
    assert (caught.value.status_code, caught.value.response.headers["retry-after"]) == (status, "1.5")


async def test_the_sdk_gets_through_when_the_failures_are_used_up(
    client: AsyncAnthropic, standin: ModelStandin
) -> None:
    standin.fail(529, times=2, retry_after=0.01)
    patient = client.with_options(max_retries=2)
    assert (await patient.messages.create(model=MODEL, max_tokens=99, messages=says("hi"))).content
    assert [row.status for row in standin.requests] == [529, 529, 200]
    assert standin.waiting == 0


async def test_a_body_over_the_limit_is_refused_with_413() -> None:
    body = {"model": MODEL, "max_tokens": 9, "messages": says("x" * 2000)}
    headers = {"x-api-key": KEY, "anthropic-version": "2023-06-01"}
    async with serving(ModelStandin(max_body=1000).app) as url, httpx.AsyncClient() as http:
        answer = await http.post(f"{url}/v1/messages", json=body, headers=headers)
    assert (answer.status_code, answer.json()["error"]["type"]) == (413, "request_too_large")


async def test_an_unknown_path_answers_with_the_error_shape(url: str) -> None:
    async with httpx.AsyncClient() as http:
        answer = await http.get(f"{url}/v1/nothing")
        wrong = await http.get(f"{url}/v1/messages")
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, "not_found_error")
    assert (wrong.status_code, wrong.json()["type"]) == (405, "error")


async def test_a_body_that_is_no_json_is_refused_with_400(url: str) -> None:
    headers = {"x-api-key": KEY, "anthropic-version": "2023-06-01"}
    async with httpx.AsyncClient() as http:
        answer = await http.post(f"{url}/v1/messages", content=b'{"model": "x', headers=headers)
        unversioned = await http.post(f"{url}/v1/messages", json={}, headers={"x-api-key": KEY})
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")
    assert "anthropic-version" in unversioned.json()["error"]["message"]


@pytest.mark.parametrize(
    ("flaw", "raised"),
    [
        (Flaw.DROP, httpx2.RemoteProtocolError),
        (Flaw.CORRUPT, json.JSONDecodeError),
        (Flaw.ERROR, anthropic.APIStatusError),
    ],
)
async def test_a_broken_stream_raises_after_its_first_words(
    client: AsyncAnthropic, standin: ModelStandin, flaw: Flaw, raised: type[Exception]
) -> None:
    standin.script(Answer(text="word " * 40, flaw=flaw, flaw_after=2))
    heard: list[str] = []
    with pytest.raises(raised):
        await listen(client, heard)
    assert "".join(heard) == ("word " * 40)[:48]
    assert standin.requests[-1].outcome == "flawed"


async def test_a_stream_that_ends_early_has_no_stop_reason(client: AsyncAnthropic, standin: ModelStandin) -> None:
    standin.script(Answer(text="half an ans", flaw=Flaw.EARLY_END, flaw_after=99))
    async with client.messages.stream(model=MODEL, max_tokens=99, messages=says("hi")) as stream:
        message = await stream.get_final_message()
    assert message.stop_reason is None


async def test_a_dropped_answer_that_is_not_streamed_is_a_connection_error(
    client: AsyncAnthropic, standin: ModelStandin
) -> None:
    standin.script(Answer(text="half", flaw=Flaw.DROP))
    with pytest.raises((anthropic.APIConnectionError, httpx2.RemoteProtocolError)):
        await client.messages.create(model=MODEL, max_tokens=9, messages=says("hi"))


async def test_a_client_that_leaves_a_slow_stream_is_noticed(client: AsyncAnthropic, standin: ModelStandin) -> None:
    standin.script(Answer(text="slow " * 400, chunk_delay=0.05))
    async with client.messages.stream(model=MODEL, max_tokens=900, messages=says("hi")) as stream:
        async for _ in stream.text_stream:
            break
    await until_outcome(standin, "disconnected")


async def test_scripts_are_used_in_order_by_the_requests_that_they_wait_for(
    client: AsyncAnthropic, standin: ModelStandin
) -> None:
    standin.script("for tea", when=lambda body: "tea" in str(body["messages"]))
    standin.script(lambda body: f"{len(body['messages'])} message")
    standin.script(Failure(status=400, message="scripted"))
    answers = [
        (await client.messages.create(model=MODEL, max_tokens=99, messages=says(text))).to_dict()["content"]
        for text in ("coffee", "tea")
    ]
    texts = [content[0]["text"] for content in answers]  # type: ignore[index]
    assert texts == ["1 message", "for tea"]
    with pytest.raises(anthropic.BadRequestError, match="scripted"):
        await client.messages.create(model=MODEL, max_tokens=99, messages=says("now"))


async def test_a_scripted_coroutine_may_hold_the_answer_back(client: AsyncAnthropic, standin: ModelStandin) -> None:
    gate = anyio.Event()

    async def held(_: dict[str, Any]) -> str:
        await gate.wait()
        return "at last"

    standin.script(held)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(events_of, client)
        await until_outcome(standin, "open")
        gate.set()
    assert standin.requests[0].outcome == "answered"


async def test_long_answers_end_at_max_tokens_and_at_stop_sequences(
    client: AsyncAnthropic, standin: ModelStandin
) -> None:
    standin.script("x" * 100)
    standin.script("one END two")
    cut = await client.messages.create(model=MODEL, max_tokens=5, messages=says("hi"))
    ended = await client.messages.create(model=MODEL, max_tokens=50, messages=says("hi"), stop_sequences=["END"])
    assert (cut.stop_reason, cut.usage.output_tokens) == ("max_tokens", 5)
    assert (ended.stop_reason, ended.stop_sequence) == ("stop_sequence", "END")


async def test_requests_are_recorded_with_bytes_and_usage(client: AsyncAnthropic, standin: ModelStandin) -> None:
    await client.messages.create(model=MODEL, max_tokens=99, messages=says("hi"))
    row = standin.requests[0]
    assert json.loads(row.raw) == row.body
    assert (row.path, row.status, row.outcome) == ("/v1/messages", 200, "answered")
    assert row.usage
    assert row.usage["input_tokens"] > 0


async def test_another_process_drives_it_over_the_control_api(client: AsyncAnthropic, url: str) -> None:
    script = {
        "answers": [{"text": "scripted"}, {"status": 429, "retry_after": 2}],
        "when": {"contains": "tea"},
    }
    async with httpx.AsyncClient(base_url=url) as http:
        assert (await http.post("/control/script", json=script)).json() == {"ok": True}
        wrong = await http.post("/control/fail", json={"times": 2})
        assert (wrong.status_code, wrong.json()["error"]) == (400, "status is missing")
        wrong = await http.post("/control/script", json={"answers": [{"txt": ""}]})
        assert (wrong.status_code, "txt is not known" in wrong.json()["error"]) == (400, True)
        assert wrong.json()["example"] == {"answers": [{"text": "As you wish."}]}
        message = await client.messages.create(model=MODEL, max_tokens=9, messages=says("tea?"))
        with pytest.raises(anthropic.RateLimitError):
            await client.messages.create(model=MODEL, max_tokens=9, messages=says("more tea?"))
        await http.post("/control/fail", json={"status": 529})
        with pytest.raises(anthropic.APIStatusError):
            await client.messages.create(model=MODEL, max_tokens=9, messages=says("hi"))
        listed = (await http.get("/control/requests")).json()["requests"]
        await http.delete("/control/requests")
        left = (await http.get("/control/requests")).json()["requests"]
    assert message.content[0].to_dict()["text"] == "scripted"
    assert ([row["status"] for row in listed], left) == ([200, 429, 529], [])
    assert KEY not in json.dumps(listed)
