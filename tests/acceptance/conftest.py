from collections.abc import AsyncIterator, Iterator

import pytest

from tests.acceptance.stage import World


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
