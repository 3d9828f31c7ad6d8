import asyncio
import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

import httpx
import pytest

from adapters.serving import serving
from gateway.core import open_core
from gateway.errors import StartRefused
from gateway.llm.standin.answers import Answer, Failure
from gateway.llm.standin.server import ModelStandin
from gateway.metrics import COUNTED
from gateway.settings import Settings
from memory.lease_names import exchanging
from scheduler.jobs import Firing, JobContext
from scheduler.runs import Outcome
from tests.acceptance.whole import ANN, Clock, Speaker, Whole, calls, is_fork, note, until, whole

IN_G = Speaker(user="42", chat="-100")
IN_H = Speaker(user="43", chat="-200", name="Bob")
PROJECT = '[projects.garden]\nrepo = "demo/garden"\nchats = ["telegram:-100", "telegram:-200"]\n'
TOKEN = "a-token-that-was-given-out"
GRANT = f'[memory.team_grants.north]\ntoken = "{TOKEN}"\nrepos = ["demo/garden"]\n'
LOG = '[memory]\nmemory_mode = "log"\n'
NOTHING = "Nothing new to keep."
OWNED = {"REVERIE_ACCESS__OWNERS": "telegram:42"}


def elsewhere(url: str, token: str = TOKEN) -> str:
    return f'[memory]\nteam_server_url = "{url}"\nteam_token = "{token}"\n'


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def logging(tmp_path: Path, clock: Clock) -> AsyncIterator[Whole]:
    """A gateway in log mode at noon, so that a test never runs into midnight."""
    clock.ahead = datetime.combine(datetime.now(UTC).date(), time(12), tzinfo=UTC) - datetime.now(UTC)
    async with whole(tmp_path / "home", LOG, clock=clock) as running:
        yield running


async def run(running: Whole, job: str) -> list[tuple[Outcome | None, str]]:
    return [(each.outcome, each.detail) for each in await running.core.night.clock.run_now(job)]


async def team_note(running: Whole, who: Speaker, name: str) -> Path:
    team = (await running.scope(who)).team_dir
    assert team is not None
    return team / name


async def test_two_chats_of_a_project_share_its_memory_within_one_gateway(tmp_path: Path) -> None:
    async with whole(tmp_path / "home", PROJECT) as running:
        for who in (IN_G, IN_H):
            await running.tell(who, "Hello there")
        await running.remember(IN_G, "tomatoes in bed 3", name="beds", team=True)
        for _ in range(2):
            assert {outcome for outcome, _ in await run(running, "team-sync")} == {Outcome.DONE}
        assert "bed 3" in (await team_note(running, IN_H, "beds.md")).read_text()
        assert "beds.md" in (await team_note(running, IN_H, "MEMORY.md")).read_text()


async def test_a_token_for_another_server_does_not_lock_a_gateway_out_of_its_own_store(tmp_path: Path) -> None:
    async with whole(tmp_path / "home", PROJECT + f'[memory]\nteam_token = "{TOKEN}"\n') as running:
        await running.tell(IN_G, "Hello there")
        assert {outcome for outcome, _ in await run(running, "team-sync")} == {Outcome.DONE}


async def test_a_session_begins_with_what_others_have_shared_by_then(tmp_path: Path) -> None:
    async with whole(tmp_path / "home", PROJECT) as running:
        for who in (IN_G, IN_H):
            await running.tell(who, "Hello there")
        await running.remember(IN_G, "tomatoes in bed 3", name="beds", team=True)
        await running.core.night.sync.sync(await running.scope(IN_G))
        assert not (await team_note(running, IN_H, "beds.md")).exists()
        await running.tell(IN_H, "/new")
        await running.tell(IN_H, "Hello again")
        assert "beds.md" in str(running.chats[-1].body["system"])


