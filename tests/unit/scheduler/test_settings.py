from datetime import time
from typing import Any

import pytest
from pydantic import ValidationError

from scheduler.settings import SchedulerSettings

TIMES = ("distil_from", "distil_until", "quiet_from", "quiet_until")


@pytest.mark.parametrize("name", TIMES)
@pytest.mark.parametrize("given", [22, 22.5, "22", "79200", "22:00Z", "22:00+02:00", "24:00", True, None])
def test_what_no_clock_on_the_wall_shows_is_no_time_of_day_and_the_cure_is_told(name: str, given: Any) -> None:
    with pytest.raises(ValidationError) as refused:
        SchedulerSettings(**{name: given})
    [fault] = refused.value.errors()
    assert fault["loc"] == (name,)
    assert 'write it as "22:00"' in fault["msg"]


@pytest.mark.parametrize("name", TIMES)
@pytest.mark.parametrize("given", ["22:00", "22:00:00", time(22)])
def test_a_local_time_is_taken_as_text_and_as_toml_has_it(name: str, given: Any) -> None:
    assert getattr(SchedulerSettings(**{name: given}), name) == time(22)
