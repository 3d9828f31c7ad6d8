"""Two gateways against a third one's team server: edits on both sides, deletions, partitions, clocks an hour apart."""

import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import httpx
import pytest

from adapters.serving import serving
from memory.team.wire import PATH
from tests.acceptance.soundness import unsound
from tests.acceptance.team_server import TeamServer
from tests.acceptance.three_gateways import REPO, TOKENS, Site, State, Three, client_of, clock_at, site, three
from tests.acceptance.whole import note, whole

KEYS = ("beds.md", "bees.md", "soil.md", "tools/shed.md", "water.md")
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
async def team(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Three]:
    async with three(tmp_path_factory.mktemp("three")) as team:
        yield team


@pytest.fixture
async def settled(team: Three) -> Three:
    """Three gateways with the same notes, and none of what other tests have left."""
    await team.begin(f"t{next(_numbers)}-", *KEYS[:3])
    return team


def faults(*sites: Site) -> list[str]:
    """Return every breach of the promises once the sites are in line, one line each."""
    found = [f"{each.name} differs from {sites[0].name}" for each in sites if each.notes() != sites[0].notes()]
    found += [f"{each.name} has another index" for each in sites if each.index != sites[0].index]
    found += [f"{each.name}: {fault}" for each in sites for fault in unsound(each.team)]
    found += [f"{each.name} keeps {copy.name}" for each in sites for copy in each.team.glob("MEMORY.conflict-*")]
    there = "\n".join(text for each in sites for text in each.files().values())
    live = "\n".join(text for each in sites for text in each.notes().values())
    outdated = set().union(*(each.outdated for each in sites))
    written = {words: key for each in sites for words, key in each.written.items()}
    found += [
        f"lost: {words} of {key}" for words, key in written.items() if words not in outdated | {*there.split("\n")}
    ]
    found += [f"back again: {words}" for words in sorted(outdated & {*live.split("\n")})]
    return found


async def test_edits_of_different_notes_reach_all_gateways(settled: Three) -> None:
    settled.a.write("beds.md", "tomatoes in bed 3")
    settled.b.write("bees.md", "three hives")
    settled.c.write("tools/shed.md", "the key hangs by the door")
    await settled.agree()
    assert faults(*settled.sites) == []
    assert [settled.c.words(key) for key in KEYS[:2]] == ["tomatoes in bed 3", "three hives"]
    assert settled.a.words("tools/shed.md") == "the key hangs by the door"
    assert [each.beside() for each in settled.sites] == [[], [], []]


async def test_of_two_edits_of_a_note_the_servers_keeps_the_name_and_the_other_is_beside_it_in_its_own_home(
    settled: Three,
) -> None:
    settled.a.write("beds.md", "tomatoes in bed 3")
    settled.b.write("beds.md", "tomatoes in bed 4")
    assert await settled.a.sync() == []
    await settled.agree()
    assert faults(*settled.sites) == []
    assert {each.words("beds.md") for each in settled.sites} == {"tomatoes in bed 3"}
    assert [each.beside() for each in settled.sites] == [[], ["tomatoes in bed 4"], []]


async def test_an_edit_outlives_a_deletion_that_did_not_know_of_it(settled: Three) -> None:
    await settled.a.delete("beds.md")
    settled.b.write("beds.md", "tomatoes in bed 4")
    await settled.a.sync()
    await settled.agree()
    assert faults(*settled.sites) == []
    kept = [*settled.b.beside(), *(each.words("beds.md") for each in settled.sites)]
    assert "tomatoes in bed 4" in kept


async def test_a_deletion_does_not_undo_an_edit_that_came_first(settled: Three) -> None:
    await settled.a.delete("beds.md")
    settled.b.write("beds.md", "tomatoes in bed 4")
    await settled.b.sync()
    await settled.agree()
    assert faults(*settled.sites) == []
    assert {each.words("beds.md") for each in settled.sites} == {"tomatoes in bed 4"}


async def test_what_one_deletes_is_gone_everywhere_and_does_not_come_back(settled: Three) -> None:
    await settled.a.delete("beds.md")
    settled.b.write("bees.md", "three hives")
    await settled.agree()
    settled.b.write("soil.md", "dry")
    await settled.agree()
    assert faults(*settled.sites) == []
    assert not any(each.words("beds.md") or f"{each.prefix}beds.md" in each.index for each in settled.sites)


async def test_no_index_points_to_what_is_deleted_though_an_older_one_won(settled: Three) -> None:
    settled.b.write("water.md", "the pump is loud")
    await settled.b.sync()
    for each in settled.sites:
        await each.delete("beds.md")
    await settled.a.sync()
    assert unsound(settled.a.team) == []
    await settled.agree()
    assert faults(*settled.sites) == []


async def test_a_note_that_was_deleted_can_be_written_anew_by_somebody_else(settled: Three) -> None:
    await settled.a.delete("beds.md")
    await settled.agree()
    settled.b.write("beds.md", "beans from now on")
    await settled.agree()
    assert faults(*settled.sites) == []
    assert {each.words("beds.md") for each in settled.sites} == {"beans from now on"}


