"""What a check found, and from where on a figure counts as a finding."""

from dataclasses import dataclass
from enum import StrEnum

from gateway.errors import StartRefused


class Status(StrEnum):
    """How a check ended; `off` is what was not set up, and no failure."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    OFF = "off"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One line about one thing, and its cure unless all is well."""

    check: str
    status: Status
    finding: str
    cure: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Where a figure becomes a finding; sizes in bytes, times in seconds."""

    answer_within: float = 10.0
    """The longest wait for anything on the network."""
    clock_apart: float = 60.0
    disk_needed: int = 100 * 1024 * 1024
    disk_wanted: int = 1024 * 1024 * 1024
    open_files: int = 1024
    files_looked_at: int = 50_000


def ok(check: str, finding: str) -> Finding:
    """All is well."""
    return Finding(check=check, status=Status.OK, finding=finding)


def warn(check: str, finding: str, cure: str) -> Finding:
    """It works, but not as well as it could."""
    return Finding(check=check, status=Status.WARN, finding=finding, cure=cure)


def fail(check: str, finding: str, cure: str) -> Finding:
    """The gateway, or a part of it, won't work."""
    return Finding(check=check, status=Status.FAIL, finding=finding, cure=cure)


def off(check: str, finding: str, cure: str = "") -> Finding:
    """Not set up, or not looked at."""
    return Finding(check=check, status=Status.OFF, finding=finding, cure=cure)


def refused(check: str, reason: StartRefused) -> list[Finding]:
    """A refused start; what it found has one cure, which stands with the last."""
    *others, last = reason.findings
    return [*(fail(check, each, "") for each in others), fail(check, last, reason.cure)]
