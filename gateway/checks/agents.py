"""The sub-agents: who they are, and which of their files describe none, or not all that they mean to."""

from gateway.agent.subagents import FILE_TOOLS
from gateway.checks.finding import Finding, off, ok, warn
from gateway.settings import Settings
from memory.agents import Agents, load_agents

_CURE = (
    "Mend the file: between two lines of --- stand its name (a-z, 0-9, hyphens, and no other agent's), a description "
    f"and, if need be, tools (of {', '.join(sorted(FILE_TOOLS))}) and memory (user, project or local); the prompt "
    "below them. Or take it away."
)


def check_agents(settings: Settings) -> list[Finding]:
    """Read the files of the operator's agents and of every project's that has a root folder."""
    if settings.home.exists() and not settings.home.is_dir():
        return [off("agents", "not looked at, for the home is not a folder")]
    own = load_agents(settings.home, None, tools=FILE_TOOLS)
    found = [warn("agents", f"{settings.home / fault.file}: {fault.reason}", _CURE) for fault in own.faults]
    for root in dict.fromkeys(project.root for project in settings.projects.values() if project.root is not None):
        with_project = load_agents(settings.home, root, tools=FILE_TOOLS)
        faults = [fault for fault in with_project.faults if fault not in own.faults]
        found += [warn("agents", f"{root / fault.file}: {fault.reason}", _CURE) for fault in faults]
    return found or [ok("agents", _listed(own))]


def _listed(own: Agents) -> str:
    names = ", ".join(agent.name for agent in own.found)
    return (
        f"{names}: their files can all be used" if names else "the operator has defined none, and no file is at fault"
    )
