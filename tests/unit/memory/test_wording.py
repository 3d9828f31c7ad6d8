import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.fact_stamp import bare
from memory.wording import CARRIED, Tellings, Wording, stems, vanished

WORDS = st.lists(st.sampled_from(["ann", "bob", "keeps", "a", "zebra", "kiel", "tea", "安住在", "42"]), max_size=9)
TEXTS = st.builds(lambda words, stamp: " ".join(words) + stamp, WORDS, st.sampled_from(["", " (Ann, 2026-05-01)"]))
FACT = "Ann keeps a zebra in Kiel (2026-05-01)"


def tells(wording: Wording, text: str, fact: str) -> bool:
    return Tellings(wording, [fact]).told_by(text)


def test_words_that_all_texts_share_count_little() -> None:
    wording = Wording(["Ann prefers tea", "Ann prefers trains", "Ann prefers dogs", "Ann prefers bees"])
    assert wording.share("Ann prefers tea", "Ann prefers trains") < 0.6
    assert wording.share("Ann prefers tea", "tea is what Ann wants") > 0.6
    assert wording.share("", "Ann") == 0.0
    assert wording.share_of_known("my lovely tea", "Ann prefers tea") == 1.0


def test_a_text_tells_a_fact_or_a_part_of_it_but_a_name_alone_does_not() -> None:
    wording = Wording([FACT, "Ann drinks tea", "It rains"])
    assert tells(wording, "You know, Ann keeps some zebra up in Kiel", FACT)
    assert tells(wording, "keeps a zebra", FACT)
    assert not tells(wording, "Ann", FACT)
    assert not tells(wording, "Ann drinks tea", FACT)
    assert not tells(wording, "", FACT)


@given(st.lists(TEXTS, max_size=8), st.lists(TEXTS, max_size=8), TEXTS)
def test_a_text_tells_one_of_many_facts_if_it_says_most_of_one_or_hardly_anything_besides(
    facts: list[str], others: list[str], text: str
) -> None:
    wording = Wording([*facts, *others])

    def says(fact: str) -> bool:
        is_part = len(stems(text)) >= 3 and wording.share(text, fact) >= 0.8
        return is_part or wording.share(bare(fact), text) >= CARRIED

    assert Tellings(wording, facts).told_by(text) == any(map(says, facts))


@given(st.lists(TEXTS, max_size=8), TEXTS)
def test_which_facts_are_asked_for_together_changes_no_answer(facts: list[str], text: str) -> None:
    wording = Wording(facts)
    assert Tellings(wording, facts).told_by(text) == any(tells(wording, text, fact) for fact in facts)


@pytest.mark.parametrize(
    "fact",
    ["Prefers green tea", "12:05 Prefers green tea (Ann, 2031-05-02)", "Prefers green tea (Ann (work), 2031-05-02)",
     "Prefers green tea（Ann，2031-05-02）"],
)  # fmt: skip
def test_who_said_a_fact_and_when_is_none_of_its_words(fact: str) -> None:
    assert bare(fact) == "Prefers green tea"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Ann prefers the early train", "Ann prefers the early train to Kiel"),
        ("Ann really prefers the early train.", "ANN prefers the early train"),
        ("安喜欢早班火车", "安喜欢坐早班火车去"),
        ("Anna bevorzugt frühe Züge nach Kiel", "Annas bevorzugter Zug nach Kiel ist der frühe"),
    ],
)
def test_a_fact_in_slightly_other_words_has_survived(before: str, after: str) -> None:
    assert vanished([before], ["something else", after]) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Ann prefers the early train", "Bob lives in Kiel"),
        ("安喜欢早班火车", "他住在基尔"),
        ("Ann prefers the early train", ""),
    ],
)
def test_a_fact_that_is_nowhere_any_more_has_vanished(before: str, after: str) -> None:
    assert vanished([before, "kept"], [after, "Kept"]) == [before]


def test_what_all_facts_have_in_common_lets_none_of_them_survive_in_another() -> None:
    drinks = ("tea", "milk", "cocoa", "juice", "cider", "broth", "water", "lemonade", "coffee", "punch")
    facts = [f"Ann drinks {drink} at home" for drink in drinks]
    assert vanished(facts, facts[:1]) == facts[1:]
