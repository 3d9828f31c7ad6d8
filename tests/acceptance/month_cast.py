"""Who lives through a simulated month, what they say and do when, and what memory must hold of it afterwards."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from itertools import count
from zoneinfo import ZoneInfo

LOG_ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia")
_CALM_ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Tokyo", "Pacific/Chatham")
_SOUNDS = ("bdfghklmnprstvz", "aeiou", "bdfgklmnprst", "aeiou", "bdfgklmnprst", "aeiou")
"""Words are told apart by their first letters, as memory tells them apart."""
_HOURS = (8, 9, 11, 13, 16, 19, 21)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How large the simulated time is."""

    seed: int = 7
    start: datetime = datetime(2026, 10, 3, tzinfo=UTC)
    days: int = 31
    principals: int = 30
    projects: int = 3
    turns_a_day: int = 200
    dream_sittings: int = 5
    forgets: int = 12
    bad_dreams: float = 0.25
    bad_extractions: float = 0.03
    bad_turns: float = 0.01
    step: timedelta = timedelta(minutes=10)
    downtimes: Sequence[tuple[timedelta, timedelta]] = (
        (timedelta(days=9, hours=21), timedelta(hours=5)),
        (timedelta(days=18, hours=4), timedelta(days=2)),
    )

    @property
    def end(self) -> datetime:
        """When it is over."""
        return self.start + timedelta(days=self.days)


@dataclass(kw_only=True)
class Member:
    """A principal: a person in their private chat, or a shared chat with those who write in it."""

    number: int
    shared: bool
    timezone: str
    log: bool
    project: str = ""
    switches: bool = False

    @property
    def chat(self) -> str:
        return str(-1000 - self.number) if self.shared else str(100 + self.number)

    @property
    def principal(self) -> str:
        return f"{'chat' if self.shared else 'person'}:telegram:{self.chat}"

    @property
    def speakers(self) -> Sequence[tuple[str, str]]:
        """Account and name of those who write here."""
        if not self.shared:
            return [(self.chat, "Solveig")]
        return [(str(5000 + 10 * self.number + n), name) for n, name in enumerate(("Ada", "Bo", "Cy"))]


@dataclass(kw_only=True)
class Fact:
    """One thing that somebody wanted kept, told apart from all others by its mark."""

    mark: str
    owner: Member
    told_at: datetime
    words: str
    speaker: str
    account: str
    log: bool = False
    """Whether it was told in log mode."""
    team: bool = False
    replaced: bool = False
    forgotten: bool = False
    answered: bool = False
    """Whether the turn that told it was committed."""
    removed: str = ""
    """Why it may be gone: a dream that was kept, or a deletion by hand."""
    note: str = ""
    """Where it is expected, relative to the memory directory; empty: not in a note yet."""

    @property
    def day(self) -> date:
        """The local date on which it was told."""
        return self.told_at.astimezone(ZoneInfo(self.owner.timezone)).date()

    @property
    def sentence(self) -> str:
        """What is said."""
        return f"Keep this: {self.mark} {self.words}."

    @property
    def line(self) -> str:
        """What is written in a note."""
        signed = f"{self.speaker}, {self.day}" if self.owner.shared else f"{self.day}"
        return f"- {self.mark} {self.words} ({signed})"

    @property
    def topic(self) -> str:
        """The note that it goes to first."""
        number = int(self.mark.rpartition("x")[2]) % 6
        return f"team/chat{self.owner.number}-{number % 3}.md" if self.team else f"topic-{number}.md"


@dataclass(frozen=True, kw_only=True, order=True)
class Event:
    """Something that people do at a moment."""

    at: datetime
    order: int
    kind: str = field(compare=False)
    who: Member = field(compare=False)


