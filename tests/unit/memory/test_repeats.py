"""Which notes say the same as another one, and which only seem to."""

import pytest

from memory.repeats import Said, is_repeated, new_among, said

FACT = "Ann drinks tea in Kiel at 10:30"


def note(text: str, *, at: float = 0.0, about: str = "about Ann") -> Said:
    return said(text, description=about, mtime=at)


@pytest.mark.parametrize(
    "newer",
    [
        f"- {FACT}",
        "ANN  drinks\n**tea** in Kiel at 10:30!",
        "Ann drinks tea in Kiel at 10.30 am, every day",
        f"- something else\n- {FACT} (2031-05-02)",
        f"| who | what |\n| --- | --- |\n| she | {FACT} |",
    ],
)
def test_an_older_note_all_of_which_stands_in_a_newer_one_says_nothing_new(newer: str) -> None:
    old, new = note(f"{FACT} (2031-04-01)"), note(newer, at=1)
    assert is_repeated(old, new)
    assert new_among([old, new]) == [1]


@pytest.mark.parametrize(
    "newer",
    [
        "Ann drinks tea in Kiel at 11:30",
        "Ann drinks tea in Bonn at 10:30",
        "Ann drinks no tea in Kiel at 10:30",
        f"It is not true that {FACT}",
        f"{FACT}? She does not",
        "Bob drinks tea in Kiel at 10:30",
        "In Kiel at 10:30 tea drinks Ann",
        "Ann drinks tea",
        "",
    ],
)
def test_what_differs_in_a_word_a_number_or_a_denial_is_no_repetition(newer: str) -> None:
    old, new = note(FACT), note(newer, at=1)
    assert not is_repeated(old, new)
    assert new_among([old, new]) == [0, 1]


def test_a_newer_note_that_says_less_may_be_a_correction_and_stays() -> None:
    old, new = note(f"{FACT}\n\nShe has sugar with it"), note(FACT, at=1)
    assert new_among([old, new]) == [0, 1]
    assert new_among([new], [old]) == [0]
    assert new_among([new], [note(FACT)]) == []


def test_the_same_words_of_another_person_are_no_repetition() -> None:
    ann, bob = note("I drink tea (Ann, 2031-05-02)"), note("I drink tea (Bob, 2031-05-03)", at=1)
    assert not is_repeated(ann, bob)
    assert is_repeated(ann, note("I drink tea (Ann, 2031-06-02)", at=1))


@pytest.mark.parametrize("stamp", ["（Ann，{}）", " (Ann; {})", " (Ann (work), {})"])
def test_a_stamp_in_brackets_or_commas_of_another_kind_is_one_as_well(stamp: str) -> None:
    old, new = (note(f"I drink tea{stamp.format(day)}", at=at) for at, day in enumerate(("2031-05-02", "2031-06-02")))
    assert is_repeated(old, new)
    assert not is_repeated(old, note("I drink tea (Bob, 2031-06-02)", at=1))


def test_the_same_words_under_another_subject_are_no_repetition() -> None:
    old, new = note("It runs at 10", about="staging"), note("It runs at 10", at=1, about="production")
    assert not is_repeated(old, new)
    assert not is_repeated(note("# Staging\n\nIt runs at 10"), note("# Production\n\nIt runs at 10", at=1))
    assert is_repeated(old, note("It runs at 10", at=1, about="how staging runs"))


def test_a_note_that_was_cut_has_more_to_say_than_is_shown_of_it() -> None:
    whole, cut = note(FACT, at=1), said(FACT, description="about Ann", mtime=0.0, cut=True)
    assert not is_repeated(cut, whole)
    assert is_repeated(note(FACT), said(FACT, description="about Ann", mtime=1.0, cut=True))


def test_code_and_tables_count_as_well() -> None:
    code = f"{FACT}\n\n```\nmake deploy\n```"
    assert not is_repeated(note(code), note(FACT, at=1))
    assert is_repeated(note(FACT), note(code, at=1))