@pytest.mark.parametrize("by", ["a", "b"])
async def test_a_deleted_note_that_is_put_back_word_for_word_stays_whatever_others_do(settled: Three, by: str) -> None:
    deleter = settled.a if by == "a" else settled.b
    await deleter.delete("beds.md")
    await settled.agree()
    settled.b.outdated.clear()
    settled.a.outdated.clear()
    settled.b.write("beds.md", "beds.md as it was")
    settled.c.write("bees.md", f"a change that makes B look at everything, {by}")
    await settled.c.sync()
    await settled.agree()
    assert faults(*settled.sites) == []
    assert {each.words("beds.md") for each in settled.sites} == {"beds.md as it was"}


@pytest.mark.parametrize("state", [State.CUT, State.DEAF, State.TORN])
async def test_a_partition_with_edits_on_both_sides_heals_without_a_loss(settled: Three, state: State) -> None:
    settled.line(state)
    settled.a.write("beds.md", f"tomatoes in bed 3, {state}")
    settled.b.write("beds.md", f"tomatoes in bed 4, {state}")
    settled.b.write("water.md", f"the pump is loud, {state}")
    settled.c.write("bees.md", f"three hives, {state}")
    await settled.a.delete("soil.md")
    for each in settled.sites:
        await each.sync()
        await each.sync()
    assert faults(*settled.sites) != []
    settled.line(State.GOOD)
    await settled.agree()
    assert faults(*settled.sites) == []
    assert settled.a.words("water.md") == f"the pump is loud, {state}"
    assert settled.c.words("soil.md") == ""


async def test_an_answer_that_was_lost_makes_no_conflict_with_oneself(settled: Three) -> None:
    settled.a.write("beds.md", "tomatoes in bed 3")
    settled.lines[0].state = State.DEAF
    assert await settled.a.sync() != []
    settled.lines[0].state = State.GOOD
    await settled.agree()
    assert faults(*settled.sites) == []
    assert settled.a.beside() == []


async def test_a_client_of_the_bare_contract_reads_and_writes_what_the_gateways_share(settled: Three) -> None:
    headers = {"authorization": f"Bearer {TOKENS['foreign']}"}
    async with httpx.AsyncClient(trust_env=False, base_url=settled.c.running.url, headers=headers) as client:
        there = (await client.get(PATH, params={"repo": REPO})).json()
        assert there["content"]["entries"][f"{settled.a.prefix}beds.md"] == note("beds.md as it was")
        tag = {"if-match": f'"{there["checksum"]}"'}
        names = [f"{settled.a.prefix}{name}" for name in ("beds.md", "new.md")]
        entries = {names[0]: note("from elsewhere"), names[1]: note("also from elsewhere")}
        put = await client.put(PATH, params={"repo": REPO}, headers=tag, json={"entries": entries})
        assert put.status_code == 200
        settled.a.write("beds.md", "tomatoes in bed 3")
        await settled.b.delete("bees.md")
        await settled.agree()
        late = await client.put(PATH, params={"repo": REPO}, headers=tag, json={"entries": entries})
        assert late.status_code == 412
        now = (await client.get(PATH, params={"repo": REPO})).json()["content"]["entries"]
    assert faults(*settled.sites) == []
    assert {key: text for key, text in now.items() if key.startswith(settled.b.prefix)} == {
        f"{settled.b.prefix}{key}": text for key, text in settled.b.notes().items()
    }
    assert {each.words("beds.md") for each in settled.sites} == {"from elsewhere"}
    assert settled.a.beside() == ["tomatoes in bed 3"]


async def test_two_gateways_agree_over_a_server_that_keeps_no_deletions(tmp_path: Path) -> None:
    server = TeamServer()
    async with (
        serving(server.app) as url,
        whole(tmp_path / "a", client_of(url, "a"), clock=clock_at(hours=1)) as one,
        whole(tmp_path / "b", client_of(url, "b")) as other,
    ):
        a, b = await site("a", one), await site("b", other)
        a.write("beds.md", "tomatoes in bed 3")
        b.write("bees.md", "three hives")
        for each in (a, b, a, b):
            assert await each.sync() == []
        a.write("beds.md", "tomatoes in bed 4")
        b.write("beds.md", "tomatoes in bed 5")
        await a.delete("bees.md")  # which such a server can't be told
        for each in (a, b, a, b):
            assert await each.sync() == []
        assert "bees.md" not in a.notes()
        assert b.words("bees.md") == "three hives"
        b.place("bees.md").unlink()
        assert faults(a, b) == []
        assert b.beside() == ["tomatoes in bed 5"]


def moves(team: Three, dice: random.Random, step: int) -> Callable[[], object]:
    """Choose what happens next, and where."""
    where = dice.choice(team.sites)
    key = dice.choice(KEYS)
    there = sorted(where.notes())
    return dice.choice(
        [
            lambda: where.write(key, f"{key} as {where.name} had it in step {step}"),
            lambda: where.write(key, f"{key} as {where.name} had it in step {step}"),
            lambda: where.delete(dice.choice(there)) if there else None,
            where.sync,
            where.sync,
            lambda: setattr(dice.choice(team.lines), "state", dice.choice(list(State))),
        ]
    )


SEEDS = [0, 3, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 16))]


@pytest.mark.parametrize("seed", SEEDS)
async def test_whatever_happens_in_whatever_order_nothing_is_lost(settled: Three, seed: int) -> None:
    dice = random.Random(seed)
    for step in range(60):
        done = moves(settled, dice, step)()
        if isinstance(done, Awaitable):
            await done
    settled.line(State.GOOD)
    await settled.agree()
    assert faults(*settled.sites) == []
