"""In a shared chat a rewrite gives no fact to another person, however it is worded; honest merges pass."""

from collections.abc import Collection, Mapping

import pytest

from memory.attribution import Attribution, compared, kept_apart
from memory.provenance import Moved, Placed, fact_hash

ANN = "- Prefers tea in the early morning (Ann, 2026-05-01)\n"
BOB = "- Takes the late train home on Fridays (Bob, 2026-05-02)\n"
NUTS = "- Ann is allergic to peanuts and cashews (Ann, 2026-05-01)\n"
BEFORE = {"food.md": ANN + NUTS, "ways.md": BOB}


def moved(after: Mapping[str, str], *, said_by: Mapping[str, Collection[str]] = {}, **before: str) -> Attribution:
    return compared({f"{name}.md": text for name, text in before.items()} or BEFORE, after, said_by)


@pytest.mark.parametrize(
    "after",
    [
        {"food.md": ANN.replace("Ann", "Bob") + NUTS, "ways.md": BOB},
        {"food.md": ANN + "- Bob is allergic to peanuts and cashews (Bob, 2026-05-01)\n", "ways.md": BOB},
        {"food.md": ANN + "- Bob can't have peanuts or cashews: allergic (Bob, 2026-05-03)\n", "ways.md": BOB},
        {"food.md": ANN + NUTS + "- Bob is allergic to peanuts and cashews\n", "ways.md": BOB},
        {"food.md": ANN + NUTS, "ways.md": BOB[:-1].replace(" (", ", prefers tea in the early morning (") + "\n"}
        | {"food.md": NUTS},
        {"food.md": ANN.replace("Ann", "Bobby") + NUTS, "ways.md": BOB},
        {"food.md": "- Robert: prefers tea in the early morning\n" + NUTS, "ways.md": BOB},
        {"food.md": NUTS, "bob.md": "- Prefers tea in the early morning\n", "ways.md": BOB},
        {"food.md": "# Bob\n- Prefers tea in the early morning\n# Ann\n" + NUTS, "ways.md": BOB},
    ],
    ids=["stamp", "subject", "reworded", "copied", "merged", "nickname", "label", "note", "heading"],
)
def test_a_fact_that_ends_up_with_somebody_else_is_found(after: dict[str, str]) -> None:
    assert moved(after).moved


@pytest.mark.parametrize(
    "after",
    [
        BEFORE,
        {"all.md": ANN + NUTS + BOB},
        {"food.md": "- Tea early in the morning, no peanuts, no cashews: allergic (Ann, 2026-05-01)\n", "ways.md": BOB},
        {"both.md": "- Ann prefers tea in the early morning, Bob takes the late train home on Fridays\n" + NUTS},
        {"ann.md": "- Prefers tea in the early morning\n- Is allergic to peanuts and cashews\n", "bob.md": BOB},
        {"food.md": "# Ann\n- Prefers tea in the early morning\n" + NUTS, "ways.md": BOB},
        {"food.md": ANN.replace("Prefers", "Ann prefers").replace("2026", "last said 2026") + NUTS, "ways.md": BOB},
        {"food.md": "- Prefers tea in the early morning (Ann Smith, 2026-05-01)\n" + NUTS, "ways.md": BOB},
        {"food.md": ANN + NUTS},
        {"food.md": ANN + NUTS, "ways.md": BOB, "why.md": "- Why: nobody has to ask twice\n"},
    ],
    ids=["same", "moved", "merged", "together", "by-note", "by-heading", "named", "full-name", "removed", "unlike"],
)
def test_an_honest_rewrite_is_not_refused(after: dict[str, str]) -> None:
    assert moved(after).moved == ()


def test_a_fact_that_is_left_only_as_another_persons_own_is_lost_though_it_reads_alike() -> None:
    both = "- Likes tea (Ann, 2026-05-01)\n- Likes tea (Bob, 2026-05-01)\n"
    found = moved({"a.md": "- Likes tea (Bob, 2026-05-01)\n"}, a=both)
    assert found == Attribution(lost=("Likes tea (Ann, 2026-05-01)",))


def test_who_said_it_counts_also_where_the_fact_names_nobody() -> None:
    said_by = {fact_hash("Hates loud music at work"): {"Ann"}, fact_hash("Likes long walks"): {"Bob"}}
    before = "- Hates loud music at work\n- Likes long walks\n"
    assert moved({"a.md": before}, said_by=said_by, a=before).moved == ()
    wrong = "- Bob hates loud music at work\n- Likes long walks\n"
    assert moved({"a.md": wrong}, said_by=said_by, a=before).moved