async def test_two_gateways_share_a_projects_memory_over_http(tmp_path: Path) -> None:
    async with (
        whole(tmp_path / "south", PROJECT + GRANT) as south,
        whole(tmp_path / "north", PROJECT + elsewhere(south.url)) as north,
    ):
        for running, who in ((south, IN_G), (north, IN_H)):
            await running.tell(who, "Hello there")
        await south.remember(IN_G, "tomatoes in bed 3", name="beds", team=True)
        await north.remember(IN_H, "the key hangs by the door", name="shed", team=True)
        for running in (south, north, south, north):
            assert {outcome for outcome, _ in await run(running, "team-sync")} == {Outcome.DONE}
        assert "bed 3" in (await team_note(north, IN_H, "beds.md")).read_text()
        assert "by the door" in (await team_note(south, IN_G, "shed.md")).read_text()


@pytest.mark.parametrize(
    ("token", "grants"),
    [("some-other-token-entirely", GRANT), (TOKEN, GRANT.replace("demo/garden", "demo/other")), (TOKEN, "")],
    ids=["unknown", "other-repo", "none-given"],
)
async def test_without_a_grant_nothing_is_shared_and_the_job_says_so(tmp_path: Path, token: str, grants: str) -> None:
    async with (
        whole(tmp_path / "south", PROJECT + grants) as south,
        whole(tmp_path / "north", PROJECT + elsewhere(south.url, token)) as north,
    ):
        await south.tell(IN_G, "Hello there")
        await south.remember(IN_G, "tomatoes in bed 3", name="beds", team=True)
        await run(south, "team-sync")
        await north.tell(IN_H, "Hello there")
        ((outcome, detail),) = await run(north, "team-sync")
        assert outcome is Outcome.FAILED
        assert "40" in detail
        assert token not in detail
        assert not (await team_note(north, IN_H, "beds.md")).exists()


async def test_a_closed_day_has_each_message_once_in_the_runs_words_or_its_own(logging: Whole, clock: Clock) -> None:
    day = clock().date()
    log = (await logging.scope(ANN)).memory_dir / f"logs/{day:%Y/%m/%Y-%m-%d}.md"
    logging.then_fork(calls(("append", {"file_path": str(log), "content": "- 12:00 prefers tea"})), "Done.")
    await logging.tell(ANN, "I prefer tea, if you ask me.")
    await logging.settled()
    logging.then_fork(*[Failure(status=500)] * 5)
    answer = await logging.tell(ANN, "The second thing is the train.")
    await logging.settled()
    clock.forward(hours=24)
    assert [detail for _, detail in await run(logging, "close-day")] == [f"2 messages added to the log of {day}"]
    text = log.read_text()
    assert "if you ask me" not in text
    assert text.count("- 12:00 prefers tea\n") == text.count("The second thing is the train.") == 1
    assert "Reverie: " + " ".join(answer.split())[:40] in text
    assert [detail for _, detail in await run(logging, "close-day")] == [f"0 messages added to the log of {day}"]


async def test_the_night_distils_closed_days_and_keeps_them_read_only(logging: Whole, clock: Clock) -> None:
    scope = await logging.scope(ANN)
    log = scope.memory_dir / f"logs/{clock():%Y/%m/%Y-%m-%d}.md"
    await logging.tell(ANN, "I prefer answers in metric units.")
    await logging.settled()
    before = log.read_text()
    clock.forward(hours=24)
    await run(logging, "close-day")
    logging.model.script("Nothing was worth keeping.")
    assert await run(logging, "distil") == [(Outcome.FAILED, "it opened none of the day logs, so they wait")]
    clock.forward(hours=1)
    assert await run(logging, "distil") == [(Outcome.DONE, "unchanged")]
    assert log.stat().st_mode & 0o777 == 0o400
    assert log.read_text() == before
    logging.then(calls(("append", {"file_path": str(log), "content": "- later"})), "I could not.")
    await logging.tell(ANN, "Add that to the log of yesterday.")
    assert "read-only" in str(logging.chats[-1].body["messages"][-1])
    assert log.read_text() == before


