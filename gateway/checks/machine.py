"""The machine: home folder, disk, rights of files, open files, time zones, the HTTP port."""

import errno
import os
import resource
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from zoneinfo import ZoneInfo

import httpx

from gateway.checks.finding import Finding, Limits, fail, off, ok, warn
from gateway.errors import StartRefused
from gateway.home import LOCK, only_gateway
from gateway.settings import Settings, files_of

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_ENTERED = stat.S_IXGRP | stat.S_IXOTH
_HEALTHY = "ok\n"  # what our own /healthz says


def check_home(home: Path, limits: Limits) -> list[Finding]:
    """Look at the home's rights and at the room that is left; makes no folder."""
    try:
        if not home.exists():
            return [_not_made_yet(home)]
        if not home.is_dir():
            return [fail("home", f"{home} is not a folder", "Set REVERIE_HOME to a folder, or move the file away.")]
        with tempfile.TemporaryFile(dir=home) as probe:
            probe.write(b"reverie")
        next(home.iterdir(), None)
    except OSError as error:
        cure = f"Give this user the folder (chown, chmod 700 {home}), or set REVERIE_HOME to another one."
        return [fail("home", f"{home} can't be read and written by this user: {error.strerror}", cure)]
    return [_rights(home), _room(home, limits)]


def _not_made_yet(home: Path) -> Finding:
    parent = next(folder for folder in home.parents if folder.exists())
    if parent.is_dir() and os.access(parent, os.W_OK | os.X_OK):
        return ok("home", f"{home} does not exist yet; the first start makes it")
    return fail(
        "home",
        f"{home} does not exist and can't be made in {parent}",
        "Make it and give it to this user, or set REVERIE_HOME to a folder of your own.",
    )


def _rights(home: Path) -> Finding:
    mode = stat.S_IMODE(home.stat().st_mode)
    if not mode & _OTHERS:
        return ok("home", f"{home} is writable and its owner's alone")
    said = f"{home} is open to others on this machine (mode {mode:04o}): it holds what people told the bot"
    return warn("home", said, f"chmod 700 {home}")


def _room(home: Path, limits: Limits) -> Finding:
    free = shutil.disk_usage(home).free
    said = f"{free / 1024**3:.1f} GiB free for {home}"
    cure = "Free some space, or move REVERIE_HOME to a larger disk."
    if free < limits.disk_needed:
        return fail("disk", said, cure)
    return warn("disk", said, cure) if free < limits.disk_wanted else ok("disk", said)


def check_files(home: Path, limits: Limits) -> list[Finding]:
    """Look for what is below the home that others can read and get at; what this user can't see is passed over."""
    looked_at = list(islice(_modes(home), limits.files_looked_at))
    if not looked_at:
        return [off("files", "there are none to look at")]
    open_to_others = [path for path, mode in looked_at if mode & _OTHERS]
    if not open_to_others:
        return [ok("files", f"{len(looked_at)} looked at, none of them open to others")]
    first = open_to_others[0].relative_to(home)
    said = f"{len(open_to_others)} below {home} can be read by others, for instance {first}"
    return [warn("files", said, f"chmod -R go-rwx {home}")]


def _modes(home: Path) -> Iterator[tuple[Path, int]]:
    """Yield what is below with its mode, and no rights for others where a folder above keeps them out."""
    reach = {str(home): _reach(home)}
    for folder, folders, files in os.walk(home):
        for name in (*folders, *files):
            path = Path(folder, name)
            try:
                mode = path.lstat().st_mode
            except OSError:  # a running gateway replaces files, and folders may nest deeper than a path can name
                continue
            if not stat.S_ISLNK(mode):
                reached = reach.get(folder, False)
                reach[str(path)] = reached and bool(mode & _ENTERED)
                yield path, mode if reached else mode & ~_OTHERS


def _reach(home: Path) -> bool:
    try:
        return bool(home.stat().st_mode & _ENTERED)
    except OSError:
        return False


def check_limits(limits: Limits) -> list[Finding]:
    """Compare the limit of open files with what many chats at once need."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= limits.open_files:
        return [ok("limits", f"{'any number of' if soft == resource.RLIM_INFINITY else soft} open files")]
    said = f"only {soft} open files are allowed, fewer than {limits.open_files}"
    return [warn("limits", said, "Raise it: LimitNOFILE= in the systemd unit, or ulimit -n in the shell.")]


def check_zones(settings: Settings) -> list[Finding]:
    """Load every time zone that the settings name."""
    chats = {chat.timezone for chat in settings.chats.values() if chat.timezone}
    for name in sorted({settings.timezone, *chats}):
        try:
            ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            cure = "Write its IANA name, such as Europe/Berlin; if it is right, install tzdata."
            return [fail("time zone", f"{name!r} is not known here", cure)]
    return [ok("time zone", f"{settings.timezone}, and its data is there")]


def _held(home: Path) -> bool:
    """Whether a gateway holds this home's lock, as one does on SQLite; makes no file."""
    if not (home / LOCK).exists():
        return False
    try:
        with only_gateway(home):
            return False
    except StartRefused:
        return True


def check_start(settings: Settings) -> list[Finding]:
    """Name the settings' files that were changed after the gateway of this home had read them.

    On PostgreSQL, where several may run, none is known.
    """
    if not settings.database.startswith("sqlite") or not _held(settings.home):
        return []
    started = (settings.home / LOCK).stat().st_mtime
    changed = [file for file in files_of(settings.home, settings.managed_dir) if _changed(file) > started]
    cure = "Start it anew: settings are read at the start only."
    return [
        warn("running", f"{file} was changed after the gateway that runs here had read it", cure) for file in changed
    ]


def _changed(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


async def check_port(settings: Settings, limits: Limits) -> list[Finding]:
    """Try to listen where the gateway would; if that place is taken, ask whether the gateway took it."""
    host, port = settings.http_address
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        socket.create_server((host.strip("[]"), port), family=family).close()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return [await _tenant(settings, limits)]
        said = f"{settings.http} can't be listened on: {error.strerror}"
        return [fail("http", said, "Set REVERIE_HTTP to an address of this machine and a port above 1023.")]
    return [ok("http", f"{settings.http} is free")]


async def _tenant(settings: Settings, limits: Limits) -> Finding:
    host, port = settings.http_address
    base = f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"
    try:
        async with httpx.AsyncClient(timeout=limits.answer_within, trust_env=False) as client:
            health = await client.get(f"{base}/healthz")
            if health.status_code == 200 and health.text == _HEALTHY:
                return _gateways(settings, base) or _readiness(base, await client.get(f"{base}/readyz"))
    except (httpx.HTTPError, httpx.InvalidURL):
        pass  # whatever answers there, or doesn't, is not ours
    return fail("http", f"{host}:{port} is held by another program", "Stop it, or set REVERIE_HTTP to another port.")


def _gateways(settings: Settings, base: str) -> Finding | None:
    """Say that the gateway there is another home's; None if it is this one's, or, on PostgreSQL, may be."""
    if not settings.database.startswith("sqlite") or _held(settings.home):
        return None
    said = f"the gateway at {base} is not that of {settings.home}: no gateway runs in this home"
    return fail("http", said, "Set REVERIE_HOME to that gateway's home, or REVERIE_HTTP to a port of this one's own.")


def _readiness(base: str, ready: httpx.Response) -> Finding:
    if ready.status_code == 200:
        return ok("http", f"a gateway runs at {base} and is ready")
    return warn(
        "http", f"a gateway runs at {base} but is not ready: {ready.text[:500]}", f"Look at its log and {base}/readyz."
    )