def test_a_label_that_changes_over_the_same_words_is_found_though_nobody_of_that_name_is_known() -> None:
    before = "- Ann: walks to work along the canal\n- Bob: goes by bus\n- Why: both live near\n"
    assert moved({"a.md": before.replace("Ann:", "Bob:")}, a=before).moved
    assert moved({"a.md": before.replace("Ann:", "Robert:")}, a=before).moved
    assert moved({"b.md": before}, a=before).moved == ()


def test_two_who_like_the_same_keep_it_each_and_what_only_one_said_stays_with_them() -> None:
    before = "- Drinks coffee (Ann, 2026-05-01)\n- Drinks coffee black without sugar (Bob, 2026-05-01)\n"
    swapped = "- Drinks coffee black without sugar (Ann, 2026-05-01)\n- Drinks coffee (Bob, 2026-05-01)\n"
    assert moved({"a.md": before}, a=before).moved == ()
    assert moved({"a.md": swapped}, a=before).moved


def test_in_a_script_without_blanks_names_are_known_too() -> None:
    before = "- 李雷喜欢早上喝绿茶 (李雷, 2026-05-01)\n- 韩梅坐晚班火车 (韩梅, 2026-05-01)\n"
    assert moved({"a.md": before.replace("李雷", "韩梅")}, a=before).moved
    assert moved({"b.md": before}, a=before).moved == ()


def test_a_source_does_not_go_along_to_a_fact_that_names_another_speaker() -> None:
    old, other = (Placed(note="a.md", fact=f"Likes tea ({name}, 2026-05-01)") for name in ("Ann", "Bob"))
    said_by = {fact_hash(old.fact): {"Ann"}}
    new = [Placed(note="b.md", fact=fact) for fact in (old.fact, other.fact, "Likes tea")]
    moves = [Moved(old=old, new=each) for each in new]
    assert kept_apart(moves, said_by) == [moves[0], moves[2]]


def test_a_day_log_speaks_for_those_who_are_named_in_it() -> None:
    log = {"logs/2026/05/2026-05-01.md": "- 10:00 Ann: I keep bees behind the house\n- 10:01 Bob: I keep nothing\n"}
    right, wrong = (f"- Keeps bees behind the house ({name}, 2026-05-01)\n" for name in ("Ann", "Bob"))
    assert compared(log, log | {"a.md": right}, {}).moved == ()
    assert compared(log, log | {"a.md": wrong}, {}).moved


NAMES = [
    "Guest 1",
    "Ada0",
    "O'Neil",
    "Jean-Luc",
    "user_42",
    "Ann (work)",
    "Tom :)",
    "🦊",
    "李雷",
    "김민수",
    "דוד",
    "نورة",
    "Zoe\u0301",
    "ola",
]
OTHERS = [
    "Guest 2",
    "Bo0",
    "D’Arcy",
    "Jean-Paul",
    "user_43",
    "Bob (work)",
    "Kim :(",
    "🐻",
    "韩梅",
    "이영희",
    "רות",
    "سارة",
    "Ana\u0301",
    "pia",
]


@pytest.mark.parametrize(("name", "other"), list(zip(NAMES, OTHERS, strict=True)))
def test_a_person_is_known_whatever_their_name_is_made_of(name: str, other: str) -> None:
    fact, own = f"Grows quinces behind the mill ({name}, 2026-10-25)", f"Sails to Oslo in June ({other}, 2026-10-24)"
    said_by = {fact_hash(fact): {name}, fact_hash(own): {other}}
    before = f"- {fact}\n- {own}\n"
    for wrong in (fact.replace(name, other), f"{other}: grows quinces behind the mill"):
        found = moved({"a.md": f"- {wrong}\n- {own}\n"}, said_by=said_by, a=before).moved
        assert found == (fact,), "one fact, counted once"
    assert moved({"b.md": before.replace("Grows", "She grows")}, said_by=said_by, a=before) == Attribution()


