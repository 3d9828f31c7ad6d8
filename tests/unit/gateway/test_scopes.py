import json
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from adapters.base import Account, Address, Inbound
from gateway.access import Access
from gateway.db.engine import Database
from gateway.history import History
from gateway.scopes import Scopes
from gateway.settings import Settings
from memory.paths import Homes
from memory.scope import Mode, Part
from tests.unit.gateway.counted import asked_of

TEA = '{"tea": {"chats": ["telegram:42", "telegram:43", "telegram:-100"], "members": ["telegram:42"]}}'
Said = Callable[..., Inbound]
DM = Address(platform="telegram", chat="42")


@pytest.fixture
def scopes_with(
    database: Database, settings_of: Callable[..., Settings], now: Any
) -> Callable[..., tuple[Scopes, Access]]:
    def make(**environ: str) -> tuple[Scopes, Access]:
        settings = settings_of(**environ)
        access = Access(database, settings, now)
        homes = Homes(root=settings.home / "homes", settings=settings.memory, override=None, enabled=True)
        return Scopes(settings, homes, access, database), access

    return make


async def test_people_and_groups_have_memories_of_their_own(scopes_with: Any) -> None:
    scopes, _ = scopes_with()
    ann = await scopes.of(DM, "person:telegram:42")
    bob = await scopes.of(Address(platform="telegram", chat="43"), "person:telegram:43")
    group = await scopes.of(Address(platform="telegram", chat="-100"), "chat:telegram:-100")
    places = {scope.memory_dir for scope in (ann, bob, group)}
    assert len(places) == 3
    assert (ann.shared, group.shared) == (False, True)
    for scope in (ann, bob, group):
        assert not any(
            path.is_relative_to(other) or other.is_relative_to(path)
            for path in (*scope.readable, *scope.writable)
            for other in places - {scope.memory_dir}
        )


async def test_only_members_load_a_projects_team_memory_in_private(scopes_with: Any, said: Said) -> None:
    scopes, access = scopes_with(REVERIE_PROJECTS=TEA)
    for user in ("42", "43"):
        await access.allow_account(Account(platform="telegram", user=user), allowed=True)
    member = await scopes.of(DM, "person:telegram:42")
    stranger = await scopes.of(Address(platform="telegram", chat="43"), "person:telegram:43")
    group = await scopes.of(Address(platform="telegram", chat="-100", thread="7"), "chat:telegram:-100")
    assert member.team_dir == member.memory_dir / "team"
    assert stranger.team_dir is None
    assert group.team_dir == group.memory_dir / "team"


async def test_a_chat_has_its_own_mode_and_time_zone(scopes_with: Any) -> None:
    scopes, _ = scopes_with(
        REVERIE_TIMEZONE="Europe/Paris", REVERIE_CHATS='{"telegram:42": {"mode": "log", "timezone": "Asia/Tokyo"}}'
    )
    chat = await scopes.of(DM, "person:telegram:42")
    other = await scopes.of(Address(platform="telegram", chat="43"), "person:telegram:43")
    assert (chat.mode, chat.timezone) == (Mode.LOG, "Asia/Tokyo")
    assert (other.mode, other.timezone) == (Mode.AUTO, "Europe/Paris")


async def test_a_mode_that_was_chosen_goes_before_the_settings_in_all_private_chats_of_a_person(
    scopes_with: Any, history: History, now: Any
) -> None:
    scopes, _ = scopes_with(REVERIE_CHATS='{"telegram:42": {"mode": "auto"}}')
    ann, owner = "person:telegram:42", Account(platform="telegram", user="42")
    choose = partial(scopes.choose, ann, account=owner, now=now())
    await choose(Mode.LOG, changes=True)
    elsewhere = await scopes.of(Address(platform="slack", workspace="T1", chat="D1"), ann)
    await history.start_session(elsewhere, "slack:T1/D1", system=[], today="")
    for scope in (await scopes.of(DM, ann), elsewhere, *await scopes.of_principal(ann), *await scopes.active()):
        assert (scope.mode, scope.mode_since) == (Mode.LOG, now())
    await choose(Mode.LOG, now=now() + timedelta(days=1), changes=False)
    assert (await scopes.of(DM, ann)).mode_since == now()
    await choose(None, changes=True)
    assert (await scopes.of(DM, ann)).mode is Mode.AUTO
    bob = await scopes.of(Address(platform="telegram", chat="43"), "person:telegram:43")
    assert (bob.mode, bob.mode_since) == (Mode.AUTO, None)


