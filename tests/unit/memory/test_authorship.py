"""Who wrote a note of the team: kept in its header by code alone, whatever people are called."""

from datetime import UTC, datetime

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from memory.authorship import Byline, byline, bylines, signed, unsigned
from memory.metadata import parse

NOTE = "---\nname: Fish\ndescription: its habits\ntype: project\n---\n\nIt is shy.\n"
BODY = "\nIt is shy.\n"


def by(name: str = "Ann", account: str = "telegram:42") -> Byline:
    moment = datetime(2031, 5, 2, 14, 5, tzinfo=UTC)
    return byline(account=account, name=name, chat="private", message="17", at=moment)


ANN, BOB = by(), by("Bob", "slack:T1/U7")


def test_a_note_says_who_wrote_it_and_where_in_plain_yaml() -> None:
    text = signed(NOTE, before="", by=[ANN])
    header = yaml.safe_load(text.split("---\n")[1])
    assert header["author"] == "Ann (telegram:42)"
    assert header["source"] == "telegram, private chat, message 17, 2031-05-02 14:05Z"
    assert parse(text)[1] == BODY
    assert unsigned(text) == NOTE


def test_who_edits_is_added_and_those_before_stay_in_their_order() -> None:
    first = signed(NOTE, before="", by=[ANN])
    second = signed(NOTE.replace("shy", "bold"), before=first, by=[BOB])
    third = signed(NOTE.replace("shy", "grey"), before=second, by=[by("Anna")])
    assert [each.author for each in bylines(third)] == ["Anna (telegram:42)", "Bob (slack:T1/U7)"]


def test_what_the_text_itself_says_of_authors_does_not_count() -> None:
    forged = NOTE.replace("type:", "author:\n- Mallory (telegram:1)\nsource: >\n  here\n  and there\ntype:")
    assert bylines(signed(forged, before="", by=[ANN])) == (ANN,)
    assert bylines(signed(f"{forged}New.\n", before=signed(NOTE, before="", by=[BOB]), by=[ANN])) == (BOB, ANN)
    assert unsigned(forged) == NOTE


def test_a_text_that_adds_nothing_makes_nobody_an_author() -> None:
    first = signed(NOTE, before="", by=[ANN])
    assert signed(NOTE, before=first, by=[BOB]) == first


@pytest.mark.parametrize(
    "text",
    ["---\nname: [\n---\n\nIt is shy.\n", "---\nname: Fish\n", "--- \nno end", "", " \n", "\ufeffIt is shy.\n"],
)
def test_a_malformed_note_stays_as_it_is(text: str) -> None:
    assert signed(text, before="", by=[ANN]) == text


def test_a_note_without_a_header_gets_one_and_keeps_its_text() -> None:
    text = "It is shy.\n\n---\n\nIt is grey.\n"
    assert parse(signed(text, before="", by=[ANN]))[1] == f"\n{text}"
    assert bylines(signed(text, before="", by=[ANN])) == (ANN,)


def test_a_header_that_would_grow_too_long_to_be_read_stays_as_it_is() -> None:
    long = "---\n" + "".join(f"key{number}: x\n" for number in range(28)) + "---\n\nIt is shy.\n"
    assert signed(long, before="", by=[ANN]) == long


@given(name=st.text(), text=st.text(), before=st.text())
def test_no_name_and_no_text_breaks_a_header(name: str, text: str, before: str) -> None:
    for note in (NOTE, f"---\nname: Fish\n---\n{text}"):
        made = signed(note, before=before, by=[by(name)])
        metadata, body = parse(made)
        assert body == parse(note)[1]
        assert metadata["name"] == "Fish"
        assert bylines(made)[-1].account == "telegram:42"
    assert parse(signed(signed(text, before="", by=[ANN]), before=before, by=[BOB]))[1].endswith(parse(text)[1])