async def test_a_dream_by_hand_puts_the_index_in_order_and_fails_with_its_reason(tmp_path: Path) -> None:
    async with whole(tmp_path / "home") as running:
        await running.tell(ANN, "Hello there")
        await running.settled()
        memory = (await running.scope(ANN)).memory_dir
        (memory / "nuts.md").write_text(note("Ann must not eat peanuts"))
        running.model.script(Failure(status=400))
        ((outcome, detail),) = await run(running, "dream")
        assert (outcome, "the model refuses" in detail) == (Outcome.FAILED, True)
        assert not (memory / "MEMORY.md").exists()
        ((outcome, _),) = await run(running, "dream")
        assert outcome is Outcome.DONE
        assert "nuts.md" in (memory / "MEMORY.md").read_text()


async def test_a_dream_that_keeps_failing_is_tried_three_times_a_day_and_its_failure_can_be_seen(
    tmp_path: Path, clock: Clock
) -> None:
    clock.ahead = datetime.combine(datetime.now(UTC).date(), time(1), tzinfo=UTC) - datetime.now(UTC)
    toml = "[memory]\ndream_min_sittings = 1\n[scheduler]\nstart_delay = 3600\n"  # nobody else fires
    async with whole(tmp_path / "home", toml, clock=clock) as running:
        await running.tell(ANN, "Hello there")
        await running.settled()
        await running.remember(ANN, "Ann drinks tea", name="tea")
        asked = len(running.model.requests)
        for _ in range(6 * 12):
            running.model.script(Failure(status=400))
            await running.core.night.clock.fire("dream")
            clock.ahead += timedelta(minutes=10)
        [record] = await running.core.night.runs.recent("dream")
        assert (record.outcome, "the model refuses" in record.detail) == (Outcome.FAILED, True)
        assert len(running.model.requests) - asked == 3


async def test_an_empty_memory_leaves_no_row_at_any_tick(tmp_path: Path, clock: Clock) -> None:
    async with whole(tmp_path / "home", "[memory]\ndream_min_sittings = 0\n", clock=clock) as running:
        await running.scope(ANN)
        await running.tell(ANN, "Hi")
        await running.core.night.clock.fire("dream")
        assert await running.core.night.runs.recent("dream") == []


async def test_the_owner_hears_of_a_dream_that_another_process_has_dreamed(tmp_path: Path) -> None:
    async with whole(tmp_path / "home") as running:
        await running.tell(ANN, "Hello there")
        await running.settled()
        memory = (await running.scope(ANN)).memory_dir
        (memory / "nuts.md").write_text(note("Ann must not eat peanuts"))
        async with (
            serving(running.model.app) as url,
            open_core(running.core.settings, adapters={}, model_url=url, environ={}) as shell,
        ):
            await shell.night.clock.run_now("dream")

        async def told() -> bool:
            return any("Improved" in text for text in running.adapter.texts)

        await until(told, "nobody was told")


async def test_a_dream_that_is_cut_off_leaves_the_memory_as_it_was(tmp_path: Path) -> None:
    async with whole(tmp_path / "home") as running:
        await running.tell(ANN, "Hello there")
        await running.settled()
        tea = await running.remember(ANN, "Ann drinks tea", name="tea")
        before = {path.name: path.read_text() for path in tea.parent.glob("*.md")}
        edit = ("edit", {"file_path": str(tea), "old_string": "drinks tea", "new_string": "drinks coffee"})
        running.model.script(calls(edit, ("write", {"file_path": "new.md", "content": note("made up")})))
        running.model.script(Answer(text="Done.", delay=30))
        dreaming = asyncio.create_task(running.core.night.clock.run_now("dream"))

        async def written() -> bool:
            return (tea.parent / "new.md").exists()

        await until(written, "the dream wrote nothing")
        dreaming.cancel()
        await asyncio.wait({dreaming})
        assert {path.name: path.read_text() for path in tea.parent.glob("*.md")} == before


async def test_a_silent_conversation_is_ended_and_what_was_held_back_is_extracted(tmp_path: Path, clock: Clock) -> None:
    async with whole(tmp_path / "home", "[memory]\nextraction_throttle = 5\n", clock=clock) as running:
        await running.tell(ANN, "I prefer answers in metric units.")
        await running.settled()
        assert running.forks == []
        clock.ahead += timedelta(hours=9)
        assert await run(running, "end-sessions") == [(Outcome.DONE, "1 silent conversation ended")]
        await running.settled()
        assert len(running.forks) > 0


