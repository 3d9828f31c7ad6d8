import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.errors import PathRefused
from memory.team.wire import (
    Hashes,
    batches,
    check_key,
    check_path,
    encode,
    entity_tag,
    name_batches,
    names_tag,
    state_checksum,
)


@pytest.mark.parametrize(
    ("key", "plain"),
    [
        ("notes.md", "notes.md"),
        ("sub/a.md", "sub/a.md"),
        ("100%.md", "100%.md"),
        ("sub/../a.md", "a.md"),
        ("%252e%252e%252f", "%252e%252e%252f"),
        ("日本語/メモ.md", "日本語/メモ.md"),
    ],
)
def test_a_key_that_stays_inside_is_taken_as_a_plain_path(key: str, plain: str) -> None:
    assert check_key(key) == plain


@pytest.mark.parametrize(
    "key",
    [
        "../x",
        "..",
        "sub/../../x",
        "",
        ".",
        "%2e%2e%2fx",
        "a%2fb",
        "a/b%20c.md",
        "%ZZ/%2e%2e",
        "\uff0e\uff0e\uff0fx",
        "\u2025/x",
        "\u2024\u2024/x",
        "\uff21/b.md",
        "a\\b",
        "\uff3cx",
        "/etc/x",
        "//etc/x",
        "a\0b",
    ],
)
def test_a_key_that_leaves_or_hides_a_path_is_refused(key: str) -> None:
    with pytest.raises(PathRefused):
        check_key(key)


@pytest.mark.parametrize(
    "key",
    [
        "notes.md",
        "项目/计划（草案）.md",
        "notes/cafe\u0301.md",
        "docs/①.md",
        "notes/a%20b.md",
        "%2e%2e%2fx",
        "．．／x",
        ".hidden/x.md",
        "...",
        "a" * 2000,
    ],
)
def test_a_server_keeps_every_key_that_is_a_relative_path_somewhere(key: str) -> None:
    check_path(key)


@pytest.mark.parametrize(
    "key",
    [
        "",
        ".",
        "..",
        "../x",
        "sub/../a.md",
        "x//y.md",
        "/etc/x",
        "x/",
        "./x",
        "a\\b",
        "a\0b",
        "a\nb",
        "a" * 2001,
        "\ud800",
    ],
)
def test_a_server_keeps_no_key_that_is_a_relative_path_nowhere(key: str) -> None:
    with pytest.raises(PathRefused):
        check_path(key)


@given(st.sets(st.text(min_size=1, max_size=8), max_size=12))
def test_deletions_are_cut_into_bodies_that_hold_each_key_once_in_order_and_within_the_limit(keys: set[str]) -> None:
    cut = list(name_batches(keys, limit=60))
    assert [key for batch in cut for key in batch] == sorted(keys)
    for batch in cut:
        assert len(batch) == 1 or len(encode({"entries": {}, "deleted": batch})) <= 60


@given(st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=40), max_size=12))
def test_batches_hold_every_entry_once_in_key_order_and_within_the_limit(entries: dict[str, str]) -> None:
    cut = list(batches(entries, limit=90))
    assert [key for batch in cut for key in batch] == sorted(entries)
    for batch in cut:
        assert len(batch) == 1 or len(encode({"entries": batch})) <= 90


def test_an_entry_larger_than_a_body_goes_alone() -> None:
    cut = list(batches({"a": "x", "b": "y" * 100, "c": "z"}, limit=60))
    assert [sorted(batch) for batch in cut] == [["a"], ["b"], ["c"]]


def test_a_body_is_as_large_as_batches_count_it() -> None:
    entries = {"ü.md": 'say "hi"\n', "b.md": "\x01"}
    counted = 14 + sum(
        len(json.dumps(part, ensure_ascii=False).encode()) + 1 for item in entries.items() for part in item
    )
    assert len(encode({"entries": entries})) == counted - 1  # the last entry has no comma after it


def test_the_checksum_depends_on_texts_and_deletions_but_not_on_order() -> None:
    one = state_checksum({"a": "1", "b": "2"}, {})
    assert one == state_checksum({"b": "2", "a": "1"}, {})
    assert len({one, state_checksum({"a": "1"}, {"b": "2"}), state_checksum({"a": "1"}, {})}) == 3


def test_the_tag_of_the_body_goes_before_that_of_the_header() -> None:
    assert entity_tag("sha256:1", '"sha256:2"') == "sha256:1"
    assert entity_tag(None, 'W/"sha256:2"') == "sha256:2"
    assert entity_tag("", None) is None


def test_a_header_names_a_state_by_its_tag_in_a_list_or_by_a_star() -> None:
    assert names_tag('"a", W/"b"', "b")
    assert names_tag("*", "b")
    assert not names_tag('"a"', "b")
    assert not names_tag("*", "")


def test_hashes_are_found_at_the_top_or_inside_the_content() -> None:
    top = Hashes.model_validate_json('{"checksum": "c", "entryChecksums": {"a": "1"}}')
    inner = Hashes.model_validate_json('{"content": {"entryChecksums": {"a": "1"}}, "future": 1}')
    assert top.by_key() == inner.by_key() == {"a": "1"}
