"""What stands with a fact: its stamp behind it, a name before it, and what is left without either."""

import pytest

from memory.fact_stamp import bare, before, behind, labelled, several, spoke, stamped, unstamped


@pytest.mark.parametrize(
    ("fact", "name"),
    [
        ("Likes tea (2031-05-02)", ""),
        ("Likes tea (Ann, 2031-05-02).", "Ann"),
        ("Likes tea  ( Ann ;\n2031-05-02 ) ", "Ann"),
        ("Likes tea (Ann (work), 2031-05-02)", "Ann (work)"),
        ("Likes tea (a lot) (Ann :), 2031-05-02)", "Ann :)"),
        ("Likes tea (Ann, Bob and Cem, 2031-05-02)", "Ann, Bob and Cem"),
        ("喜欢喝茶（安，2031-05-02）。", "安"),
        ("喜欢喝茶(安、鲍勃；2031-05-02)", "安、鲍勃"),
        ("喜欢喝茶（2031-05-02）", ""),
    ],
)
def test_a_stamp_is_found_with_brackets_and_commas_of_either_width_and_any_blanks(fact: str, name: str) -> None:
    stamp = stamped(fact)
    assert stamp is not None
    assert (stamp.name, stamp.day) == (name, "2031-05-02")
    assert fact[: stamp.start] == bare(fact)


@pytest.mark.parametrize(
    "fact",
    [
        "Likes tea",
        "Likes tea (Ann 2031-05-02)",
        "Moves (on 2031-05-02)",
        "Open (2031-05-02 to 2031-06-02)",
        "Likes tea (Ann, since 2031-05-02)",
        "Likes tea (Ann, 2031-05-02, corrected)",
        "Likes tea (Ann, 2031-05-02) and milk",
        "Runs report(Ann, 2031-05-02)",
        "(Ann, 2031-05-02)",
    ],
)
def test_what_only_looks_like_a_stamp_decides_nothing(fact: str) -> None:
    assert stamped(fact) is None


@pytest.mark.parametrize(
    ("fact", "names"),
    [
        ("Likes tea (Ann 2031-05-02)", ["Ann"]),
        ("Likes tea (Ann, 2031-05-02, corrected)", ["Ann"]),
        ("Likes tea（Ann、Bob，2031-05-02）", ["Ann", "Bob"]),
        ("Open (2031-05-02 to 2031-06-02)", []),
    ],
)
def test_any_bracket_with_a_date_behind_a_fact_is_no_part_of_it(fact: str, names: list[str]) -> None:
    assert unstamped(fact) == fact[: min(fact.find(sign) % 99 for sign in "(（")].rstrip()
    assert behind(fact) == names


def test_a_time_before_a_fact_is_taken_off_only_where_that_is_asked_for() -> None:
    fact = "12:05 Prefers tea (Ann, 2031-05-02)"
    assert (unstamped(fact), bare(fact)) == ("12:05 Prefers tea", "Prefers tea")


@pytest.mark.parametrize(
    ("fact", "named", "spoken"),
    [
        ("Ann: likes tea", ["Ann"], ["Ann"]),
        ("12:05 Ann：喜欢喝茶", ["Ann"], ["Ann"]),
        ("12:05 Room 7. (the bot): hello", [], ["Room 7. (the bot)"]),
        ("7: is a number", [], []),
        ("See: http://127.0.0.1", ["See"], ["See"]),
        ("At 12:05 tea", [], []),
    ],
)
def test_a_name_before_a_fact_is_a_speaker_s_for_sure_only_in_a_log(
    fact: str, named: list[str], spoken: list[str]
) -> None:
    assert (before(fact), spoke(fact)) == (named, spoken)


def test_a_label_says_whether_a_time_stands_before_it_and_where_the_words_begin() -> None:
    for fact, timed in (("12:05 Dr. Ann： likes tea", True), ("Dr. Ann: likes tea", False)):
        label = labelled(fact)
        assert label is not None
        assert (label.name, label.timed, fact[label.end :]) == ("Dr. Ann", timed, "likes tea")
    assert labelled("likes tea at 12:05") is None


def test_several_names_are_told_apart_in_every_language_that_the_list_has() -> None:
    assert several("Ann, Bob；Cem、Dot & Eve und Fay et Guy y Hal/Ida + Andy") == [
        "Ann", "Bob", "Cem", "Dot", "Eve", "Fay", "Guy", "Hal", "Ida", "Andy",
    ]  # fmt: skip
