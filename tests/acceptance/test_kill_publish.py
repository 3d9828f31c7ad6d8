"""SIGKILL after a person's yes: what they have confirmed reaches the team once, and nobody asks them again."""

import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from adapters.serving import serving
from memory.team.wire import PATH
from tests.acceptance.stage import TelegramPlace, World
from tests.acceptance.team_server import TeamServer
from tests.acceptance.wire import Moment, Tapped, Wire

pytestmark = pytest.mark.timeout(180)  # seconds, for a machine that is busy with other things

CANARY = "zebrafish"
QUICK = {
    "REVERIE_MEMORY__LEASE_SECONDS": "3",
    "REVERIE_MEMORY__TEAM_WATCH": "false",
    "REVERIE_MEMORY__TEAM_TOKEN": "a-token-of-the-operator",
}
GARDEN = """
[projects.garden]
chats = ["telegram:{0}"]
members = ["telegram:{0}"]
"""


class Publisher:
    """A person whose change waits for their word, and the team's server."""

    def __init__(self, world: World, place: TelegramPlace, server: TeamServer) -> None:
        self.world = world
        self.place = place
        self.server = server

    async def wait_for(self, words: str) -> list[str]:
        """Return the answers with these words, once there is one."""
        await self.world.wait(lambda: self._with(words), f"not told: {words}; heard {self.place.heard()}")
        return self._with(words)

    def _with(self, words: str) -> list[str]:
        return [text for text in self.place.heard() if words in text]

    @property
    def team(self) -> Path:
        """T of the person."""
        (found,) = self.world.home.glob("homes/*/projects/*/memory/team")
        return found

    def files(self) -> dict[str, str]:
        """Return what lies in T."""
        return {path.name: path.read_text() for path in self.team.glob("*.md")}

    def outcome(self) -> str:
        """Return what the row of the change says."""
        with closing(sqlite3.connect(f"file:{self._database}?mode=ro", uri=True)) as database:
            ((found,),) = database.execute("SELECT outcome FROM staged_changes WHERE number = 1")
            return str(found)

    @contextmanager
    def somebody_writes(self, *, left_for: float) -> Iterator[None]:
        """Hold the lease under which notes are written, as another process would, and leave it behind for a while."""
        self._hold(until=time.time() + 500)  # no lease runs longer than ten minutes
        yield
        self._hold(until=time.time() + left_for)

    def _hold(self, *, until: float) -> None:
        new = "INSERT INTO leases (name, holder, token, until) VALUES (?, 'another', 1, ?)"
        known = "ON CONFLICT (name) DO UPDATE SET until = excluded.until"
        with closing(sqlite3.connect(self._database, timeout=10)) as database, database:
            database.execute(f"{new} {known}", (f"memory:{self.team.parent}", until))

    @property
    def _database(self) -> Path:
        return self.world.home / "reverie.db"


@pytest.fixture
async def publisher(tmp_path: Path) -> AsyncIterator[Publisher]:
    server, wire = TeamServer(), Wire()
    app = server.app
    app.add_middleware(Tapped, wire=wire)
    async with serving(app) as url:
        world = World(tmp_path / "home", **QUICK, REVERIE_MEMORY__TEAM_SERVER_URL=url)
        world.wires["team"] = wire
        world.home.mkdir()
        publisher = Publisher(world, world.private(), server)
        (world.home / "reverie.toml").write_text(GARDEN.format(publisher.place.chat.id))
        async with world.served():
            await world.gateway.start()
            publisher.place.say(f"Share with the team: the {CANARY} eats at noon")
            await publisher.wait_for("To share with the team")
            yield publisher


@pytest.mark.parametrize("left", [False, True], ids=["it-waits-for-its-turn", "its-lease-is-left-behind"])
async def test_a_yes_is_carried_out_though_it_is_killed_between_the_claim_and_the_write(
    publisher: Publisher, left: bool
) -> None:
    world = publisher.world
    with publisher.somebody_writes(left_for=5.0 if left else 0.0):
        publisher.place.say("/team yes 1")
        await world.wait(publisher.outcome, "the change was not claimed")
        world.gateway.kill()
        await world.gateway.killed()
        assert publisher.files() == {}
    await world.gateway.start()
    assert len(await publisher.wait_for("Shared.")) == 1
    assert CANARY in str(publisher.server.entries)
    assert publisher.outcome().startswith("it was shared")


@pytest.mark.parametrize("which", ["1", "all"])
async def test_a_yes_reaches_the_server_though_it_is_killed_between_the_write_and_the_exchange(
    publisher: Publisher, which: str
) -> None:
    world = publisher.world
    exchange = world.hold("team", PATH, Moment.ARRIVED, lost=True)
    publisher.place.say(f"/team yes {which}")
    await world.kill_at(exchange)
    assert len(await publisher.wait_for("The server has it")) == 1
    assert "it was shared" in publisher.place.heard()[-1]
    assert publisher.server.entries == publisher.files()
    assert CANARY in str(publisher.files())
