"""Markdown as Slack messages."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from adapters.standins.slack_blocks import Limits, check_blocks
from adapters.text.slack import MAX_BLOCK_COUNT, MAX_BLOCKS, MAX_TEXT, labelled, render, streamable


def elements(part: dict[str, Any]) -> list[dict[str, Any]]:
    return [element for block in part["blocks"] for element in block.get("elements", [])]


def leaves(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        for inner in value:
            yield from leaves(inner)
    elif isinstance(value, dict):
        if value.get("type") in {"text", "link", "user", "broadcast", "usergroup", "channel"}:
            yield value
        else:
            yield from leaves(value.get("elements", []))


def shown(part: dict[str, Any]) -> str:
    return "".join(leaf["text"] for leaf in leaves(part["blocks"]))


def fits(part: dict[str, Any]) -> bool:
    return (
        len(part["text"]) <= MAX_TEXT
        and len(json.dumps(part["blocks"], ensure_ascii=False).encode()) <= MAX_BLOCKS
        and 1 <= len(part["blocks"]) <= MAX_BLOCK_COUNT
    )


def test_styles_and_links_become_typed_elements() -> None:
    (section,) = elements(render("**bold** ~~gone~~ `x<y` [label](https://a.example/?b=1&c=2)")[0])
    styled = [leaf for leaf in section["elements"] if leaf["type"] == "link" or "style" in leaf]
    assert styled == [
        {"type": "text", "text": "bold", "style": {"bold": True}},
        {"type": "text", "text": "gone", "style": {"strike": True}},
        {"type": "text", "text": "x<y", "style": {"code": True}},
        {"type": "link", "url": "https://a.example/?b=1&c=2", "text": "label"},
    ]


def test_a_bare_address_is_a_link_element() -> None:
    (section,) = elements(render("See https://a.example/b_c?d=1*2*3.")[0])
    assert {"type": "link", "url": "https://a.example/b_c?d=1*2*3", "text": "https://a.example/b_c?d=1*2*3"} in list(
        section["elements"]
    )


def test_tasks_are_ticked_and_spoilers_keep_their_bars() -> None:
    (part,) = render("- [x] a\n- [ ] b ||c **d**||")
    assert part["text"] == "• ☑ a\n• ☐ b ||c d||"
    assert shown(part) == "☑ a☐ b ||c d||"


def test_the_plain_text_holds_everything_with_addresses_and_escapes() -> None:
    (part,) = render("# A & B\n\n- x < y\n- [label](https://a.example)\n\n> said")
    assert part["text"] == "A &amp; B\n\n• x &lt; y\n• label (https://a.example)\n\n> said"


def test_numbers_go_on_after_what_stands_between_two_items() -> None:
    lists = [e for e in elements(render("3. c\n   - inner\n4. d")[0]) if e["type"] == "rich_text_list"]
    assert [(e["style"], e["indent"], e.get("offset")) for e in lists] == [
        ("ordered", 0, 2),
        ("bullet", 1, None),
        ("ordered", 0, 3),
    ]


def test_a_quotation_keeps_the_lists_and_fences_in_it() -> None:
    quoted = elements(render("> said\n>\n> - one\n>\n> ```\n> code\n> ```")[0])
    assert [(e["type"], e.get("border")) for e in quoted] == [
        ("rich_text_quote", None),
        ("rich_text_list", 1),
        ("rich_text_preformatted", 1),
    ]


@pytest.mark.parametrize("ping", ["<@U123>", "<!channel>", "<!here|x>", "<!subteam^S1>", "<#C1>", "@channel"])
def test_nothing_that_a_model_writes_pings(ping: str) -> None:
    (part,) = render(f"Hello {ping}, `{ping}`\n\n```\n{ping}\n```\n\n[{ping}](https://a.example)")
    assert {leaf["type"] for leaf in leaves(part["blocks"])} <= {"text", "link"}
    assert ping in shown(part)
    assert not regex.search(r"<[@!#]", part["text"])
    assert not regex.search(r"<[@!#]", streamable(f"Hello {ping}"))


@given(st.text(alphabet="<@!#U1>\ud800a ", max_size=30), st.data())
def test_a_stream_grows_as_its_text_grows(text: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(text)))
    assert streamable(text).startswith(streamable(text[:cut]))
    streamable(text).encode()


def test_a_fence_that_runs_on_is_closed_and_opened_again_with_its_language() -> None:
    lines = [f"line_{number} = {number}" for number in range(600)]
    parts = render("```python\n" + "\n".join(lines) + "\n```")
    assert len(parts) > 1
    assert all(element["language"] == "python" for part in parts for element in elements(part))
    assert all(part["text"].startswith("```python\n") and part["text"].endswith("\n```") for part in parts)
    assert "\n".join(shown(part) for part in parts).split("\n") == lines


@pytest.mark.parametrize("cluster", ["👩‍👩‍👧‍👦", "🇯🇵", "é̂", "क्षि", "漢"])
def test_a_grapheme_cluster_is_never_cut(cluster: str) -> None:
    parts = render(cluster * 5000)
    assert all(fits(part) for part in parts)
    for part in parts:
        assert set(regex.findall(r"\X", shown(part))) == {cluster}


@pytest.mark.parametrize("blank", ["", " \n\n ", "\u200b\u2060"])
def test_nothing_to_show_is_shown_as_such(blank: str) -> None:
    (part,) = render(blank)
    assert part["text"] == shown(part) == "(empty message)"


def test_a_narrow_table_is_aligned_and_a_wide_one_a_list() -> None:
    (narrow,) = elements(render("| a | n |\n|---|--:|\n| 漢字 | 1 |")[0])
    assert narrow["elements"][0]["text"] == "a    | n\n-----+--\n漢字 | 1"
    (wide,) = elements(render(f"| a | b |\n|---|---|\n| x | {'long ' * 30}|")[0])
    assert wide["type"] == "rich_text_list"


def test_a_table_with_links_keeps_their_addresses() -> None:
    (part,) = render("| a |\n|---|\n| [x](https://a.example) |")
    assert {"type": "link", "url": "https://a.example", "text": "x", "style": {"bold": True}} in list(
        leaves(part["blocks"])
    )


@pytest.mark.parametrize("markdown", ["hello", "漢" * 3900, "---\n\n" * 200])
def test_a_label_is_seen_and_finds_room_in_the_fullest_message(markdown: str) -> None:
    part = labelled(render(markdown)[0], "<may be here twice>")
    assert part["text"].endswith("\n&lt;may be here twice&gt;")
    assert shown(part).endswith("<may be here twice>")
    assert check_blocks(part["blocks"], Limits()) == part["blocks"]
    assert len(part["text"]) <= Limits().update_text


FRAGMENTS = st.sampled_from(
    [
        *("# h\n\n", "- a\n", "  - b\n", "7. n\n", "> q\n", "```js\nx\n", "```\n", "---\n\n", "**b", "**", "`"),
        *("| a | b |\n|---|---|\n| 1 | 2 |\n", "<&>", "\n\n", "[l](https://a.example)"),
        *("word " * 200, "漢" * 300, "👩\u200d👩\u200d👧\u200d👦" * 40),
    ]
)


@given(st.lists(st.one_of(FRAGMENTS, st.text(max_size=20)), max_size=25).map("".join))
def test_any_text_gives_messages_within_the_limits(markdown: str) -> None:
    parts = render(markdown)
    assert parts
    assert all(fits(part) and part["text"].strip() for part in parts)
    assert all(leaf["text"] for part in parts for leaf in leaves(part["blocks"]))
    json.dumps(parts, ensure_ascii=False).encode()


def test_many_rules_and_one_huge_line_end_in_bounded_messages() -> None:
    assert all(fits(part) for part in render("a\n\n---\n\n" * 400))
    huge = render("x" * 60_000)
    assert all(fits(part) for part in huge)
    assert "".join(map(shown, huge)) == "x" * 60_000
