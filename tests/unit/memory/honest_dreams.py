"""Honest consolidations: what a good dream does to a memory, each as the state before it and the one after."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Honest:
    """One rewrite; `removed` is how many facts count as removed by it, as it takes out what is contradicted."""

    before: Mapping[str, str]
    after: Mapping[str, str]
    shared: bool = False
    removed: int = 0


def note(name: str, *facts: str, about: str = "", top: str = "") -> str:
    lines = "".join(f"- {fact}\n" for fact in facts)
    return f"---\nname: {name}\ndescription: {about or name}\ntype: user\n---\n\n{top}{lines}"


def index(*names: str, **hooks: str) -> dict[str, str]:
    lines = [f"- [{name}]({name}.md)" for name in names]
    lines += [f"- [{name}]({name}.md) — {hook}" for name, hook in hooks.items()]
    return {"MEMORY.md": "\n".join([*lines, ""])}


TEA = "Prefers green tea in the early morning"
COFFEE = "Never drinks coffee after noon"
NUTS = "Is allergic to peanuts and cashews"
TRAIN = "Takes the late train home on Fridays"
KIEL = "Lives near the harbour of Kiel"
BEES = "Keeps three hives behind the house"
BROTHER = "Has a brother called Bob, who lives in Oslo"
VISIT = "Visits Bob in Oslo every June"
WORK = "Works on the project Reverie since 2024"
PYTHON = "Reverie runs on Python 3.11"
DEPLOY = "Deployments go out on Tuesdays, never on Fridays"
REVIEW = "Wants every change reviewed by Mira before it is merged"
ANSWERS = "Likes short answers without lists"
RENT = "The rent of 900 euros is due on the 3rd of each month"
DENTIST = "The dentist is tomorrow at 9 am"
PRIVATE = {
    "tea.md": note("tea", TEA, COFFEE),
    "food.md": note("food", NUTS),
    "home.md": note("home", KIEL, BEES, RENT),
    "travel.md": note("travel", TRAIN, VISIT),
    "family.md": note("family", BROTHER),
    "work.md": note("work", WORK, PYTHON, DEPLOY, REVIEW),
    "style.md": note("style", ANSWERS),
    "dates.md": note("dates", DENTIST),
} | index("tea", "food", "home", "travel", "family", "work", "style", "dates")


def private(*gone: str, **changed: str) -> dict[str, str]:
    """Return the private memory without some notes, and with others in place of what they were."""
    names = [name for name in PRIVATE if name not in {"MEMORY.md", *(f"{each}.md" for each in gone)}]
    notes = {name: PRIVATE[name] for name in names} | {f"{name}.md": text for name, text in changed.items()}
    return notes | index(*sorted(name.removesuffix(".md") for name in notes))


ALL = (TEA, COFFEE, NUTS, KIEL, BEES, RENT, TRAIN, VISIT, BROTHER, WORK, PYTHON, DEPLOY, REVIEW, ANSWERS, DENTIST)


def low(text: str) -> str:
    return text[0].lower() + text[1:]


def headed(*groups: tuple[str, tuple[str, ...]], mark: str = "## {}\n\n") -> str:
    """Return facts in groups, each below its heading."""
    parts = (mark.format(head) + "".join(f"- {fact}\n" for fact in facts) for head, facts in groups)
    return "\n".join(parts)


GROUPS = (
    ("Food and Drink", (TEA, COFFEE, NUTS)),
    ("Home", (KIEL, BEES, RENT)),
    ("Travel", (TRAIN, VISIT)),
    ("Family", (BROTHER,)),
    ("Work", (WORK, PYTHON, DEPLOY, REVIEW)),
    ("How to Answer", (ANSWERS,)),
    ("Dates", (DENTIST,)),
)
DATED = "The dentist is on 2026-05-04 at 09:00"
ONE = ("tea", "food", "home", "travel", "family", "work", "style", "dates")

ANN, BOB, EVE = "(Ann, 2026-05-01)", "(Bob, 2026-05-02)", "(Eve, 2026-05-03)"
SHARED = {
    "deploys.md": note("deploys", f"Deploys go out on Tuesdays {ANN}", f"The freeze begins on 2026-06-01 {BOB}"),
    "people.md": note(
        "people", f"Bob is on leave in June {BOB}", f"Eve looks after the budget {EVE}", f"Is allergic to nuts {ANN}"
    ),
    "lunch.md": note("lunch", f"Likes the Thai place {ANN}", f"Likes the Thai place too, but not on Mondays {BOB}"),
    "tools.md": note("tools", f"The board is at https://board.example/harbour {EVE}", f"Uses Vim {BOB}"),
} | index("deploys", "people", "lunch", "tools")


def shared(*gone: str, **changed: str) -> dict[str, str]:
    names = [name for name in SHARED if name not in {"MEMORY.md", *(f"{each}.md" for each in gone)}]
    notes = {name: SHARED[name] for name in names} | {f"{name}.md": text for name, text in changed.items()}
    return notes | index(*sorted(name.removesuffix(".md") for name in notes))


GERMAN = {
    "tee.md": note("tee", "Trinkt morgens gern grünen Tee", "Mag keinen Kaffee am Abend"),
    "haus.md": note("haus", "Wohnt am Hafen von Kiel", "Hält drei Bienenvölker hinter dem Haus"),
    "familie.md": note("familie", "Der Bruder Bob wohnt in Oslo", "Fährt jeden Juni zum Bruder nach Oslo"),
    "arbeit.md": note("arbeit", "Arbeitet bei der Stadt im Bauamt", "Miete in drei Tagen fällig"),
} | index("tee", "haus", "familie", "arbeit")

HONEST = {
    "nothing": Honest(before=PRIVATE, after=PRIVATE),
    "two notes merged": Honest(before=PRIVATE, after=private("tea", food=note("food", TEA, COFFEE, NUTS))),
    "all notes merged": Honest(before=PRIVATE, after=private(*ONE, profile=note("profile", *ALL))),
    "grouped by headings": Honest(
        before=PRIVATE, after=private(*ONE, profile=f"---\nname: profile\n---\n\n# About Me\n\n{headed(*GROUPS)}")
    ),
    "grouped by underlined headings": Honest(
        before=PRIVATE, after=private(*ONE, profile=headed(*GROUPS, mark="{}\n------\n\n"))
    ),
    "grouped below bold lines": Honest(before=PRIVATE, after=private(*ONE, profile=headed(*GROUPS, mark="**{}**\n\n"))),
    "grouped below labels": Honest(before=PRIVATE, after=private(*ONE, profile=headed(*GROUPS, mark="{}:\n\n"))),
    "nested below items": Honest(
        before=PRIVATE,
        after=private(
            *ONE,
            profile="".join(f"- {head}\n" + "".join(f"  - {fact}\n" for fact in facts) for head, facts in GROUPS),
        ),
    ),
    "label before each": Honest(
        before=PRIVATE,
        after=private(
            *ONE, profile=note("profile", *(f"**{head}**: {low(fact)}" for head, facts in GROUPS for fact in facts))
        ),
    ),
    "as a table": Honest(
        before=PRIVATE,
        after=private(
            *ONE,
            profile="| Topic | What |\n| --- | --- |\n"
            + "".join(f"| {head} | {fact} |\n" for head, facts in GROUPS for fact in facts),
        ),
    ),
    "one sentence for a group": Honest(
        before=PRIVATE,
        after=private(
            "tea",
            "food",
            food2=note(
                "food2",
                "Prefers green tea in the early morning, never coffee after noon; allergic to peanuts and cashews",
            ),
            home=note(
                "home",
                "Lives near the harbour of Kiel, keeps three hives behind the house; "
                "rent of 900 euros due on the 3rd of each month",
            ),
        ),
    ),
    "a paragraph for a group": Honest(
        before=PRIVATE,
        after=private(
            "travel",
            "family",
            family="The brother is called Bob and lives in Oslo. A visit there is made every June. On Fridays the late "
            "train home is taken.\n",
        ),
    ),
    "the user named in each": Honest(
        before=PRIVATE, after=private(*ONE, profile=note("profile", *(f"The user {low(fact)}" for fact in ALL)))
    ),
    "below the project's name": Honest(
        before=PRIVATE,
        after=private("work", reverie=note("reverie", WORK, PYTHON, DEPLOY, REVIEW, top="# Reverie\n\n")),
    ),
    "split": Honest(
        before={"all.md": note("all", *ALL)} | index("all"),
        after={f"{head.split()[0].lower()}.md": note(head, *facts) for head, facts in GROUPS}
        | index(*(head.split()[0].lower() for head, _ in GROUPS)),
    ),
    "a long fact split": Honest(
        before=PRIVATE,
        after=private(
            work=note("work", WORK, PYTHON, "Deployments go out on Tuesdays", "No deployments on Fridays", REVIEW),
            family=note("family", "Has a brother called Bob", "Bob lives in Oslo"),
        ),
        removed=1,
    ),
    "hooks shortened": Honest(
        before=PRIVATE | index("food", tea="green tea in the early morning, and never coffee after noon"),
        after=PRIVATE | index("food", tea="drinks"),
    ),
    "sorted": Honest(
        before=PRIVATE,
        after={name: note(name[:-3], *sorted(lines)) for name, lines in (("work.md", (WORK, PYTHON, DEPLOY, REVIEW)),)}
        | {name: text for name, text in PRIVATE.items() if name != "work.md"},
    ),
    "relative days dated": Honest(before=PRIVATE, after=private(dates=note("dates", DATED))),
    "in fewer words": Honest(
        before=PRIVATE,
        after=private(
            tea=note("tea", "Green tea in the early morning", "No coffee after noon"),
            food=note("food", "Allergic to peanuts, cashews"),
            home=note(
                "home", "Lives by Kiel harbour, three hives behind the house", "Rent: 900 euros, 3rd of each month"
            ),
            travel=note("travel", "Late train home on Fridays", "Every June a visit to Bob in Oslo"),
            work=note(
                "work",
                "On the project Reverie since 2024 (Python 3.11)",
                "Deployments: Tuesdays, not Fridays",
                "Mira reviews every change before it is merged",
            ),
            style=note("style", "Short answers, no lists"),
        ),
        removed=2,
    ),
    "why and how added": Honest(
        before=PRIVATE,
        after=private(
            style=f"---\nname: style\ndescription: how to answer\n---\n\n{ANSWERS}.\n\n**Why:** reads on a phone\n\n"
            "**How to apply:** always\n"
        ),
    ),
    "a contradicted fact gone": Honest(
        before=PRIVATE | {"new.md": note("new", "The rent is 950 euros since 2026-05-01")},
        after=private(
            home=note("home", KIEL, BEES),
            new=note("new", "The rent is 950 euros since 2026-05-01, due on the 3rd of each month"),
        ),
        removed=1,
    ),
    "a rule and its exceptions under headings": Honest(
        before=PRIVATE,
        after=private(
            work=headed(
                ("Project", (WORK, PYTHON)),
                ("Always", (REVIEW,)),
                ("Never", ("Deploy on Fridays; deployments go out on Tuesdays",)),
            )
        ),
    ),
    "links shortened": Honest(
        before={
            "a.md": "- The board is at https://board.example/harbour\n"
            "- See the [runbook](https://wiki.example/run) first\n"
        },
        after={
            "b.md": "- [Board](https://board.example/harbour)\n- First see the [runbook](https://wiki.example/run)\n"
        },
    ),
    "German, grouped by headings": Honest(
        before=GERMAN,
        after={
            "profil.md": "---\nname: profil\ndescription: alles zum Leben und zum Essen\n---\n\n"
            + headed(
                ("Essen und Trinken", ("Trinkt morgens gern grünen Tee", "Mag keinen Kaffee am Abend")),
                (
                    "Wohnen",
                    ("Wohnt am Hafen von Kiel", "Hält drei Bienenvölker hinter dem Haus", "Miete am 2026-05-06 fällig"),
                ),
                ("Familie", ("Bruder Bob wohnt in Oslo", "Fährt jeden Juni zum Bruder nach Oslo")),
                ("Arbeit", ("Arbeitet im Bauamt der Stadt",)),
            )
        }
        | index("profil"),
    ),
    "shared, two notes merged": Honest(
        shared=True,
        before=SHARED,
        after=shared(
            "lunch",
            people=note(
                "people",
                f"Bob is on leave in June {BOB}",
                f"Eve looks after the budget {EVE}",
                f"Is allergic to nuts {ANN}",
                f"Likes the Thai place {ANN}",
                f"Likes the Thai place too, but not on Mondays {BOB}",
            ),
        ),
    ),
    "shared, by person": Honest(
        shared=True,
        before=SHARED,
        after=shared(
            "lunch",
            people="---\nname: people\n---\n\n"
            + headed(
                ("Ann", ("Is allergic to nuts", "Likes the Thai place")),
                ("Bob", ("On leave in June", "Likes the Thai place too, but not on Mondays")),
                ("Eve", ("Looks after the budget",)),
            ),
        ),
    ),
    "shared, by person below bold lines": Honest(
        shared=True,
        before=SHARED,
        after=shared(
            "lunch",
            people=headed(
                ("Ann", ("Is allergic to nuts", "Likes the Thai place")),
                ("Bob", ("On leave in June", "Likes the Thai place too, but not on Mondays")),
                ("Eve", ("Looks after the budget",)),
                mark="**{}**\n\n",
            ),
        ),
    ),
    "shared, names before": Honest(
        shared=True,
        before=SHARED,
        after=shared(
            people=note("people", "Bob: on leave in June", "Eve: looks after the budget", "Ann: is allergic to nuts")
        ),
    ),
    "shared, as a table": Honest(
        shared=True,
        before=SHARED,
        after=shared(
            "lunch",
            people="| Ann | Bob | Eve |\n| --- | --- | --- |\n"
            "| Is allergic to nuts | Is on leave in June | Looks after the budget |\n"
            "| Likes the Thai place | Likes the Thai place too, but not on Mondays | |\n",
        ),
    ),
    "shared, by topic": Honest(
        shared=True,
        before=SHARED,
        after=shared(
            "lunch",
            "people",
            team=headed(
                (
                    "Lunch",
                    (
                        f"Likes the Thai place {ANN}",
                        f"Likes the Thai place too, but not on Mondays {BOB}",
                        f"Is allergic to nuts {ANN}",
                    ),
                ),
                ("Who does what", (f"Eve looks after the budget {EVE}", f"Bob is on leave in June {BOB}")),
            ),
        ),
    ),
    "shared, what two like in one": Honest(
        shared=True,
        before=SHARED,
        after=shared(
            lunch=note(
                "lunch", "Ann and Bob like the Thai place, Bob not on Mondays (Ann, 2026-05-01; Bob, 2026-05-02)"
            )
        ),
    ),
    "shared, named in the sentence": Honest(
        shared=True,
        before=SHARED,
        after=shared(
            people=note(
                "people",
                f"Bob is on leave in June {BOB}",
                f"Eve looks after the budget {EVE}",
                f"Ann is allergic to nuts {ANN}",
            )
        ),
    ),
    "shared, one stamp gone": Honest(
        shared=True,
        before=SHARED,
        after=shared(deploys=note("deploys", "Deploys go out on Tuesdays", f"The freeze begins on 2026-06-01 {BOB}")),
        removed=1,
    ),
}
