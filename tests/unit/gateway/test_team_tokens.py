"""The tokens of team memory are such as can stand in a header, and nothing that refuses one shows it."""

import json

import pytest

from gateway.errors import StartRefused
from gateway.settings import load

TOKEN = "TOPSECRET-TOKEN-4711"


def loaded(token: str) -> list[str]:
    grants = json.dumps({"other": {"token": token, "repos": ["garden"]}})
    environ = {"REVERIE_MEMORY__TEAM_TOKEN": token, "REVERIE_MEMORY__TEAM_GRANTS": grants}
    memory = load(environ, read_files=False).memory
    assert memory.team_token is not None
    return [each.get_secret_value() for each in (memory.team_token, memory.team_grants["other"].token)]


@pytest.mark.parametrize("around", ["\n", "\r\n", " ", "\t"])
def test_blanks_and_line_ends_around_a_token_are_taken_off(around: str) -> None:
    assert loaded(f"{around}{TOKEN}{around}") == [TOKEN, TOKEN]


@pytest.mark.parametrize("inside", [" ", "\r", "\n", "ö", "\x7f"])
def test_a_token_that_can_not_stand_in_a_header_is_refused_and_not_shown(inside: str) -> None:
    with pytest.raises(StartRefused) as refused:
        loaded(f"{TOKEN}{inside}{TOKEN}")
    assert "visible ASCII" in str(refused.value)
    assert TOKEN not in str(refused.value)


def test_what_is_long_enough_by_its_blanks_alone_is_too_short() -> None:
    with pytest.raises(StartRefused, match="16"):
        loaded(f"short{' ' * 16}")
