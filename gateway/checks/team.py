"""The team memory: who keeps it, and whether this gateway may use it there."""

import asyncio

import httpx

from gateway.checks.finding import Finding, Limits, fail, off, ok, warn
from gateway.settings import ProjectSettings, Settings
from gateway.settings_faults import nearest
from memory.team.errors import SyncFailed
from memory.team.remote import Remote

_NOBODYS = "a token that nobody was granted"
_REFUSED = {
    401: (
        "refuses the token",
        "Write the one that its operator has granted ([memory.team_grants.NAME] in its reverie.toml) into team_token "
        "in [memory].",
    ),
    403: (
        "knows the token, but does not open {repo!r} to it",
        "Have its operator add {repo!r} to repos in [memory.team_grants.NAME], or mend repo in [projects.{name}].",
    ),
}


async def check_team(settings: Settings, limits: Limits) -> list[Finding]:
    """Say whether this gateway keeps the team memory itself; another server is asked for each project's."""
    memory, projects = settings.memory, settings.projects
    if not (memory.auto_memory_enabled and memory.team_memory_enabled):
        return [off("team", "switched off", "Set auto_memory_enabled and team_memory_enabled in [memory] to true.")]
    if not projects:
        return [off("team", "no project is declared", "Declare one with its chats: [projects.NAME] in reverie.toml.")]
    if memory.team_server_url is None:
        others = len(memory.team_grants)
        granted = f"; {others} other {'gateway has' if others == 1 else 'gateways have'} a token for it"
        own = ok("team", f"kept by this gateway itself, for {', '.join(projects)}{granted if others else ''}")
        return [own, *_without_server(settings), *check_grants(settings)]
    token = memory.team_token.get_secret_value() if memory.team_token else ""
    if not token:
        cure = "Set team_token in [memory] to the one that its operator has granted."
        return [fail("team", f"no token for {memory.team_server_url}, which is asked nothing without one", cure)]
    async with httpx.AsyncClient() as http:
        server = _server(settings, http, limits, token)
        stranger = _server(settings, http, limits, _NOBODYS)
        asked = (_ask(server, stranger, name, project) for name, project in projects.items())
        found = await asyncio.gather(*asked)
    return list({(each.finding, each.cure): each for each in found}.values())  # one line if no project gets through


def _server(settings: Settings, http: httpx.AsyncClient, limits: Limits, token: str) -> Remote:
    async def given() -> str:
        return token

    memory = settings.memory
    headers = {name: value.get_secret_value() for name, value in memory.team_headers.items()}
    timeout = min(memory.team_timeout, limits.answer_within)
    return Remote(str(memory.team_server_url), token=given, http=http, timeout=timeout, headers=headers)


def _without_server(settings: Settings) -> list[Finding]:
    """Name what is set for another server where none is: this gateway then shares with no other one."""
    given = [name for name in ("team_token", "team_headers") if getattr(settings.memory, name)]
    cure = "Set team_server_url in [memory] to the server that they are for, or take them out."
    return [warn("team server", f"{name} is set and does nothing without team_server_url", cure) for name in given]


def check_grants(settings: Settings) -> list[Finding]:
    """Name the repos that a grant opens and no project here has: a misspelt one opens nothing that is meant."""
    memory = settings.memory
    repos = [project.repo or name for name, project in settings.projects.items()]
    return [
        warn(
            "team grants",
            f"memory.team_grants.{name} opens {repo!r}, which is the repo of no project here{nearest(repo, repos)}",
            f"Mend repos in [memory.team_grants.{name}], unless other gateways alone share it.",
        )
        for name, grant in memory.team_grants.items()
        for repo in grant.repos
        if repos and repo not in repos
    ]


async def _ask(server: Remote, stranger: Remote, name: str, project: ProjectSettings) -> Finding:
    repo = project.repo or name
    try:
        checksum = (await server.hashes(repo)).checksum
    except SyncFailed as error:
        return _refused(error, name, repo)
    if checksum is None and await _admits(stranger, repo):  # any web server says 404, to whomever
        return fail("team", "what answers at team_server_url keeps no team memory (404)", _ADDRESS)
    return ok("team", f"the server takes the token for {repo}{'' if checksum else ', and holds nothing of it yet'}")


_ADDRESS = "Check team_server_url in [memory]: the address of the other gateway's HTTP port, without a path."


async def _admits(stranger: Remote, repo: str) -> bool:
    try:
        await stranger.hashes(repo)
    except SyncFailed as error:
        return error.status not in _REFUSED
    return True


def _refused(error: Exception, name: str, repo: str) -> Finding:
    status = error.status if isinstance(error, SyncFailed) else None
    if status in _REFUSED:
        said, cure = _REFUSED[status]
        return fail("team", f"the server {said}".format(repo=repo), cure.format(repo=repo, name=name))
    if status is not None and (status == 429 or status >= 500):
        return warn("team", f"the server can't answer now ({status})", "Try again later; edits wait on this machine.")
    reachable = "" if status else " Check this machine's network and proxy, and that the other gateway runs."
    return fail("team", str(error), _ADDRESS + reachable)
