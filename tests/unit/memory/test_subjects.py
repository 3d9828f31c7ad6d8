"""Which words are names, and what counts as said of somebody else in a memory of which nobody knows who is in it."""

import pytest

from memory.subjects import Telling, others, proper


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Has a brother called Bob, who lives by the sea in Oslo", {"bob", "oslo"}),
        ("Bob sings. Food and Drink: much of both", set()),
        ("All about Bob's dog, though bob is a cut of hair as well, and much else that is said here", set()),
        ("Trinkt am Morgen gern Tee mit Milch und wohnt am Hafen", set()),
    ],
)
def test_a_name_has_a_capital_within_a_sentence_of_a_language_that_gives_it_to_no_other_word(
    text: str, names: set[str]
) -> None:
    assert proper([text]) == names


def told(*pairs: tuple[str, str], under: tuple[str, ...] = ()) -> list[Telling]:
    return [Telling(text=was, under=(), by=(), now=((now, under),)) for was, now in pairs]


@pytest.mark.parametrize(
    ("pairs", "given"),
    [
        ([("Likes tea", "The aunt likes tea"), ("Has a dog", "The aunt has a dog")], 2),
        ([("Likes tea", "Really likes tea"), ("Has a dog", "Still has a dog")], 0),
        ([("Likes tea", "The user likes tea"), ("Has a dog", "The user has a dog")], 0),
        ([("Likes tea", "Food: likes tea"), ("Likes jam", "Food: likes jam")], 0),
        ([("My aunt sings", "My aunt sings and likes tea"), ("Likes tea", "My aunt sings and likes tea")], 0),
        ([("Likes tea", "Carl, the aunt's son, likes tea")], 1),
    ],
)
def test_a_subject_is_added_by_a_name_or_by_the_same_words_before_several(
    pairs: list[tuple[str, str]], given: int
) -> None:
    assert len(others(told(*pairs), proper={"carl"})) == given


def test_a_name_above_a_fact_that_is_told_elsewhere_as_it_was_gives_nothing_away() -> None:
    moved = told(("Likes tea", "Likes tea"), under=("Carl",))
    assert others(moved, proper={"carl"}) == {"Likes tea"}
    both = [Telling(text="Likes tea", under=(), by=(), now=(("Likes tea", ("Carl",)), ("Likes tea", ())))]
    assert others(both, proper={"carl"}) == frozenset()
