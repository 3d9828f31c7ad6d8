"""What a consolidation may remove: the bound holds for whatever a memory says, and a good one stays within it."""

import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from memory.judgement import Ending, Judgement
from memory.ports import Outcome, RunReport
from memory.provenance import fact_hash
from memory.scope import Mode, Scope
from memory.settings import MemorySettings
from memory.snapshot import Saved
from tests.unit.memory.honest_dreams import ALL, HONEST, Honest

HOME = Path("/memory")
SCOPE = Scope(
    principal="ann",
    project="",
    memory_dir=HOME,
    team_dir=None,
    mode=Mode.AUTO,
    shared=False,
    enabled=True,
    timezone="UTC",
    readable=(HOME,),
    writable=(HOME,),
)
DONE = RunReport(outcome=Outcome.COMPLETED, written=(), text="", turns=1)
OTHERS = {
    "others.md": "".join(
        f"- {fact}\n"
        for fact in ("Sings in a choir", "Paints an old boat", "Keeps bees", "Lives near Kiel harbour", "Bakes bread")
    )
}


def judged(
    before: Mapping[str, str],
    after: Mapping[str, str],
    *,
    shared: bool = False,
    said_by: Mapping[str, Collection[str]] = {},
) -> Judgement:
    then, now = ({HOME / name: Saved(text=text, mtime_ns=0) for name, text in each.items()} for each in (before, after))
    return Judgement(scope=replace(SCOPE, shared=shared), before=then, after=now, said_by=said_by)


def removed(was: str, now: str, *, besides: str = "") -> int:
    """Return how many facts count as removed where one note is rewritten and another stays."""
    return len(judged({"a.md": was, "b.md": besides}, {"a.md": now, "b.md": besides}).removed)


TABLE = "| Day | Rent |\n| --- | --- |\n" + "".join(
    f"| {day} | {day}word {900 + n} |\n" for n, day in enumerate("abcdefghij")
)
QUOTE = "".join(f"> Line {word} of the song\n" for word in ("amber", "birch", "cedar", "dill", "elder", "fern"))
CODE = "```sh\n" + "".join(f"deploy {word} --now\n" for word in ("amber", "birch", "cedar", "dill", "elder")) + "```\n"
ITEM = "- What the shop has:\n" + "".join(
    f"  > {word} in jars\n" for word in ("amber", "birch", "cedar", "dill", "elder")
)


@pytest.mark.parametrize("text", [TABLE, QUOTE, CODE, ITEM], ids=["table", "quote", "code", "within an item"])
def test_the_lines_of_what_is_no_plain_text_are_counted_each(text: str) -> None:
    lines = text.splitlines(keepends=True)
    few = "".join(lines[:3]) + ("```\n" if text is CODE else "")
    ending, reason = judged(OTHERS | {"a.md": text}, OTHERS | {"a.md": few}).verdict([], DONE, MemorySettings())
    assert (ending, reason[:25]) == (Ending.REFUSED, "it would have removed " + reason[22:25])
    assert removed(text, text) == removed(text, f"# Kept\n\n{text}") == 0


def test_many_lines_make_no_room_for_more_facts_to_go() -> None:
    lines = {"code.md": "```\n" + "".join(f"set word{chr(97 + n % 26)}{n} on\n" for n in range(200)) + "```\n"}
    ending, reason = judged(OTHERS | lines, lines).verdict([], DONE, MemorySettings())
    assert (ending, reason) == (Ending.REFUSED, "it would have removed 5 of 5 facts")


@pytest.mark.parametrize(
    "text",
    [
        "---\nname: a\ndescription: The locker opens with seven turns\n---\n",
        "<!-- The locker opens with seven turns -->\n",
        "---\nname: a\n---\n\n<!--\nThe locker opens with seven turns\n-->\n",
        "# The locker opens with seven turns\n",
    ],
    ids=["description", "comment", "many lines", "heading"],
)
def test_a_note_that_says_what_it_says_outside_of_its_body_is_not_deleted_for_nothing(text: str) -> None:
    assert removed(text, "") == 1
    assert removed(text, "- With seven turns the locker opens\n") == 0


