"""What a person is known by, and what may be a name at all."""

import pytest

from memory.names import key, may_name, plain


@pytest.mark.parametrize(
    ("name", "known_by"),
    [
        ("Ann Arbor", "ann"),
        ("Jean‑Luc Picard", "jean-luc"),
        ("O’Brien (work)", "o'brien"),
        ("*Ann*", "ann"),
        ("安", "安"),
        ("(^_^)", "_"),
        ("🦊", "🦊"),
    ],
)
def test_a_person_is_known_by_the_first_word_of_the_name_else_by_all_of_it(name: str, known_by: str) -> None:
    assert key(name) == known_by


@pytest.mark.parametrize(
    ("known_by", "may"), [("ann", True), ("guest_1", True), ("🦊", True), ("42", False), ("_", False)]
)
def test_a_number_alone_names_nobody(known_by: str, may: bool) -> None:
    assert may_name(known_by) is may


def test_signs_that_look_alike_are_one_and_those_that_nobody_sees_are_none() -> None:
    assert plain("Ａnn’s te\u200bam‑mate") == "Ann's team-mate"
    assert plain("A**n**n") == "Ann"
    assert plain("**Ann** drinks") == "**Ann** drinks"
