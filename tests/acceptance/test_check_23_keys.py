"""Check 23: whatever keys a server of team memory gives out, only plain ones are written, and only inside."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from adapters.serving import serving
from tests.acceptance.team_server import TeamServer, project
from tests.acceptance.whole import Speaker, Whole, whole

GROUP = Speaker(user="42", chat="-100")
EVIL = ("../x", "%2e%2e%2fx", "．．／x", r"a\b", "/etc/reverie-x", "link/x.md", "dangling.md")
ALL = dict.fromkeys(EVIL, "evil") | {"large.md": "x" * 250_001, "ok.md": "fine"}


@pytest.fixture
async def server() -> AsyncIterator[tuple[TeamServer, str]]:
    server = TeamServer()
    async with serving(server.app) as url:
        yield server, url


async def synced(running: Whole) -> None:
    await running.core.night.clock.run_now("team-sync")


def tree(place: Path) -> dict[str, bytes | None]:
    """Return all that lies below a folder, the gateway's own database aside."""
    found = [path for path in sorted(place.rglob("*")) if "reverie.db" not in path.name]
    return {str(path.relative_to(place)): path.read_bytes() if path.is_file() else None for path in found}


def is_absent(path: Path) -> bool:
    return not path.exists()


async def team_of(running: Whole, outside: Path) -> Path:
    """Open the group's chat, and put links that lead out into its copy of the team's memory, which is empty yet."""
    await running.tell(GROUP, "/start")
    await running.tell(GROUP, "Hello there.")
    await running.settled()
    team = (await running.scope(GROUP)).team_dir
    assert team is not None
    link_out(team, outside)
    return team


def link_out(team: Path, outside: Path) -> None:
    outside.mkdir()
    (team / "link").symlink_to(outside)
    (team / "dangling.md").symlink_to(outside / "made-by-the-link.md")


async def test_check_23_of_all_keys_only_the_plain_one_is_written(
    tmp_path: Path, server: tuple[TeamServer, str]
) -> None:
    async with whole(tmp_path / "home", project(server[1])) as running:
        team = await team_of(running, tmp_path / "outside")
        server[0].entries.update(ALL)
        before = tree(tmp_path)
        with capture_logs() as logged:
            await synced(running)
        after = tree(tmp_path)
    new = {path: after[path] for path in after.keys() - before.keys()}
    assert new == {str((team / "ok.md").relative_to(tmp_path)): b"fine"}
    assert {path: after[path] for path in before} == before
    assert is_absent(Path("/etc/reverie-x"))
    assert "evil" not in str(logged)


async def test_check_23_a_second_pull_sends_the_tag_and_touches_nothing(
    tmp_path: Path, server: tuple[TeamServer, str]
) -> None:
    async with whole(tmp_path / "home", project(server[1])) as running:
        team = await team_of(running, tmp_path / "outside")
        server[0].entries.update(ALL)
        await synced(running)
        before = tree(tmp_path), (team / "ok.md").stat().st_mtime_ns
        server[0].statuses.clear()
        await synced(running)
        assert server[0].statuses == [304]
        assert (tree(tmp_path), (team / "ok.md").stat().st_mtime_ns) == before


@pytest.mark.parametrize("key", [*EVIL, "sub/../../x.md", "", ".", "a%2fb.md", "a\0b.md", "‥/x.md", "x/．．/．．/y.md"])
async def test_check_23_one_such_key_does_not_stop_the_others(
    tmp_path: Path, server: tuple[TeamServer, str], key: str
) -> None:
    async with whole(tmp_path / "home", project(server[1])) as running:
        team = await team_of(running, tmp_path / "outside")
        server[0].entries.update({key: "evil", "z.md": "fine"})
        before = tree(tmp_path)
        await synced(running)
        assert (team / "z.md").read_text() == "fine"
        assert len(tree(tmp_path)) == len(before) + 1
        assert b"evil" not in tree(tmp_path).values()


async def test_check_23_a_key_that_only_looks_odd_stays_inside_and_is_written(
    tmp_path: Path, server: tuple[TeamServer, str]
) -> None:
    odd = {"sub/a.md": "1", "sub/../b.md": "2", "100%.md": "3", "%252e%252e%252fc.md": "4"}
    async with whole(tmp_path / "home", project(server[1])) as running:
        team = await team_of(running, tmp_path / "outside")
        server[0].entries.update(odd)
        await synced(running)
        written = {str(file.relative_to(team)): file.read_text() for file in team.rglob("*.md") if file.exists()}
    assert written == {"sub/a.md": "1", "b.md": "2", "100%.md": "3", "%252e%252e%252fc.md": "4"}
