from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.acceptance import canaries
from tests.acceptance.stage import World
from tests.acceptance.whole import ANN, Clock, Whole, whole


@pytest.fixture
def clock() -> Clock:
    """The clock of a gateway inside this process."""
    return Clock()


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """The platforms, the model and a running gateway, shared by a module; every test opens conversations of its own."""
    world = World(tmp_path_factory.mktemp("gateway") / "home")
    async with world.served():
        await world.gateway.start()
        yield world


@pytest.fixture
def running(world: World) -> Iterator[World]:
    """The module's world; what the gateway logs is shown if the test fails."""
    log = world.gateway.log
    before = log.stat().st_size
    yield world
    print(world.log_since(before))


@pytest.fixture
async def planted(tmp_path: Path) -> AsyncIterator[Whole]:
    """A gateway inside this process, with a canary in Ann's private memory and one in group G's team memory."""
    async with whole(tmp_path / "home", canaries.PROJECT) as running:
        await running.remember(ANN, f"Ann keeps a {canaries.PRIVATE}")
        await running.remember(canaries.BOB_IN_G, f"The team keeps an {canaries.TEAM}", team=True)
        yield running