async def test_with_memory_off_no_scope_is_visited_though_it_is_known(tmp_path: Path) -> None:
    async with whole(tmp_path / "home", PROJECT) as running:
        await running.tell(IN_G, "Hello there")
    async with whole(tmp_path / "home", PROJECT, bare_mode=True) as running:
        await asyncio.sleep(0)
        assert await running.core.scopes.active() == []
        assert len(await running.core.scopes.known()) == 1


@pytest.mark.parametrize(
    "grants",
    [
        {"north": {"token": "short", "repos": ["a/b"]}},
        {"north": {"token": TOKEN, "repos": []}},
        {"north": {"token": TOKEN, "repos": ["a/b"]}, "south": {"token": TOKEN, "repos": ["a/c"]}},
    ],
    ids=["short", "no-repo", "same-token"],
)
def test_a_grant_that_is_no_use_is_refused_without_its_token(
    settings_of: Callable[..., Settings], grants: dict[str, object]
) -> None:
    with pytest.raises(StartRefused, match="team_grants") as raised:
        settings_of(REVERIE_MEMORY__TEAM_GRANTS=json.dumps(grants))
    assert TOKEN not in str(raised.value)


async def test_a_move_to_another_zone_leaves_each_message_in_one_log(tmp_path: Path, clock: Clock) -> None:
    noon = datetime.combine(datetime.now(UTC).date(), time(12), tzinfo=UTC)
    clock.ahead = noon - datetime.now(UTC)
    model, logs = ModelStandin(), []
    for _ in range(60):
        model.script(Failure(status=500), when=is_fork)  # what extraction does not log is for the close to log
    for zone, words, hours in (
        ("Asia/Tokyo", ["In the evening of Tokyo."], 4),
        ("Asia/Tokyo", ["After midnight in Tokyo."], 0),
        ("America/New_York", ["In the morning of New York."], 16),
        ("America/New_York", [], 24),
        ("America/New_York", [], 0),
    ):
        moved = LOG + f'[chats."telegram:42"]\ntimezone = "{zone}"\n'
        async with whole(tmp_path / "home", moved, clock=clock, model=model) as running:
            await running.core.night.clock.fire("close-day")
            for each in words:
                await running.tell(ANN, each)
            logs = sorted((await running.scope(ANN)).memory_dir.glob("logs/*/*/*.md"))
        clock.forward(hours=hours)
    found = {log.name: log.read_text() for log in logs}
    assert list(found) == [f"{noon:%Y-%m-%d}.md", f"{noon + timedelta(days=1):%Y-%m-%d}.md"]
    today, tomorrow = found.values()
    assert ("evening of Tokyo" in today, "midnight in Tokyo" in today) == (True, False)
    assert [tomorrow.count(words) for words in ("evening of Tokyo", "midnight in Tokyo", "morning of New York")] == [
        0,
        1,
        1,
    ]


async def test_the_night_of_a_gateway_can_be_asked_without_being_changed(tmp_path: Path, clock: Clock) -> None:
    async with whole(tmp_path / "home", clock=clock) as running:
        await running.tell(ANN, "Hello there")
        await running.settled()
        await running.remember(ANN, "Ann drinks tea", name="tea")
        before, asked = await running.core.night.runs.recent("dream"), len(running.model.requests)
        for _ in range(2):
            (looked,) = await running.core.night.clock.dry_run("dream")
            assert (looked.gate, looked.by_hand) == ("too few sittings", True)
        assert (await running.core.night.runs.recent("dream"), len(running.model.requests)) == (before, asked)


async def test_a_dry_run_of_a_chore_that_deletes_says_how_much_it_would(tmp_path: Path) -> None:
    async with whole(tmp_path / "home", "[scheduler]\nstart_delay = 3600\n") as running:
        clock = running.core.night.clock
        names = ("forget-logs", "forget-runs", "leave-teams", "end-sessions", "recover-dreams", "clear-away")
        assert {name: [each.does for each in await clock.dry_run(name)] for name in names} == {
            "forget-logs": ["delete no day log, as log_keep_days is not set"],
            "forget-runs": ["forget 0 old runs"],
            "leave-teams": ["remove 0 copies"],
            "end-sessions": ["end 0 silent conversations"],
            "clear-away": ["delete 0 files"],
            "recover-dreams": ["see to 0 dreams without an end, but not to one that still runs"],
        }