def test_what_an_index_says_between_its_pointers_counts_and_its_pointers_do_not() -> None:
    index = {"MEMORY.md": "Never wake Ann before nine.\n\n- [A](a.md) — tea\n"}
    assert judged(index, {"MEMORY.md": "- [A](a.md) — drinks\n"}).removed == ("Never wake Ann before nine.",)
    assert judged(index, {"MEMORY.md": "", "ann.md": "- Never wake Ann before nine\n"}).removed == ()


def test_a_fact_that_is_left_only_in_a_comment_is_gone() -> None:
    assert removed("- The locker opens with seven turns\n", "<!-- The locker opens with seven turns -->\n") == 1
    assert removed("- The locker opens with seven turns\n", "", besides="") == 1


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("Bob is allergic to nuts", "Carol is allergic to nuts"),
        ("I owe Bob the money for the concert", "I owe Carol the money for the concert"),
        ("Bob owes Ann the money for the concert", "Ann owes Bob the money for the concert"),
        ("Peter hilft Anna beim Umzug am Hafen", "Anna hilft Peter beim Umzug am Hafen"),
        ("Mein Bruder Bob wohnt am Hafen", "Mein Bruder Carl wohnt am Hafen"),
    ],
)
def test_what_is_said_of_somebody_has_gone_where_it_is_said_of_another(was: str, now: str) -> None:
    assert removed(f"- {was}\n", f"- {now}\n") == 1
    many = {"a.md": f"- {was}\n- {was} too\n"}
    turned = {"a.md": f"- {now}\n- {now} too\n"}
    ending, reason = judged(OTHERS | many, OTHERS | turned).verdict([], DONE, MemorySettings())
    assert (ending, reason) == (Ending.REFUSED, "it would have removed 2 of 7 facts")


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("Bob likes tea|Carol likes tea", "Carol and Bob like tea"),
        ("Bob has a dog|Bob likes tea", "Bob: has a dog, likes tea"),
        ("Ann's brother Bob lives at the harbour|Bob sings", "Bob, Ann's brother, lives at the harbour and sings"),
        ("My sister is called Carol|My sister plays the cello", "My sister Carol plays the cello"),
        ("Peters Frau heißt Anna|Peters Frau singt im Chor", "Peters Frau Anna singt im Chor"),
        ("Likes strong tea", "Really likes strong tea"),
    ],
)
def test_names_that_are_brought_together_stay_with_what_is_said_of_them(was: str, now: str) -> None:
    assert removed("".join(f"- {fact}\n" for fact in was.split("|")), f"- {now}\n") == 0


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("The rent is 900", "The rent is 1900"),
        ("The rent is 900 a month", "The rent is 1,900 a month"),
        ("Ann has 3 cats and a dog", "Ann has cats and a dog"),
        ("The deadline for the report is 2026-05-01", "The deadline for the report is 2026-06-01"),
        ("The train to Kiel leaves at 9:30", "The train to Kiel leaves at 9:45"),
        ("Weighs 3.5 kg at birth", "Weighs 4.5 kg at birth"),
        ("Ann likes strong tea", "Ann does not like strong tea"),
        ("Ann doesn't like strong tea", "Ann likes strong tea"),
        ("Ann likes strong tea", "Ann likes weak coffee, not strong tea"),
        ("Ann likes tea, not coffee", "Ann likes coffee, not tea"),
        ("Ann's youngest sister in Kiel eats meat", "Ann's youngest sister in Kiel never eats meat"),
        ("Ann has a key to the house", "Ann has no key to the house"),
        ("Ann isst gern Fleisch am Abend", "Ann isst am Abend Fleisch nicht gern"),
        ("安喜欢喝绿茶", "安不喜欢喝绿茶"),
    ],
)
def test_a_number_that_is_gone_and_a_denial_that_comes_or_goes_is_a_fact_lost(was: str, now: str) -> None:
    assert removed(f"- {was}\n", f"- {now}\n", besides="- The bike cost 900\n") == 1


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("The rent is 1900 since May 2026", "Rent: 1,900 (since 2026-05)"),
        ("The dentist is tomorrow at 9 am", "The dentist is on 2026-05-04 at 09:00"),
        ("Ann moves to Kiel in 3 weeks", "Ann moves to Kiel on 2026-05-24"),
        ("Ann met her uncle 2 days ago in Kiel", "On 2026-05-01 Ann met her uncle in Kiel"),
        ("The shop closes at 5 pm", "The shop closes at 17:00"),
        ("The party is on 1 May 2026 in Kiel", "The party in Kiel is on 2026-05-01"),
        ("Ann has 3 cats", "Ann has three cats"),
        ("Ann likes tea (Ann, 2026-05-01)", "Ann likes tea, not coffee (Ann, 2026-05-09)"),
        ("Ann does not like coffee", "Ann likes tea, not coffee"),
        ("Ann drinks tea in the morning", "Ann drinks tea in the morning and takes no milk"),
        ("Ann doesn't eat fish", "Ann avoids fish: never eats it"),
        ("Not only tea but coffee too is what Ann drinks", "Ann drinks tea and coffee"),
        ("Ann really prefers the early train to Kiel", "Prefers the early train to Kiel"),
    ],
)
def test_what_a_good_dream_does_to_a_fact_loses_nothing(was: str, now: str) -> None:
    assert removed(f"- {was}\n", f"- {now}\n") == 0


