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
from gateway.settings import Settings

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
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
    """Look for files and folders below the home that others may read; what this user can't see is passed over."""
    looked_at = list(islice(_modes(home), limits.files_looked_at))
    if not looked_at:
        return [off("files", "there are none to look at")]
    open_to_others = [path for path, mode in looked_at if mode & _OTHERS]
    if not open_to_others:
        return [ok("files", f"{len(looked_at)} looked at, all of them their owner's alone")]
    first = open_to_others[0].relative_to(home)
    said = f"{len(open_to_others)} below {home} can be read by others, for instance {first}"
    return [warn("files", said, f"chmod -R go-rwx {home}")]


def _modes(home: Path) -> Iterator[tuple[Path, int]]:
    for folder, folders, files in os.walk(home):
        for name in (*folders, *files):
            path = Path(folder, name)
            try:
                mode = path.lstat().st_mode
            except OSError:  # a running gateway replaces files, and folders may nest deeper than a path can name
                continue
            if not stat.S_ISLNK(mode):
                yield path, mode


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


async def check_port(settings: Settings, limits: Limits) -> list[Finding]:
    """Try to listen where the gateway would; if that place is taken, ask whether the gateway took it."""
    host, port = settings.http_address
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        socket.create_server((host.strip("[]"), port), family=family).close()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return [await _tenant(host, port, limits)]
        said = f"{settings.http} can't be listened on: {error.strerror}"
        return [fail("http", said, "Set REVERIE_HTTP to an address of this machine and a port above 1023.")]
    return [ok("http", f"{settings.http} is free")]


async def _tenant(host: str, port: int, limits: Limits) -> Finding:
    base = f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"
    try:
        async with httpx.AsyncClient(timeout=limits.answer_within, trust_env=False) as client:
            health = await client.get(f"{base}/healthz")
            if health.status_code == 200 and health.text == _HEALTHY:
                return _readiness(base, await client.get(f"{base}/readyz"))
    except (httpx.HTTPError, httpx.InvalidURL):
        pass  # whatever answers there, or doesn't, is not ours
    return fail("http", f"{host}:{port} is used by another program", "Stop it, or set REVERIE_HTTP to another port.")


def _readiness(base: str, ready: httpx.Response) -> Finding:
    if ready.status_code == 200:
        return ok("http", f"a gateway runs at {base} and is ready")
    return warn(
        "http", f"a gateway runs at {base} but is not ready: {ready.text[:500]}", f"Look at its log and {base}/readyz."
    )