async def would(running: Whole, job: str, who: Speaker) -> str:
    """Return what a dry run says of a job that works for the gateway as a whole, or for this scope among others."""
    looked = await running.core.night.clock.dry_run(job)
    return next(each.does for each in looked if each.scope.startswith(who.principal) or not each.scope)


async def test_a_dry_run_of_a_dream_names_its_notes_and_how_its_gates_stand(tmp_path: Path, clock: Clock) -> None:
    async with whole(tmp_path / "home", clock=clock) as running:
        await running.tell(ANN, "Hello there")
        await running.settled()
        assert await would(running, "dream", ANN) == "not be begun: no notes yet"
        await running.remember(ANN, "Ann drinks tea", name="tea")
        before = dict(running.core.night.dreams.dream._scans.last)
        assert await would(running, "dream", ANN) == (
            "put 1 note in order; gate of time open (needs 24 h; there was none before), "
            "gate of sittings closed (0 of 5)"
        )
        assert await would(running, "end-sessions", ANN) == "end 0 silent conversations"
        clock.forward(hours=9)
        assert await would(running, "end-sessions", ANN) == "end 1 silent conversation"
        assert "closed (1 of 5)" in await would(running, "dream", ANN)
        assert running.core.night.dreams.dream._scans.last == before


async def test_a_dry_run_in_log_mode_names_the_days_and_what_is_missing(logging: Whole, clock: Clock) -> None:
    day = clock().date()
    logging.then_fork(*[Failure(status=500)] * 5)
    await logging.tell(ANN, "The second thing is the train.")
    await logging.settled()
    clock.forward(hours=24)
    assert await would(logging, "distil", ANN) == "find no day log that waits"
    assert await would(logging, "close-day", ANN) == f"close {day}: add 2 messages to its log"
    await logging.core.night.clock.fire("close-day")
    assert await would(logging, "distil", ANN) == f"sort 1 day log into notes: {day}"
    assert await would(logging, "close-day", ANN) == f"close {day}: add 0 messages to its log"


async def test_a_dry_run_of_a_teams_jobs_counts_what_differs_and_asks_no_server(tmp_path: Path) -> None:
    async with whole(tmp_path / "home", PROJECT, environ=OWNED) as running:
        await running.tell(IN_G, "Hello there")
        beds = await running.remember(IN_G, "tomatoes in bed 3", name="beds", team=True)
        rest = "what there is to pull only the server could tell"
        assert await would(running, "team-sync", IN_G) == f"push 2 changed files; {rest}"
        await run(running, "team-sync")
        assert await would(running, "team-sync", IN_G) == f"push 0 changed files; {rest}"
        beds.with_name("roses.md").write_text(note("roses in bed 9"))
        beds.unlink()
        assert await would(running, "team-sync", IN_G) == f"push 1 changed file and tell of 1 deletion; {rest}"
        [looked] = await running.core.night.clock.dry_run("tidy-team")
        assert looked.does == "look how garden could be put in order: 2 files, 0 conflict copies"


async def test_every_job_has_a_dry_run_that_says_what_it_would_do(tmp_path: Path) -> None:
    async with whole(tmp_path / "home") as running:
        assert [job.id for job in running.core.night.clock.jobs if job.would is None] == []