@pytest.mark.parametrize(("name", "other"), list(zip(NAMES, OTHERS, strict=True)))
def test_a_name_that_nobody_has_spoken_under_is_taken_for_a_person_too(name: str, other: str) -> None:
    fact = f"Grows quinces behind the mill ({name}, 2026-10-25)"
    assert moved({"a.md": f"- {fact.replace(name, other)}\n"}, said_by={fact_hash(fact): {name}}, a=f"- {fact}\n").moved


@pytest.mark.parametrize(("was", "now"), [("10:30", "11:00"), ("12 guests", "14 guests"), ("room 3", "room 4")])
def test_a_number_beside_the_date_is_no_person(was: str, now: str) -> None:
    fact = f"- We meet at the mill ({was}, 2026-10-25)\n"
    assert moved({"a.md": fact.replace(was, now)}, a=fact).moved == ()


def test_a_log_names_its_speakers_whatever_their_names_are_made_of() -> None:
    log = {"logs/2026/05/2026-05-01.md": "- 10:00 Ada0: I keep bees by the mill\n- 10:01 42: I keep nothing\n"}
    right, wrong = (f"- Keeps bees by the mill ({name}, 2026-05-01)\n" for name in ("Ada0", "42"))
    assert compared(log, log | {"a.md": right}, {fact_hash("10:01 42: I keep nothing"): {"42"}}).moved == ()
    assert compared(log, log | {"a.md": wrong}, {fact_hash("10:01 42: I keep nothing"): {"42"}}).moved


BLAMES = {
    "index line": {"MEMORY.md": "- [Bob](ways.md) — allergic to peanuts and cashews\n"},
    "index line by its file": {"MEMORY.md": "- [Food](bob.md) — allergic to peanuts and cashews\n"},
    "words of the index": {"MEMORY.md": "Bob is allergic to peanuts and cashews.\n"},
    "description": {"ways.md": "---\nname: ways\ndescription: Bob is allergic to peanuts and cashews\n---\n" + BOB},
    "description alone": {"x.md": "---\nname: x\ndescription: Bob is allergic to peanuts and cashews\n---\n"},
    "comment": {"ways.md": "<!-- Bob is allergic to peanuts and cashews -->\n" + BOB},
    "comment of many lines": {"ways.md": "<!--\nways\nBob is allergic to peanuts and cashews\n-->\n" + BOB},
    "heading": {"ways.md": BOB + "\n# Bob can't have peanuts or cashews: allergic\n"},
    "lower case": {"x.md": "- bob is allergic to peanuts and cashews\n"},
    "lower case, possessive": {"x.md": "- bob's allergic to peanuts and cashews\n"},
    "unseen sign": {"x.md": "- B\u200bob is allergic to peanuts and cashews\n"},
    "unseen sign in the stamp": {"x.md": "- Is allergic to peanuts and cashews (Bo\u2060b, 2026-05\u200d-01)\n"},
    "unseen signs in the words": {"x.md": "- Bob is al\u00adlergic to pea\u200bnuts and cas\ufeffhews\n"},
    "markup in the name": {"x.md": "- B**o**b is allergic to peanuts and cashews\n"},
    "name of a note": {"x.md": "---\nname: Bob is allergic to peanuts and cashews\n---\n- See food\n"},
    "heading of the index": {"MEMORY.md": "# Bob\n\n- [Food](food.md) — allergic to peanuts, cashews\n"},
    "among more words": {"x.md": "- Bob fell ill by the river: allergic to peanuts and cashews, as nobody knew\n"},
    "index line of many words": {"MEMORY.md": "- [Bob](x.md) — sails, swims, is allergic to peanuts, cashews\n"},
    "wide letters": {"x.md": "- Ｂｏｂ is allergic to peanuts and cashews\n"},
}


@pytest.mark.parametrize("blame", BLAMES.values(), ids=BLAMES)
def test_blame_is_found_wherever_it_stands_and_however_the_name_is_written(blame: dict[str, str]) -> None:
    assert moved(BEFORE | blame).moved
    assert moved(BEFORE | {name: text.replace("B", "b") for name, text in blame.items()}).moved


@pytest.mark.parametrize("blame", BLAMES.values(), ids=BLAMES)
def test_the_same_said_of_the_right_person_is_no_blame(blame: dict[str, str]) -> None:
    right = {
        name.replace("bob", "ann"): text.replace(BOB, "").replace("bob", "ann").replace("Bob", "Ann")
        for name, text in blame.items()
    }
    right = {
        name: text.replace("B\u200bob", "Ann").replace("Bo\u2060b", "Ann").replace("B**o**b", "Ann")
        for name, text in right.items()
    }
    assert moved(BEFORE | {name: text.replace("Ｂｏｂ", "Ann") for name, text in right.items()}).moved == ()