def test_an_old_number_that_a_newer_fact_corrects_may_go_and_counts() -> None:
    assert removed("- Ann has 3 cats\n- Ann has 4 cats now\n", "- Ann has 4 cats now\n") == 1


def test_a_fact_is_not_held_by_those_that_stood_beside_it_and_say_something_else() -> None:
    fruits = [f"Ann likes to eat {fruit} in the morning" for fruit in ("apples", "pears", "plums", "figs", "dates")]
    assert removed("".join(f"- {each}\n" for each in fruits), f"- {fruits[0]}\n") == 4
    assert removed("".join(f"- {each}\n" for each in fruits), f"- {', '.join(fruits)}\n") == 0


def test_the_same_said_twice_counts_once() -> None:
    twice = "- Sings in a choir\n" * 9 + "- Keeps bees\n"
    found = judged({"a.md": twice}, {"a.md": "- Sings in a choir\n"})
    assert (found.survival.facts_before, found.survival.facts_kept, found.removed) == (2, 1, ("Keeps bees",))


def test_a_table_may_become_a_list() -> None:
    rows = "".join(f"- {day}: {day}word {900 + n}\n" for n, day in enumerate("abcdefghij"))
    assert removed(TABLE, rows) == 0


@pytest.mark.parametrize("dream", HONEST.values(), ids=HONEST)
def test_an_honest_dream_stands_and_counts_as_removed_only_what_it_took_out(dream: Honest) -> None:
    found = judged(dream.before, dream.after, shared=dream.shared)
    assert found.verdict([], DONE, MemorySettings()) == (Ending.CHANGED, "")
    assert len(found.removed) == dream.removed


def item(fact: str) -> str:
    return f"- {fact}\n"


def lower(fact: str) -> str:
    return fact[0].lower() + fact[1:]


NOTES = {f"n{place}.md": item(fact) for place, fact in enumerate(ALL)}
HEAD = "---\nname: brother\ndescription: about the brother, Carl\n---\n\n# Carl, the brother\n\n"
TELLING: Mapping[str, Callable[[str], str]] = {
    "a name before each": lambda fact: item(f"Carl {lower(fact)}"),
    "another subject before each": lambda fact: item(f"The brother {lower(fact)}"),
    "a denial behind each": lambda fact: item(f"{fact} - this is wrong"),
    "a denial in brackets": lambda fact: item(f"{fact} (no longer true)"),
    "a denial in a sentence of its own": lambda fact: item(f"{fact}. That is not so."),
    "struck out": lambda fact: item(f"~~{fact}~~"),
    "struck out by a tag": lambda fact: item(f"<del>{fact}</del>"),
    "where a link leads": lambda fact: item(f"see [it](<{fact}>)"),
    "the title of a link": lambda fact: item(f'see [it](x.md "{fact}")'),
    "the title of a definition": lambda fact: f'See [it].\n\n[it]: x.md "{fact}"\n',
    "an attribute": lambda fact: f'See <span title="{fact}">it</span>.\n',
    "an address": lambda fact: item(f"https://x.example/{fact.replace(' ', '/')}"),
}


@pytest.mark.parametrize("told", TELLING.values(), ids=TELLING)
def test_facts_that_are_given_away_denied_or_hidden_are_removed(told: Callable[[str], str]) -> None:
    after = {f"n{place}.md": told(fact) for place, fact in enumerate(ALL)}
    ending, reason = judged(NOTES, after).verdict([], DONE, MemorySettings())
    assert (ending, reason[:21]) == (Ending.REFUSED, "it would have removed")


