"""Dreams that somebody asks for, in the chat and in the shell, and the tokens that there are for them."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from structlog.testing import capture_logs

from gateway.cli import cli
from gateway.commands.dream import fenced, undone
from gateway.db.engine import Database
from gateway.dreaming import summary
from gateway.llm.client import Tokens
from gateway.night_budget import NightBudget
from gateway.settings import Settings
from gateway.usage import Usage
from memory.consolidation import Consolidated, Ending
from memory.journal import Survival
from memory.restore import Restored
from memory.scope import Mode, Scope
from memory.undo import Undone
from tests.acceptance.whole import ANN, Speaker, note, whole

SURVIVAL = Survival(facts_before=42, facts_kept=41, notes_before=9, notes_after=7, bytes_before=9318, bytes_after=900)


@pytest.fixture
def budget(database: Database, settings_of: Callable[..., Settings], now: Any) -> NightBudget:
    limits = {"REVERIE_MEMORY__DREAM_TOKENS_PER_RUN": "100", "REVERIE_MEMORY__DREAM_TOKENS_PER_NIGHT": "250"}
    return NightBudget(database, settings_of(**limits), now)


async def test_a_run_ends_with_its_own_tokens(budget: NightBudget) -> None:
    assert [await budget(spent) for spent in (0, 99, 100, 101)] == [True, True, False, False]


async def test_the_nights_tokens_are_those_of_all_dreams_of_everybody_since_midnight(
    budget: NightBudget, database: Database, now: Any
) -> None:
    usage = Usage(database, now)
    for principal, purpose in (("ann", "dream"), ("group", "distil"), ("ann", "chat"), ("bob", "extraction")):
        tokens = Tokens(input=100, output=10, cache_read=10, cache_write=5)
        await usage.record(principal=principal, purpose=purpose, model="m", tokens=tokens)
    assert await budget.tonight() == 250
    assert not await budget(0)
    now.forward(24 * 3600)
    assert await budget.tonight() == 0
    assert await budget(0)


@pytest.mark.parametrize(
    ("done", "told"),
    [
        (
            Consolidated(
                ending=Ending.CHANGED, touched=(Path("a"), Path("b")), summary="Merged tea.", survival=SURVIVAL
            ),
            "Memory is in order: 2 files changed, 41 of 42 facts kept (98%), 9 → 7 notes, 9.1 KB → 900 bytes.\n\n"
            "Merged tea.\n\n`/dream diff` shows what changed, `/dream undo` takes it back.",
        ),
        (Consolidated(ending=Ending.UNCHANGED, summary="x"), "Memory is in order: nothing needed changing."),
        (Consolidated(ending=Ending.STOPPED, reason="it was stopped"), "The dream was ended: it was stopped. "),
        (Consolidated(ending=Ending.REFUSED, reason="it lied"), "I did not keep this dream: it lied. The notes are as"),
        (Consolidated(ending=Ending.BUSY, reason="another one"), "I did not dream: another one."),
        (
            Consolidated(ending=Ending.FAILED, reason="it broke", half_back=True),
            "I did not keep this dream: it broke. Not all notes could be put back yet",
        ),
    ],
)
def test_whoever_asked_hears_what_came_of_it(done: Consolidated, told: str) -> None:
    assert summary(done).startswith(told)


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (
            Restored(left=(Path("/m/x`y.md"),)),
            "0 files as before. Left as it is now, because it was changed since: `x'y.md`",
        ),
        (Restored(beside=(Path("/m/a.before-1.md"),)), "notes that were changed since is kept in `a.before-1.md`."),
        (
            Restored(back=(Path("/m/a.md"), Path("/m/MEMORY.md")), merged=(Path("/m/b.md"),)),
            "2 files as before (`a.md`, `MEMORY.md`). Put back with what was added since: `b.md`.",
        ),
        (
            Restored(failed=(Path("/m/a.md"), Path("/m/b.md")), reasons={Path("/m/a.md"): "the disk is full"}),
            "taken back in part: 0 files as before. Not put back yet: `a.md` (the disk is full), `b.md` (it can't be",
        ),
    ],
)
def test_whoever_takes_a_dream_back_hears_where_everything_is(result: Restored, told: str) -> None:
    scope = Scope(
        principal="ann",
        project="",
        memory_dir=Path("/m"),
        team_dir=None,
        mode=Mode.AUTO,
        shared=False,
        enabled=True,
        timezone="UTC",
        readable=(),
        writable=(),
    )
    assert told in undone(scope, Undone(found=True, restored=result))


async def shown(status: str) -> None:
    """Show nobody that the bot works."""


async def test_asked_for_from_three_threads_at_once_it_is_dreamt_once(tmp_path: Path) -> None:
    async with whole(tmp_path / "home") as running:
        await running.tell(ANN, "Hello there")
        memory = (await running.scope(ANN)).memory_dir
        (memory / "nuts.md").write_text(note("Ann must not eat peanuts"))
        dreaming = running.core.night.dreams
        begin = partial(
            dreaming.begin,
            await running.scope(ANN),
            ANN.says("/dream").address,
            scheduler=running.core.night.clock,
            working=shown,
        )
        assert [begin() for _ in range(3)] == [True, False, False]


async def test_where_notes_lie_but_nobody_has_talked_yet_a_dream_is_not_begun_and_nothing_goes_wrong(
    tmp_path: Path,
) -> None:
    group = Speaker(user="42", chat="-100")
    toml = '[projects.garden]\nchats = ["telegram:-100"]\n'
    with capture_logs() as logged:
        async with whole(tmp_path / "home", toml, environ={"REVERIE_ACCESS__OWNERS": "telegram:42"}) as running:
            assert "no notes yet" in await running.tell(group, "/dream")
            (await running.scope(group)).memory_dir.joinpath("roses.md").write_text(note("The roses are red"))
            assert "nothing to put in order here yet" in await running.tell(group, "/dream")
            assert "Last dream: never" in await running.tell(group, "/dream status")
            assert "Nothing to undo" in await running.tell(group, "/dream undo")
            await running.tell(group, "Hello there")
            assert "Dreaming…" in await running.tell(group, "/dream")
    assert [line for line in logged if line["log_level"] == "error"] == []


async def test_where_there_is_no_change_to_show_the_answer_names_why_and_what_helps(tmp_path: Path) -> None:
    async with whole(tmp_path / "home") as running:
        await running.tell(ANN, "Hello there")
        assert "Nothing to show: there was no dream here yet. `/dream` begins" in await running.tell(ANN, "/dream diff")
        (await running.scope(ANN)).memory_dir.joinpath("nuts.md").write_text(note("Ann must not eat peanuts"))
        await running.core.night.clock.run_now("dream")
        assert "+- [note](nuts.md)" in await running.tell(ANN, "/dream diff")
        assert "taken back: 1 file" in await running.tell(ANN, "/dream undo")
        for which, word in (("diff", "show"), ("undo", "undo")):
            told = await running.tell(ANN, f"/dream {which}")
            assert f"Nothing to {word}: what the last dream changed was taken back on " in told
            assert "`/dream status` says" in told


async def test_a_word_that_is_not_understood_is_named_with_the_one_that_may_have_been_meant(tmp_path: Path) -> None:
    async with whole(tmp_path / "home") as running:
        await running.tell(ANN, "Hello there")
        for words, said in (
            ("/dream stauts", "I don't understand `stauts` (did you mean status?). `/dream` puts"),
            ("/mode lgo", "I don't understand `lgo` (did you mean log?). `/mode log`"),
            ("/mode foo", "I don't understand `foo`. `/mode log`"),
            ("/agents now", "I don't understand `now`. `/agents` lists"),
            ("/dreem", "I don't know `/dreem` (did you mean /dream?)."),
            ("/dream run", "I can't dream here: there are no notes yet."),
        ):
            assert said in await running.tell(ANN, words)


def test_a_patch_stays_in_its_fence_and_within_a_message() -> None:
    assert fenced("") == ""
    assert fenced("+```\n") == "````diff\n+```\n````"
    long = fenced("".join(f"+ line {n}\n" for n in range(2000)))
    assert len(long) < 7000
    assert long.endswith(" lines more are not shown.")


def test_the_shell_says_how_dreams_stand_shows_the_last_one_and_takes_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def live() -> Path:
        async with whole(tmp_path / "home") as running:
            await running.tell(ANN, "Hello there")
            memory = (await running.scope(ANN)).memory_dir
            (memory / "nuts.md").write_text(note("Ann must not eat peanuts"))
            await running.core.night.clock.run_now("dream")
            await running.settled()
            return memory / "MEMORY.md"

    index = asyncio.run(live())
    monkeypatch.setattr("gateway.log.configure", lambda **_: None)
    environ = {"REVERIE_HOME": str(tmp_path / "home"), "REVERIE_MANAGED_DIR": str(tmp_path / "none")}

    def shell(*words: str) -> Result:
        return CliRunner().invoke(cli, ["dream", *words, "--principal", ANN.principal], env=environ)

    assert "1 of 1 facts kept (100%)" in shell("status").stdout
    assert "+- [note](nuts.md)" in shell("diff").stdout
    assert "nuts.md" in index.read_text()
    assert "taken back: 1 file as before" in shell("undo").stdout
    assert not index.exists()
    none = shell("diff")
    assert (none.stdout, none.stderr.startswith("Nothing to show: what the last dream changed was taken")) == ("", True)
    assert "`reverie dream run`" in none.stderr
    assert "Nothing to undo" in shell("undo").stdout
    assert "No dream runs" in shell("stop").stdout