def cast(plan: Plan) -> list[Member]:
    """Return everybody: a third shared, a third in log mode, half of them bound to projects."""
    members = []
    for number in range(plan.principals):
        log = number % 3 == 1
        zones = LOG_ZONES if log else _CALM_ZONES
        zone = zones[(number // 3) % len(zones)]
        project = f"p{number // 2 % plan.projects}" if number < plan.principals * 0.6 else ""
        members.append(Member(number=number, shared=number % 2 == 0, timezone=zone, log=log, project=project))
    last = len(members) - 1
    members[last].switches = True
    next(each for each in reversed(members) if each.log and each.number != last).switches = True
    return members


def toml(plan: Plan, members: Sequence[Member]) -> str:
    """Return the settings of the gateway that they all talk to."""
    owners = ", ".join(f'"telegram:{each.speakers[0][0]}"' for each in members if each.switches)
    parts = [
        f'workers = 1\n[access]\nprivate = "open"\nshared = "open"\nowners = [{owners}]',
        f"[memory]\ndream_min_sittings = {plan.dream_sittings}\nteam_pull_minutes = 180\nteam_watch = false",
        "[scheduler]\nconcurrency = 1",
        "[model]\nretries = 0",
    ]
    for name in sorted({each.project for each in members} - {""}):
        bound = [each for each in members if each.project == name]
        chats = ", ".join(f'"telegram:{each.chat}"' for each in bound)
        private = ", ".join(f'"telegram:{each.chat}"' for each in bound if not each.shared)
        parts.append(f"[projects.{name}]\nchats = [{chats}]\nmembers = [{private}]")
    for each in members:
        mode = '\nmode = "log"' if each.log else ""
        parts.append(f'[chats."telegram:{each.chat}"]\ntimezone = "{each.timezone}"{mode}')
    return "\n\n".join(parts) + "\n"


def events(plan: Plan, members: Sequence[Member], rng: random.Random) -> list[Event]:
    """Return all that people do, in order of time; the same for the same seed."""
    numbers = count()
    found = [
        Event(at=at, order=next(numbers), kind="turn", who=who)
        for day in range(plan.days)
        for at, who in _day(plan, members, rng, day)
    ]
    for kind, times in (
        ("forget", plan.forgets),
        ("edit", plan.days),
        ("clash", 1 + plan.days // 3),
        ("drop", 1 + plan.days // 4),
    ):
        team = [each for each in members if each.project]
        for _ in range(times):
            at = plan.start + timedelta(minutes=rng.uniform(0.2, 0.97) * plan.days * 1440)
            found.append(
                Event(at=at, order=next(numbers), kind=kind, who=rng.choice(members if kind == "forget" else team))
            )
    for number, who in enumerate(each for each in members if each.switches):
        at = plan.start + timedelta(days=plan.days) * (0.3 + 0.27 * number)
        found.append(Event(at=at, order=next(numbers), kind="mode", who=who))
    return sorted(each for each in found if plan.start <= each.at < plan.end - timedelta(hours=1))


def _day(plan: Plan, members: Sequence[Member], rng: random.Random, day: int) -> Iterator[tuple[datetime, Member]]:
    """Yield the day's turns in sittings of one to four, at waking hours of those who speak."""
    left = plan.turns_a_day
    while left > 0:
        who = rng.choice(members)
        local = plan.start.date() + timedelta(days=day)
        clock = datetime.combine(local, time(rng.choice(_HOURS), rng.randrange(60)), tzinfo=ZoneInfo(who.timezone))
        for number in range(min(left, rng.randint(1, 4))):
            yield clock.astimezone(UTC) + timedelta(minutes=4 * number, seconds=rng.randrange(100)), who
            left -= 1


class Told:
    """All facts that were told, by their marks, and the words that new ones are made of."""

    def __init__(self, seed: int) -> None:
        self.facts: dict[str, Fact] = {}
        self._rng = random.Random(f"{seed} words")
        self._numbers = count()

    def new(self, owner: Member, account: str, speaker: str, now: datetime, *, team: bool, replaces: str = "") -> Fact:
        """Think up a fact of words that no other one has."""
        mark = f"z{'t' if team else 'q'}{owner.number}x{next(self._numbers)}"
        words = " ".join("".join(map(self._rng.choice, _SOUNDS)) for _ in range(5))
        fact = Fact(mark=mark, owner=owner, told_at=now, words=words, speaker=speaker, account=account, team=team)
        self.facts[mark] = fact
        if replaces:
            self.facts[replaces].replaced = True
        return fact

    def of(self, owner: Member, *, team: bool = False) -> list[Fact]:
        """Return what counts of somebody's facts: told, not forgotten and not removed."""
        return [
            each
            for each in self.facts.values()
            if each.owner is owner and each.team is team and each.answered and not each.forgotten and not each.removed
        ]
