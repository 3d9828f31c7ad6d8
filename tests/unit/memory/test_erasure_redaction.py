"""What is left of a note, its header, its name and its index when one of several facts is forgotten."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.facts import facts
from memory.gone import Gone, Item, gone, mentioning
from memory.metadata import parse
from memory.provenance import fact_hash
from memory.redaction import index_without, neutral, redacted

GONE = "Ann has diabetes"
STAY = "- Ann keeps bees\n"
HEADS = ["# Bees", "Bees\n====", "> Bees are kept in Kiel", "<!-- 7 bees -->", "***", "| Kiel | bees |\n|---|---|"]
TELLING = [
    f"- {GONE}",
    f"{GONE}.",
    "# Diabetes",
    "## Ann has\tdiabetes",
    "Her diabetes\n===",
    "> I have diabetes",
    "| illness | since |\n| --- | --- |\n| diabetes | 2019 |",
    "Illness | no\n---|---\ndiabetes | x",
    "~~~diabetes\ninsulin: yes\n~~~",
    "```yaml\nill: diabetes\n\n- diabetes\n```",
    "    diabetes: yes",
    "<!--\nno sugar:\n\ndiabetes\n-->",
    "<!-- a --><!-- diabetes -->",
    "<p>diabetes</p>",
    "[^1]: diabetes, type 2",
    "[d]: https://x.test 'diabetes'",
]
KEPT = [
    "- Bees need [flowers](https://x.test 'for bees') <!-- m7 -->",
    "Two hives\nstand in Kiel",
    "1. It rains  \n   often",
    "* C++ & `<b>` --> 5°",
    "- nested\n  - deeper <!-- diabetes --> still",
    "- a <!-- diabetes\n- x --> b",
    "bees --- bees",
]


def forgotten(*texts: str, said: str = GONE) -> Gone:
    files = {f"{number}.md": text for number, text in enumerate(texts)} | {"gone.md": f"- {said}\n"}
    return gone(files, [Item(note="gone.md", hash=fact_hash(said))])


def left_of(text: str) -> str:
    what = forgotten(text)
    return redacted(text, what.same, what.betrays, title="note 1")


@given(st.lists(st.sampled_from([*HEADS, *TELLING, *KEPT]), max_size=9), st.sampled_from(["", "---\nname: x\n---\n"]))
@settings(max_examples=300)
def test_facts_that_stay_do_so_to_the_letter_and_no_line_betrays_what_is_forgotten(
    pieces: list[str], head: str
) -> None:
    text = head + "\n\n".join([*pieces, STAY])
    what, left = forgotten(text), left_of(text)
    stay = [fact for fact in facts(text) if not what.betrays(fact)]
    assert [fact for fact in facts(left) if fact in stay] == stay
    assert [line for line in left.splitlines() if what.betrays(line)] == []
    assert "iabetes" not in left
    assert left_of(left) == left


@given(st.lists(st.text("ab -#>=*|`~<!:[]1.\n\t", max_size=25), max_size=6), st.integers(0, 6))
@settings(max_examples=300)
def test_facts_stay_facts_whatever_stands_around_them(pieces: list[str], place: int) -> None:
    text = "\n\n".join([*pieces[:place], f"- {GONE}", *pieces[place:], STAY])
    what = forgotten(text)
    found = [fact for fact in facts(text) if not what.same(fact)]
    assert facts(redacted(text, what.same, what.betrays, title="x")) == found


@pytest.mark.parametrize("telling", TELLING)
def test_what_stands_around_facts_goes_where_it_betrays(telling: str) -> None:
    left = left_of(f"{STAY}\n{telling}\n\n{STAY}- {GONE}\n")
    assert "iabetes" not in left
    assert left.count(STAY) == 2


@pytest.mark.parametrize("aside", [*HEADS, "# What Ann has", "> as Ann said", "```sh\nls\n```"])
def test_what_shares_only_common_words_stays(aside: str) -> None:
    text = f"- Ann has bees in Kiel, 7 at a time\n\n{aside}\n\n- x y\n"
    assert left_of(f"{text}- {GONE}\n") == text


@pytest.mark.parametrize(
    "fact",
    [
        "- Bees:\n> a hive\n> my diabetes",
        "- bees\n  ```\n  diabetes: yes\n  ```",
        "Bees:\n| a | b |\n|---|---|\n| diabetes | c |",
        "- bees\n<details>diabetes</details>",
    ],
)
def test_a_fact_that_stays_keeps_its_quote_code_and_table(fact: str) -> None:
    left = left_of(f"# Diabetes\n\n{fact}\n\n{STAY}- {GONE}\n")
    assert left == f"\n{fact}\n\n{STAY}"


@pytest.mark.parametrize(
    ("said", "stays", "around"),
    [
        ("Ann's therapist is Margaret Hollis", "Ann buys margarine", "Margaret"),
        ("Ann keeps a fox", "The shed is green", "The foxes"),
        ("Anna has a cherry tree", "The shed is green", "Cherries"),
        ("Die Katze heißt Минка", "The shed is green", "Минку"),
        ("안나의 고양이는 나비이다", "The shed is green", "나비의 집"),
        ("アンの猫はタマです", "The shed is green", "タマ"),
        ("The door code is 47", "The shed is green", "47"),
        ("Ann is 39", "Ann is 40", "Age: 39"),
        ("Ann loves 🦓 most", "The shed is green", "🦓\ufe0f"),
        ("Ann keeps a zebrafish", "A zebra is in the zoo", "Zebrafish"),
        ("Ann keeps a zebrafish", "The shed is green", "ze\u00adbra\u200bfish"),
        ("Ann keeps a zebrafish", "The shed is green", "ze**bra**fish"),
        ("Ann keeps a zebrafish", "The shed is green", "zebr&#97;fish"),
        ("Ann keeps a zebrafish", "The shed is green", "see http://x.test/myzebrafish.png"),
        ("Ann keeps a zebra-fish", "The shed is green", "zebrafish"),
        ("Ann isst im Café", "The shed is green", "Cafe"),
    ],
)
def test_a_word_that_no_fact_that_stays_has_betrays_in_any_form(said: str, stays: str, around: str) -> None:
    what = gone({"a.md": f"- {said}\n- {stays}\n"}, [Item(note="a.md", hash=fact_hash(said))])
    assert what.betrays(around)
    assert redacted(f"## {around}\n\n- {said}\n- {stays}\n", what.same, what.betrays, title="x") == f"\n- {stays}\n"


@pytest.mark.parametrize("around", ["Sheds", "What Ann is", "The green shed", "3 keys", "Ann's"])
def test_a_word_that_a_fact_that_stays_has_betrays_nothing(around: str) -> None:
    said = "Ann has a shed"
    what = gone({"a.md": f"- {said}\n- Ann is in green sheds\n- The shed\n"}, [Item(note="a.md", hash=fact_hash(said))])
    assert not what.betrays(around)


def test_nothing_is_joined_by_what_goes_between() -> None:
    left = left_of(f"Bees\n# Diabetes\nHives\n- {GONE}\n---\nKiel\n")
    assert facts(left) == ["Bees", "Hives", "Kiel"]
    assert facts(left_of(f"{GONE}\n---\nbees: two\n---\nKiel\n")) == ["bees: two", "Kiel"]


def test_code_stays_code_and_text_below_it_stays_text() -> None:
    assert left_of(f"{STAY}\n```diabetes\nx\n```\n- {GONE}\n- b\n") == f"{STAY}\n```\nx\n```\n- b\n"
    assert left_of(f"```\nnever closed\n\n- {GONE}\n{STAY}") == f"```\nnever closed\n\n{STAY}"


def test_titles_of_links_go_and_the_links_stay() -> None:
    text = f"- [Doctor](https://x.test \"Ann has diabetes\") in [Kiel](<a b.md> 'for bees')\n- {GONE}\n"
    assert left_of(text) == "- [Doctor](https://x.test) in [Kiel](<a b.md> 'for bees')\n"


@pytest.mark.parametrize(
    ("entry", "left"),
    [
        ("name: Ann's diabetes", {"name": "note 1"}),
        ('description: "Ann has\n  diabetes"', {"description": "Ann keeps bees"}),
        ("description: >\n  Ann has\n  diabetes", {"description": "Ann keeps bees"}),
        ("description: [bees, diabetes]", {"description": "Ann keeps bees"}),
        ("tags: [bees, diabetes]", {"tags": ["bees"]}),
        ("tags: [diabetes]", {}),
        ("about: {ann: {ill: diabetes, has: [bees]}}", {"about": {"ann": {"has": ["bees"]}}}),
        ("hasDiabetes: true", {}),
        ("diabetes: [a, b]", {}),
        ("type: user # diabetes", {"type": "user"}),
        ("x: diabetes\nx: bees", {"x": "bees"}),
        ("created: 2026-05-01\nn: 0x" + "f" * 4000, {"created": "2026-05-01", "n": "0x" + "f" * 4000}),
    ],
)
def test_a_header_keeps_what_does_not_betray(entry: str, left: dict[str, object]) -> None:
    text = left_of(f"---\n{entry}\nkind: &a\n---\n{STAY}- {GONE}\n".replace("kind: &a\n", "z: diabetes\n"))
    metadata, body = parse(text)
    assert {key: str(value) if key == "created" else value for key, value in metadata.items()} == left
    assert body == STAY
    assert "iabetes" not in text


def test_a_header_of_fixed_words_stays_as_it_is_written() -> None:
    head = "---\nname:   bees\ntype: user\ncreated: 2026-05-01\n---\n"
    said = "The user has a name (Ann, 2026-05-01)"
    what = forgotten(head + STAY, said=said)
    assert redacted(f"{head}{STAY}- {said}\n", what.same, what.betrays, title="x") == head + STAY


def test_a_header_that_cannot_be_read_loses_the_lines_that_betray() -> None:
    left = left_of(f"---\nname: [bees\ntags:\n- diabetes\nx: &a diabetes\n---\n{STAY}- {GONE}\n")
    assert left == f"---\nname: [bees\ntags:\n---\n{STAY}"


@pytest.mark.parametrize(
    ("note", "like"),
    [
        ("ann-has-diabetes.md", "note-????????.md"),
        ("AnnHasDiabetes.md", "note-????????.md"),
        ("team/health/diabetes.md", "team/health/note-????????.md"),
        ("health/diabetes/kiel.md", "health/note-????????.md"),
        ("team/diabetes.conflict-0123abcd.md", "team/note-????????.conflict-0123abcd.md"),
        ("bees.md", "bees.md"),
        ("team/ann/bees.md", "team/ann/bees.md"),
    ],
)
def test_a_name_that_betrays_gives_way_to_one_that_is_always_the_same(note: str, like: str) -> None:
    what = forgotten(STAY)
    one, two = (list(itertools.islice(neutral(note, what.betrays), 2)) for _ in range(2))
    assert one == two
    assert len(one[0]) == len(like)
    assert all(sign in ("?", seen) for sign, seen in zip(like, one[0], strict=True))
    assert next(neutral(one[0], what.betrays)) == one[0]
    assert next(neutral("team/bees.md", forgotten(STAY, said="Bob leads the team").betrays)) == "team/bees.md"


def test_an_index_loses_what_betrays_and_its_pointers_follow_the_notes() -> None:
    index = """# Diabetes
