import re
from typing import get_args

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families as parsed

from gateway.agent.subagents import PURPOSE
from gateway.metrics import COUNTED, OBSERVED, OTHER, Metrics
from gateway.tools.definitions import DEFINITIONS
from memory.agents import AgentMemory
from memory.consolidation import Ending
from memory.detection import MemoryKind
from memory.instructions.files import Kind
from memory.ports import Counted, Observed, Outcome


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(CollectorRegistry())


def shown(metrics: Metrics) -> dict[tuple[str, frozenset[str]], float]:
    text = metrics.exposition("")[0].decode()
    return {
        (sample.name, frozenset(sample.labels.values())): sample.value
        for family in parsed(text)
        for sample in family.samples
    }


def test_every_figure_that_memory_can_tell_has_its_name_and_labels() -> None:
    assert set(COUNTED) == set(get_args(Counted))
    assert set(OBSERVED) == set(get_args(Observed))


def test_the_sets_of_values_are_those_of_the_program() -> None:
    assert {*COUNTED["memory_tool_calls"].labels["tool"]} == {tool["name"] for tool in DEFINITIONS}
    assert {*COUNTED["memory_tool_calls"].labels["memory"]} == {kind.value for kind in MemoryKind}
    assert {*COUNTED["dreams"].labels["outcome"]} == {ending.value for ending in Ending}
    assert {*COUNTED["instruction_files_loaded"].labels["layer"]} == {kind.value for kind in Kind}
    assert {*COUNTED["agent_memory_loaded"].labels["scope"]} == {memory.value for memory in AgentMemory}
    assert {*OBSERVED["run_seconds"].labels["outcome"]} >= {outcome.value for outcome in Outcome}
    assert PURPOSE in OBSERVED["run_seconds"].labels["purpose"]


def test_values_are_few_plain_words() -> None:
    for figure in (*COUNTED.values(), *OBSERVED.values()):
        combinations = 1
        for values in figure.labels.values():
            combinations *= len(values) + 1
            assert all(re.fullmatch(r"[A-Za-z_-]{2,30}", value) for value in values)
        assert combinations <= 300


def test_a_count_and_a_measurement_are_shown_under_the_names_prefix(metrics: Metrics) -> None:
    metrics.count("extracted_memories", 2, memory="team")
    metrics.count("extracted_files", 3)
    metrics.observe("recall_chosen", 0, source="none", answer="late")
    figures = shown(metrics)
    assert figures["reverie_extracted_memories_total", frozenset({"team"})] == 2
    assert figures["reverie_extracted_files_total", frozenset()] == 3
    assert figures["reverie_recall_chosen_count", frozenset({"none", "late"})] == 1
    assert figures["reverie_recall_chosen_sum", frozenset({"none", "late"})] == 0


@pytest.mark.parametrize("value", ["Ann", "/homes/ann/memory/tea.md", "sk-ant-secret", "", 'a"b\n# c', "\ud800"])
def test_a_value_that_is_not_in_its_set_is_shown_as_other(metrics: Metrics, value: str) -> None:
    metrics.count("tools_denied", tool=value, run=value)
    metrics.observe("run_seconds", 1.0, purpose=value, outcome="failed", more=value)
    figures = shown(metrics)
    assert figures["reverie_tools_denied_total", frozenset({OTHER})] == 1
    assert figures["reverie_run_seconds_count", frozenset({OTHER, "failed"})] == 1


def test_a_label_that_was_left_out_is_other_too(metrics: Metrics) -> None:
    metrics.count("tools_denied", run="chat")
    assert shown(metrics)["reverie_tools_denied_total", frozenset({OTHER, "chat"})] == 1


def test_two_gateways_in_one_process_share_no_figure(metrics: Metrics) -> None:
    other = Metrics(CollectorRegistry())
    metrics.count("extracted_files", 3)
    assert shown(other)["reverie_extracted_files_total", frozenset()] == 0


def test_the_reader_gets_the_format_that_it_asks_for(metrics: Metrics) -> None:
    assert metrics.exposition("")[1].startswith("text/plain")
    body, content_type = metrics.exposition("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")