async def test_what_a_chat_left_behind_is_found_by_the_operator_and_visited_by_no_night(
    scopes_with: Any, history: History
) -> None:
    before, _ = scopes_with()
    ann = await before.of(DM, "person:telegram:42")
    await history.start_session(ann, "telegram:42", system=[], today="")
    assert await before.left() == []
    after, _ = scopes_with(REVERIE_PROJECTS=TEA)
    assert await after.left() == []  # there never was a directory
    ann.memory_dir.mkdir(parents=True)
    (left,) = await after.left()
    assert (left.principal, left.project, left.memory_dir) == (ann.principal, "", ann.memory_dir)
    assert ann.memory_dir not in {scope.memory_dir for scope in await after.known()}


async def test_a_memory_that_was_left_is_found_where_its_project_with_root_and_repo_had_it(
    scopes_with: Any, history: History, tmp_path: Path
) -> None:
    tea = {"root": str(tmp_path), "repo": "acme/tea"}
    before, _ = scopes_with(REVERIE_PROJECTS=json.dumps({"tea": {**tea, "chats": ["telegram:42"]}}))
    ann = await before.of(DM, "person:telegram:42")
    await history.start_session(ann, "telegram:42", system=[], today="")
    ann.memory_dir.mkdir(parents=True)
    after, _ = scopes_with(REVERIE_PROJECTS=json.dumps({"tea": tea}))
    assert [scope.memory_dir for scope in await after.left()] == [ann.memory_dir]


async def test_the_wishes_of_those_whom_a_memory_belongs_to_only_take_away(scopes_with: Any) -> None:
    scopes, access = scopes_with(REVERIE_PROJECTS=TEA)
    await access.allow_account(Account(platform="telegram", user="42"), allowed=True)
    ann = await scopes.of(DM, "person:telegram:42")
    home = ann.memory_dir.parents[2]
    home.mkdir(parents=True)
    for part in Part:
        (home / "settings.toml").write_text(f"[memory]\n{part} = false\n")
        scope = await scopes.of(DM, "person:telegram:42")
        assert [each.part for each in scope.opted_out] == [part]
        assert (scope.enabled, scope.team_dir is not None) == (part is not Part.MEMORY, part is not Part.TEAM)


async def test_the_night_visits_each_scope_once(scopes_with: Any, history: History) -> None:
    scopes, _ = scopes_with()
    ann = await scopes.of(DM, "person:telegram:42")
    bob = await scopes.of(Address(platform="telegram", chat="43"), "person:telegram:43")
    for scope, conversation in ((ann, "telegram:42"), (ann, "telegram:42/7"), (bob, "telegram:43")):
        await history.start_session(scope, conversation, system=[], today="")
    visited = await scopes.active()
    assert sorted(scope.principal for scope in visited) == ["person:telegram:42", "person:telegram:43"]


async def test_however_many_memories_there_are_one_query_tells_whose_accounts_they_are(
    scopes_with: Any, history: History, database: Database
) -> None:
    users = range(101, 131)
    chats = json.dumps([f"telegram:{user}" for user in users])
    scopes, access = scopes_with(REVERIE_PROJECTS=f'{{"tea": {{"chats": {chats}, "members": {chats}}}}}')
    for user in users:
        await access.allow_account(Account(platform="telegram", user=str(user)), allowed=True)
        private = await scopes.of(Address(platform="telegram", chat=str(user)), f"person:telegram:{user}")
        await history.start_session(private, f"telegram:{user}", system=[], today="")
    with asked_of(database) as asked:
        known = await scopes.known()
    assert len([scope for scope in known if scope.team_dir is not None]) == 30
    assert len(asked.statements) == 3, "the latest sessions, the modes, the accounts"


async def test_the_scope_of_a_turn_is_read_in_one_transaction(scopes_with: Any, database: Database) -> None:
    scopes, _ = scopes_with(REVERIE_PROJECTS=TEA)
    with asked_of(database) as asked:
        await scopes.of(DM, "person:telegram:42")
    assert (asked.transactions, len(asked.statements)) == (1, 3)
    with asked_of(database) as asked:
        await scopes.of(Address(platform="telegram", chat="44"), "person:telegram:44")
    assert len(asked.statements) == 2, "who belongs to no project need not be known by their accounts"
