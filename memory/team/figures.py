"""What the meter is told of an exchange: words of the program and numbers, never a key, a repo or a text."""

from memory.ports import Meter
from memory.team.copy import Copy
from memory.team.errors import NoToken, SyncFailed
from memory.team.remote import Answer
from memory.team.report import SyncReport

_STATUS = {401: "denied", 403: "denied", 408: "unavailable", 409: "unavailable", 412: "conflict", 429: "unavailable"}


def tell_start(meter: Meter, copy: Copy) -> None:
    """Tell of the first pull of a copy since the process began."""
    found = copy.report.found
    content = found is Answer.UNCHANGED or bool(copy.state.server)
    server = "unknown" if found is None else "content" if content else "empty"
    meter.count("team_sync_starts", pulled="no" if found is None else "yes", server=server)
    meter.observe("team_sync_start_files", len(copy.local.names))


def tell_exchange(meter: Meter, report: SyncReport, direction: str, *, seconds: float) -> None:
    """Tell of an exchange that has ended, well or not."""
    meter.observe("team_sync_seconds", seconds, direction=direction, outcome=outcome(report.failure))
    for what in ("written", "removed", "conflicts", "pushed", "deleted", "skipped"):
        meter.count("team_sync_files", len(getattr(report, what)), what=what)
    if report.found is not None:
        meter.count("team_pulls", found=report.found.value)
    if report.batches:
        meter.observe("team_push_batches", report.batches)
        meter.observe("team_push_retries", report.retries)
    _tell_limits(meter, report)
    for rule in (rule for skip in report.skipped for rule in skip.rules):
        meter.count("team_secrets_skipped", rule=rule)


def _tell_limits(meter: Meter, report: SyncReport) -> None:
    if report.capped:
        meter.count("team_entries_capped", report.capped)
    failure = report.failure
    if failure is not None and failure.maximum is not None:
        meter.observe("team_entries_allowed", failure.maximum)
    if failure is not None and failure.received is not None:
        meter.observe("team_entries_received", failure.received)


def outcome(failure: SyncFailed | None) -> str:
    """Return how an exchange ended, in one word."""
    if failure is None:
        return "ok"
    if failure.maximum is not None:
        return "too_many"
    if isinstance(failure, NoToken):
        return "denied"
    status = failure.status
    if failure.malformed or status is None:
        return "malformed" if failure.malformed else "no_answer"
    return _STATUS.get(status, "unavailable" if status >= 500 else "refused")
