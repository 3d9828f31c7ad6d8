"""A simulated time of chats, nights, downtimes and failures ends with memories that are whole and slots accounted for.

By hand, with the figures: `python -m tests.acceptance.test_month [SEED]` lives through the whole month.
"""

import asyncio
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.acceptance.month import Month
from tests.acceptance.month_cast import Plan
from tests.acceptance.month_checks import Findings, table

_HALF_HOUR = timedelta(minutes=30)
_DAYS = Plan(
    start=datetime(2026, 10, 24, tzinfo=UTC),  # Berlin's autumn night is the second of them
    days=3,
    principals=6,
    projects=1,
    turns_a_day=20,
    dream_sittings=2,
    forgets=3,
    bad_dreams=0.6,
    bad_extractions=0.3,
    step=timedelta(hours=1),
    downtimes=[(timedelta(hours=30), timedelta(hours=5))],
)


async def lived(plan: Plan, home: Path) -> Findings:
    """Live through it, print what came of it and return what was found."""
    began = time.perf_counter()
    month = Month(plan, home)
    findings = Findings(month)
    with capture_logs():  # failures that are made on purpose would be told at length
        async with month.lived():
            wall = time.perf_counter() - began
            await findings.look()
    print(table(findings, wall=wall))
    return findings


@pytest.mark.timeout(180)
async def test_days_of_chats_and_nights_leave_every_memory_whole_and_every_slot_accounted_for(tmp_path: Path) -> None:
    findings = await lived(_DAYS, tmp_path / "home")
    assert not any(findings.wrong.values())
    month = findings.month
    assert month.figures["turns"] > 40
    assert month.figures["modes switched"] == 2
    for what in ("forgotten", "dream done changed", "distil done changed"):
        assert month.figures[what], what
    for fault in ("down", "extraction"):
        assert month.model.faults[fault], fault


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_a_month_of_thirty_principals_leaves_every_memory_whole_and_every_slot_accounted_for(
    tmp_path: Path,
) -> None:
    findings = await lived(Plan(step=_HALF_HOUR), tmp_path / "home")
    assert not any(findings.wrong.values())


def main() -> None:
    """Live through the month that the seed makes, and say by the exit code whether all is right."""
    plan = Plan(seed=int(sys.argv[1]) if len(sys.argv) > 1 else Plan.seed, step=_HALF_HOUR)
    with tempfile.TemporaryDirectory() as made:
        findings = asyncio.run(lived(plan, Path(made) / "home"))
    sys.exit(any(findings.wrong.values()))


if __name__ == "__main__":
    main()