@pytest.mark.parametrize("head", [HEAD, "# All of this is false\n\n", "**No longer true**\n\n"])
def test_facts_that_are_put_under_anothers_name_or_a_denial_are_removed(head: str) -> None:
    ending, reason = judged(NOTES, {"all.md": head + "".join(map(item, ALL))}).verdict([], DONE, MemorySettings())
    assert (ending, reason) == (Ending.REFUSED, f"it would have removed {len(ALL)} of {len(ALL)} facts")


def test_the_words_of_a_memory_in_any_order_do_not_hold_its_facts() -> None:
    words = " ".join(ALL).split()
    random.Random(1).shuffle(words)
    assert len(judged(NOTES, {"all.md": item(" ".join(words))}).removed) > len(ALL) / 2
    assert judged(NOTES, {"all.md": item(", ".join(ALL))}).removed == ()


def test_the_name_of_who_said_a_fact_may_be_put_before_it() -> None:
    said_by = {fact_hash(fact): {"Carl Lund"} for fact in ALL}
    after = {f"n{place}.md": item(f"Carl {lower(fact)}") for place, fact in enumerate(ALL)}
    assert judged(NOTES, after, said_by=said_by).removed == ()


def test_a_name_above_facts_is_their_topic_if_a_good_part_of_them_spoke_of_it() -> None:
    about = ["Works on the project Reverie", "Reverie runs on Python"]
    others = ["Deploys go out on Tuesdays", "Every change has a review"]
    before = {"a.md": "".join(map(item, about)), "b.md": "".join(map(item, others))}
    head = "# Reverie\n\n"
    assert judged(before, {"a.md": head + before["a.md"] + before["b.md"]}).removed == ()
    assert judged(before, before | {"b.md": head + before["b.md"]}).removed == tuple(others)


def test_a_memory_may_grow_a_little_in_one_run_and_not_without_bound() -> None:
    filler = "".join(item(f"Filler line number {number} of nothing at all") for number in range(2000))
    for added, ending in ((filler[: 8 * 1024], Ending.CHANGED), (filler, Ending.REFUSED)):
        found = judged(NOTES, NOTES | {"all.md": added})
        assert found.verdict([], DONE, MemorySettings())[0] is ending
        assert found.removed == ()
    log = {"logs/2026/05/2026-05-01.md": filler}
    assert judged(NOTES | log, NOTES | log | {"a.md": filler[: len(filler) // 3]}).verdict([], DONE, MemorySettings())[
        0
    ] is (Ending.CHANGED)


def test_the_notes_that_stay_stay_in_the_index() -> None:
    lines = [f"- [{name}]({name}) — what it holds\n" for name in NOTES]
    before = NOTES | {"MEMORY.md": "".join(lines)}
    reason = f"it would have left {len(NOTES)} of {len(NOTES)} notes out of the index"
    assert judged(before, NOTES | {"MEMORY.md": ""}).verdict([], DONE, MemorySettings()) == (Ending.REFUSED, reason)
    one = "- " + ", ".join(f"[{name}]({name})" for name in NOTES) + "\n"
    merged = {"all.md": "".join(NOTES.values()), "MEMORY.md": "- [all](all.md)\n"}
    for after in (NOTES | {"MEMORY.md": one}, NOTES | {"MEMORY.md": "".join(lines[2:])}, merged):
        assert judged(before, after).verdict([], DONE, MemorySettings()) == (Ending.CHANGED, "")


def test_an_index_may_be_cut_to_what_is_shown_of_it() -> None:
    notes = {f"n{number}.md": "" for number in range(400)}
    lines = [f"- [{name}]({name})\n" for name in notes]
    found = judged(notes | {"MEMORY.md": "".join(lines)}, notes | {"MEMORY.md": "".join(lines[:190])})
    assert found.verdict([], DONE, MemorySettings()) == (Ending.CHANGED, "")


def test_the_reason_names_one_file_as_one() -> None:
    assert judged(NOTES, NOTES).verdict([Path("/x")], DONE, MemorySettings())[1] == (
        "it wrote 1 of the files that are not its to write"
    )