@pytest.mark.parametrize(
    "line",
    [
        "- [Bob](ways.md) — late train home on Fridays",
        "- [Ann and Bob](all.md) — peanuts, cashews, trains",
        "- [Food](food.md) — who is allergic to peanuts and cashews",
        "- [Bob](ways.md) — how he travels",
    ],
)
def test_a_line_of_the_index_may_sum_up_what_is_known(line: str) -> None:
    after = {"food.md": ANN + NUTS, "ways.md": BOB, "MEMORY.md": line + "\n"}
    assert moved(after) == Attribution()
    assert compared(BEFORE | {"MEMORY.md": line}, BEFORE, {}) == Attribution()


def test_a_name_that_is_a_word_as_well_is_none_in_lower_case() -> None:
    before = {"a.md": "- Walks to the mill at dawn (Will, 2026-05-01)\n- Keeps bees (Rose, 2026-05-01)\n"}
    after = {"a.md": before["a.md"].replace("Walks", "will walk").replace("dawn", "dawn, when the sun rose")}
    assert compared(before, after, {}) == Attribution()


BERG = "- Grows quinces behind the mill (Anna Berg, 2026-05-01)\n"
LIND = "- Sails to Oslo every June (Anna Lind, 2026-05-02)\n"


@pytest.mark.parametrize(
    "text",
    [
        BERG.replace("Berg", "Lind"),
        "- Anna Lind grows quinces behind the mill\n",
        "- anna lind grows quinces behind the mill\n",
        "# Anna Lind\n\n- Grows quinces behind the mill\n",
        BERG.replace("Anna Berg", "Bob"),
    ],
)
def test_two_whose_names_begin_alike_are_two_people(text: str) -> None:
    assert moved({"a.md": text, "b.md": LIND}, a=BERG, b=LIND + BOB).moved
    assert moved({"a.md": LIND.replace("Lind", "Berg"), "b.md": BERG}, a=BERG, b=LIND).moved


def test_what_names_only_the_word_that_two_names_begin_with_may_be_of_either() -> None:
    short = BERG.replace(" Berg", "")
    assert moved({"a.md": short + LIND}, a=BERG + LIND).moved == ()
    assert moved({"a.md": BERG, "b.md": LIND}, a=short, b=LIND + "- Is in Bonn (Anna Berg, 2026-05-03)\n").moved == ()
    assert moved({"a.md": "- Anna takes the late train home on Fridays\n" + LIND}, a=BERG + LIND + BOB).moved
    old, new = (Placed(note="a.md", fact=fact[2:-1]) for fact in (BERG, short))
    said_by = {old.hash: {"Anna Berg"}, fact_hash(LIND[2:-1]): {"Anna Lind"}}
    assert kept_apart([Moved(old=old, new=new)], said_by) == [Moved(old=old, new=new)]


NUTS_ALONE = "Is allergic to peanuts and cashews"
UNDER = {
    "heading above a heading": "## 1. NAME\n\n### Health\n\n- FACT\n",
    "underlined heading": "NAME\n===\n\n- FACT\n",
    "heading as a tag": "<h2>NAME</h2>\n\n- FACT\n",
    "bold line": "**NAME**\n\n- FACT\n",
    "bold line of a paragraph": "__NAME__\nFACT\n",
    "label": "About NAME:\n\n- FACT\n",
    "item": "- NAME\n  - Food\n    - FACT\n",
    "summary": "<details><summary>NAME</summary>\n\n- FACT\n\n</details>\n",
    "summary of several lines": "<details>\n<summary>\nNAME\n</summary>\n\n- FACT\n\n</details>\n",
    "column": "| Topic | NAME |\n| --- | --- |\n| Food | FACT |\n",
    "definition": "NAME\n: FACT\n",
    "quote": "> **NAME**\n>\n> - FACT\n",
    "code": "```\nNAME:\n  - FACT\n```\n",
    "header": "---\nname: x\nauthor: NAME\n---\n\n- FACT\n",
}


