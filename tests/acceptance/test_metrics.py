"""The figures: they show what happened in memory, and nothing of what is in it."""

from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families as parsed

from gateway.llm.standin.answers import Failure
from tests.acceptance.whole import ANN, Speaker, Whole, calls, note, whole

CANARY = "canarywren"
WREN = Speaker(user="77", chat="77", name=f"Ann {CANARY}")
GROUP = Speaker(user="77", chat="-100", name=f"Ann {CANARY}")
TOML = f"""
[projects.{CANARY}]
repo = "{CANARY}/repo"
chats = ["telegram:-100"]
members = ["telegram:77"]
"""

Figures = dict[str, float]


async def figures(running: Whole) -> tuple[str, Figures]:
    """Read the figures as a scraper does; each is named by its sample and its labels' values, in the labels' order."""
    async with httpx.AsyncClient() as http:
        answer = await http.get(f"{running.url}/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    samples = [sample for family in parsed(answer.text) for sample in family.samples]
    return answer.text, {
        " ".join([of.name, *(value for _, value in sorted(of.labels.items()))]): of.value for of in samples
    }


async def test_no_figure_shows_a_name_a_path_a_title_or_a_word_of_what_was_said(tmp_path: Path) -> None:
    async with whole(tmp_path / f"home-{CANARY}", TOML) as running:
        for speaker in (WREN, GROUP):
            await running.remember(speaker, f"{CANARY} likes tea", name=CANARY)
            running.then(
                calls(
                    ("read", {"file_path": f"{CANARY}.md"}),
                    ("write", {"file_path": f"/etc/{CANARY}.md", "content": CANARY}),
                    (f"tool_{CANARY}", {CANARY: CANARY}),
                ),
                f"Noted, {CANARY}.",
            )
            await running.tell(speaker, f"I prefer {CANARY} with milk. What about tea?")
        await running.settled()
        await running.core.night.sync.sync(await running.scope(GROUP))
        text, found = await figures(running)
    assert found["reverie_tools_denied_total chat other"] == 2
    assert found["reverie_memory_tool_calls_total personal chat read"] == 2
    assert found["reverie_team_sync_seconds_count sync ok"] == 1
    assert CANARY not in text.casefold()
    assert "telegram" not in text
    assert str(tmp_path) not in text


async def test_a_turn_its_recall_and_its_extraction_are_told_in_figures(tmp_path: Path) -> None:
    async with whole(tmp_path / "home") as running:
        await running.remember(ANN, "Ann has a dog called Rex", name="dog")
        await running.tell(ANN, "I prefer answers in metric units. How is my dog?")
        await running.settled()
        _, found = await figures(running)
    assert found["reverie_memory_loaded_total none personal"] == 1
    assert found["reverie_memory_files_sum personal"] == 2
    assert found["reverie_recall_chosen_sum in_time selector"] == 1
    assert found["reverie_recall_seconds_count"] == 1
    assert found["reverie_extractions_total completed"] == 1
    assert found["reverie_extracted_memories_total personal"] == 1
    assert found["reverie_extracted_files_total"] == 2
    assert found["reverie_extraction_messages_sum"] == 2
    assert found["reverie_memory_tool_calls_total personal extraction write"] >= 1
    assert found["reverie_run_cache_hit_ratio_count extraction"] == 1
    for kind in ("output", "cache_read", "cache_write"):
        assert found[f"reverie_run_tokens_total {kind} extraction"] > 0


async def test_what_is_skipped_fails_or_is_off_is_counted_too(tmp_path: Path) -> None:
    async with whole(tmp_path / "home") as running:
        running.then(calls(("write", {"file_path": "tea.md", "content": note("Ann drinks tea")})), "Saved.")
        await running.tell(ANN, "Remember that I drink tea.")
        await running.settled()
        running.then_fork(Failure(status=500))
        await running.tell(ANN, "Nothing much fits this one.")
        await running.settled()
        _, found = await figures(running)
    assert found["reverie_extraction_skips_total direct_write"] == 1
    assert found["reverie_memory_tool_calls_total personal chat write"] == 1
    assert found["reverie_extractions_total failed"] == 1
    assert found["reverie_recall_chosen_count unasked none"] == 1
    assert sum(value for name, value in found.items() if name.startswith("reverie_recall_chosen_count ")) == 2


async def test_a_session_without_memory_is_counted_by_what_turned_it_off(tmp_path: Path) -> None:
    for toml, bare, by in (("[memory]\nauto_memory_enabled = false\n", False, "setting"), ("", True, "environment")):
        async with whole(tmp_path / by, toml, bare_mode=bare) as running:
            await running.tell(ANN, "Hello there, you.")
            _, found = await figures(running)
        assert found[f"reverie_memory_disabled_total {by}"] == 1
        assert not any("memory_loaded" in name and value for name, value in found.items())
