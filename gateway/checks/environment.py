"""The environment: variables that look like settings and are none."""

from collections.abc import Mapping

from gateway.checks.finding import Finding, warn
from gateway.settings import misspelt


def check_environment(environ: Mapping[str, str]) -> list[Finding]:
    """Name each variable with our prefix that nothing reads; none of them keeps the gateway from starting."""
    cure = "Write its name right, or unset it; deploy/env.example names those that are asked for most."
    return [warn("environment", clause, cure) for clause in misspelt(environ)]