@pytest.mark.parametrize("form", UNDER.values(), ids=UNDER)
def test_a_fact_is_given_away_by_whatever_it_is_put_under(form: str) -> None:
    soup, nuts = "- Likes soup (Bob, 2026-05-01)\n", f"- {NUTS_ALONE} (Ann, 2026-05-01)\n"
    text = form.replace("FACT", NUTS_ALONE)
    assert moved({"food.md": soup, "x.md": text.replace("NAME", "Bob")}, food=soup, nuts=nuts).moved
    assert moved({"food.md": soup, "x.md": text.replace("NAME", "Ann")}, food=soup, nuts=nuts) == Attribution()


def test_a_fact_is_given_away_by_the_folder_that_it_is_put_into() -> None:
    after = {"NAME/food.md": f"- {NUTS_ALONE}\n- Prefers tea in the early morning\n", "ways.md": BOB}
    for name, given in (("bob", 2), ("ann", 0)):
        assert len(moved({file.replace("NAME", name): text for file, text in after.items()}).moved) == given


def test_what_stands_nearest_says_whose_a_fact_is() -> None:
    text = f"# Bob\n\n## Ann\n\n- {NUTS_ALONE}\n- Prefers tea in the early morning\n\n# Bob\n\n{BOB}"
    assert moved({"bob.md": text}) == Attribution()
    table = f"| Ann | Bob |\n|---|---|\n| {NUTS_ALONE} | Takes the late train home on Fridays |\n"
    assert moved({"food.md": ANN, "x.md": table}) == Attribution()


def test_a_fact_that_names_nobody_any_more_has_lost_its_speaker() -> None:
    stripped = {name: text.replace(" (Ann, 2026-05-01)", "") for name, text in BEFORE.items()}
    assert moved(stripped) == Attribution(lost=("Prefers tea in the early morning (Ann, 2026-05-01)",))
    assert moved({"food.md": ANN, "ways.md": BOB, "x.md": f"- {NUTS_ALONE}\n"}).lost == (NUTS[2:-1],)
    assert moved({"ann.md": stripped["food.md"], "ways.md": BOB}) == Attribution()


def test_who_said_something_of_another_is_its_speaker_still() -> None:
    said = "- Bob plays the tuba at night (Ann, 2026-05-01)\n"
    for without in ("- Bob plays the tuba at night\n", "- Bob plays the tuba at night (Bob, 2026-05-01)\n"):
        assert moved({"a.md": without + BOB}, a=said + BOB).lost == (said[2:-1],)
    assert moved({"a.md": "# Ann says\n\n- Bob plays the tuba at night\n"}, a=said) == Attribution()


def test_a_fact_that_names_nobody_any_more_is_anothers_in_a_note_that_speaks_of_them() -> None:
    unheard_of = f"= Bob =\n\n- {NUTS_ALONE}\n"
    assert moved({"food.md": ANN, "ways.md": BOB, "x.md": unheard_of}).moved == (NUTS[2:-1],)
    assert moved({"food.md": ANN, "ways.md": BOB + f"- {NUTS_ALONE}\n"}).moved == ()  # he has only said the other one


def test_a_heading_that_names_two_gives_neither_what_is_the_others_but_counts() -> None:
    both = f"# Ann and Bob\n\n- {NUTS_ALONE}\n"
    assert moved({"food.md": ANN, "ways.md": BOB, "x.md": both}) == Attribution(lost=(NUTS[2:-1],))


def test_a_word_before_a_date_in_brackets_is_no_speaker() -> None:
    rent = "- The rent is due (by 2026-06-01)\n"
    assert moved({"a.md": "- The rent is due by 2026-06-01\n"}, a=rent) == Attribution()


@pytest.mark.parametrize(
    ("sentence", "lost"),
    [
        ("Ann takes the late train home on Fridays and Bob prefers tea in the early morning", 2),
        ("Ann: takes the late train home on Fridays; Bob: prefers tea in the early morning", 2),
        ("Bob takes the late train home on Fridays, Ann prefers tea in the early morning", 0),
        ("Ann and Bob prefer tea in the early morning and take the late train home on Fridays", 0),
        ("Bob takes the late train home on Fridays, says Ann, who prefers tea in the early morning", 0),
    ],
)
def test_in_a_sentence_of_two_people_each_keeps_what_is_theirs(sentence: str, lost: int) -> None:
    found = moved({"both.md": f"- {sentence} (Ann, 2026-05-01; Bob, 2026-05-02)\n", "food.md": NUTS})
    assert (len(found.lost), found.moved) == (lost, ())