@pytest.mark.parametrize("job", ["dream", "distil"])
async def test_a_memory_that_another_process_rewrites_is_no_failure_and_has_its_turn_at_the_next_tick(
    tmp_path: Path, clock: Clock, job: str
) -> None:
    clock.ahead = datetime.combine(datetime.now(UTC).date(), time(12), tzinfo=UTC) - datetime.now(UTC)
    toml = LOG if job == "distil" else "[memory]\ndream_min_sittings = 1\n"
    async with whole(tmp_path / "home", toml, clock=clock) as running:
        await running.tell(ANN, "I prefer answers in metric units.")
        await running.settled()
        memory = (await running.remember(ANN, "Ann drinks tea", name="tea")).parent
        clock.forward(hours=25)
        night = running.core.night.clock
        await night.fire("close-day")
        async with running.core.leases.hold(f"dream:{memory}", seconds=3600, wait=0):
            [ran] = await night.fire(job)
        assert ran.outcome is Outcome.BUSY
        assert ran.detail.endswith("another consolidation holds this memory")
        clock.forward(minutes=11)
        [ran] = await night.fire(job)
        assert ran.outcome is Outcome.DONE


async def test_the_exchange_and_the_tidying_of_a_team_give_way_to_another_process(tmp_path: Path) -> None:
    settings = PROJECT + "[memory]\nlease_wait = 0.1\n"
    async with whole(tmp_path / "home", settings, environ=OWNED) as running:
        await running.tell(IN_G, "Hello there")
        await running.remember(IN_G, "tomatoes in bed 3", name="beds", team=True)
        scope, leases = await running.scope(IN_G), running.core.leases
        for job, name in (("team-sync", exchanging(scope)), ("tidy-team", "tidy:garden")):
            async with leases.hold(name, seconds=3600, wait=0):
                assert await run(running, job) == [(Outcome.BUSY, "another process is at it")]


async def test_a_dream_is_never_called_late_as_it_has_no_hour(tmp_path: Path) -> None:
    async with whole(tmp_path / "home") as running:
        for name in ("dream", "tidy-team"):
            assert running.core.night.clock.job(name).grace == timedelta(days=1)


@pytest.mark.parametrize("job", ["team-sync", "close-day", "recover-dreams"])
async def test_work_that_may_take_long_tells_how_far_it_is(tmp_path: Path, job: str) -> None:
    told: list[str] = []
    async with whole(tmp_path / "home", PROJECT + LOG) as running:
        await running.tell(IN_G, "Hello there")
        await running.settled()
        work = running.core.night.clock.job(job)
        firing = Firing(now=running.core.clock(), by_hand=True)
        due = next(due for due in await work.candidates(firing) if not due.gate)
        await work.run(JobContext(due=due, firing=firing, progress=told.append))
        assert told


async def test_a_dream_that_is_under_way_can_be_seen_with_how_far_it_is(tmp_path: Path) -> None:
    async with whole(tmp_path / "home", "[scheduler]\nlease = 0.3\n") as running:
        await running.tell(ANN, "Hello there")
        await running.settled()
        await running.remember(ANN, "Ann drinks tea", name="tea")
        running.model.script(calls(("write", {"file_path": "new.md", "content": note("made up")})))
        running.model.script(Answer(text="Done.", delay=30))
        dreaming = asyncio.create_task(running.core.night.clock.run_now("dream"))

        async def told() -> bool:
            status = await running.core.night.board.of("dream", limit=1)
            return any(run.detail.startswith("turn 1, ") for run in status.last)

        await until(told, "nothing was told")
        dreaming.cancel()
        await asyncio.wait({dreaming})


async def test_a_scheduler_that_has_died_turns_readiness_red_and_says_so(tmp_path: Path, clock: Clock) -> None:
    async with whole(tmp_path / "home", clock=clock) as running, httpx.AsyncClient(base_url=running.url) as http:
        assert (await http.get("/readyz")).json() == {"ready": True, "faults": {}}
        scheduler = running.core.night.clock._scheduler
        assert scheduler is not None
        scheduler.shutdown(wait=False)
        clock.forward(minutes=1)
        answer = await http.get("/readyz")
        assert (answer.status_code, list(answer.json()["faults"])) == (503, ["scheduler"])


async def test_every_job_has_words_for_people_and_a_name_among_the_figures(tmp_path: Path) -> None:
    async with whole(tmp_path / "home") as running:
        jobs = running.core.night.clock.jobs
        assert {job.id.replace("-", "_") for job in jobs} == set(COUNTED["job_runs"].labels["job"])
        assert len({job.tells for job in jobs}) == len(jobs)
        assert all(job.tells for job in jobs)