Ann is ill:
diabetes

- [Bees](bees.md) — in Kiel
- [Ann (ill)](diabetes.md): who she is
- [Diabetes](<of ann.md>) — sugar
- [Old](old.md)
> see [[diabetes]]
"""
    names = {"diabetes.md": "note-1.md", "old.md": None}
    left = index_without(index, forgotten(STAY).betrays, names=lambda name: names.get(name, name))
    assert left == (
        "Ann is ill:\n\n- [Bees](bees.md) — in Kiel\n- [Ann (ill)](note-1.md): who she is\n- [of ann](<of ann.md>)\n"
    )


def test_a_fact_that_stands_in_an_index_goes_whole_and_the_others_stay_whole() -> None:
    index = f"# Diabetes\n- {GONE}\n- [Bees](bees.md) — diabetes\n- Bob keeps:\n  diabetes leaflets\n\n[b](b.md)\n"
    what = forgotten(STAY)
    left = index_without(index, what.betrays, names=lambda name: name, drop=what.same)
    assert left == "- [bees](bees.md)\n- Bob keeps:\n  diabetes leaflets\n\n[b](b.md)\n"


def test_an_index_in_a_folder_names_notes_from_there() -> None:
    names = {"a/x.md": "a/note-1.md", "a/y.md": "note-2.md"}
    text = index_without(
        "- [X](x.md)\r\n- [Y](y.md)\r\n", lambda _: False, names=lambda name: names.get(name, name), folder="a/"
    )
    assert text == "- [X](note-1.md)\r\n"


def test_what_goes_over_the_end_of_a_line_is_seen() -> None:
    told = "Ann was advised no sugar"
    corpus = [f"- {told}\n", "- Ann likes advised things\n", "- no sugar was in the tea\n"]
    what = forgotten(*corpus, said=told)
    index = "Ann was advised\nno sugar\n\nTea\n"
    assert index_without(index, what.betrays, names=lambda name: name) == "\nTea\n"


@pytest.mark.parametrize(
    "aside", ["> garden plans", "| garden | rake |\n|---|---|\n| garden | hose |", "```\ngarden = 12\n```"]
)
def test_what_only_shares_a_word_stays_and_so_do_headings_and_names_with_that_word(aside: str) -> None:
    said = "Ann sold the garden"
    text = f"---\nname: garden\ndescription: the garden\n---\n\n# Garden\n\n{aside}\n\nIt rains.\n"
    what = gone({"garden.md": text, "x.md": f"- {said}\n"}, [Item(note="x.md", hash=fact_hash(said))])
    assert redacted(text, what.same, what.betrays, title="note 1") == text
    assert next(neutral("garden.md", what.betrays)) == "garden.md"
    assert mentioning({"garden.md": text}, what) == []


def test_a_quote_that_tells_the_fact_goes_beside_one_that_shares_a_word_with_it() -> None:
    said = "Ann sold the garden"
    text = f"> the garden was sold by Ann\n\n> garden plans\n\n- {said}\n- It rains\n"
    what = gone({"x.md": text}, [Item(note="x.md", hash=fact_hash(said))])
    assert redacted(text, what.same, what.betrays, title="x") == "\n> garden plans\n\n- It rains\n"


def test_what_somebody_else_said_is_cut_only_where_it_repeats_the_fact() -> None:
    quotes = ["> I have diabetes", f"> It is so: {GONE}!"]
    text = "\n\n".join(quotes) + "\n"
    files = {"a.md": text, "b.md": STAY, "gone.md": f"- {GONE}\n"}
    items = [Item(note="gone.md", hash=fact_hash(GONE))]
    what = gone(files, items, others=frozenset(map(fact_hash, quotes)))
    assert redacted(text, what.same, what.betrays, title="x") == "> I have diabetes\n\n"
    what = gone(files, items)
    assert redacted(text, what.same, what.betrays, title="x") == ""
