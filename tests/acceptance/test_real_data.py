"""Homes as people make them: thousands of notes, and files that an editor, a sync client or a slip has broken."""

import asyncio
import json
import os
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.llm.standin.answers import Answer
from memory import scan as scanning
from memory.decoding import decoded
from memory.metadata import parse
from tests.acceptance.whole import ANN, Whole, calls, is_recall, note, whole

HEAD = "---\nname: n\ndescription: {}\ntype: project\n---\n"
BOMB = "a: &a [x, x]\nb: &b [*a, *a, *a, *a]\nc: &c [*b, *b, *b, *b]\nd: [*c, *c, *c, *c]\ndescription: bomb\n"
READ = "zebra-"

BROKEN: Mapping[str, bytes] = {
    "bom.md": b"\xef\xbb\xbf" + note("zebra-bom").encode(),
    "crlf.md": note("zebra-crlf").replace("\n", "\r\n").encode(),
    "old-mac.md": note("zebra-mac").replace("\n", "\r").encode(),
    "latin.md": note("zebra-caf\xe9").encode("latin-1"),
    "utf16.md": note("zebra-wide").encode("utf-16"),
    "nul.md": b"zebra-nul \0 \x1b[31m",
    "empty.md": b"",
    "blank.md": b"\n \n",
    "only-head.md": HEAD.format("zebra-head").encode(),
    "unclosed.md": b"---\ndescription: zebra\n\nzebra-unclosed",
    "tabs.md": b"---\nname: n\n\tdescription: x\n  type: y\n---\nzebra-tabs",
    "no.md": b"---\ntype: no\ndescription: 2026-01-02\n---\nzebra-no",
    "date.md": b"---\ntype: 2026-02-31\ndescription: 2026-02-31\n---\nzebra-date",
    "huge-description.md": HEAD.format("zebra " * 9000).encode() + b"zebra-huge",
    "escapes.md": b'---\ndescription: "one\\ntwo \\0 \\u2028three \\x1b"\n---\nzebra-escapes',
    "bomb.md": f"---\n{BOMB}---\nzebra-bomb".encode(),
    "deep-flow.md": b"---\ndescription: " + b"[" * 1000 + b"]" * 1000 + b"\n---\nzebra-flow",
    "deep-block.md": b"---\n" + b"- " * 1000 + b"x\n---\nzebra-block",
    "deep-map.md": b"---\n" + b"".join(b" " * n + b"k:\n" for n in range(150)) + b"---\nzebra-map",
    "tag.md": b"---\ndescription: !!python/object/apply:os.system ['false']\n---\nzebra-tag",
    "spaces.md": b"---\nname: [\ndescription: x" + b" " * 60_000 + b"x\n---\nzebra-spaces",
    "rules.md": b"zebra-rules\n\n---\n\nmore\n\n---\n",
    "Case.md": b"zebra-upper",
    "case.md": b"zebra-lower",
    "emoji \U0001f993.md": b"zebra-emoji",
    "\u202egnp.md": b"zebra-rtl",
    "\u05d0\u05d1.md": b"zebra-hebrew",
    "cafe\u0301.md": b"zebra-nfd",
    "-rf.md": b"zebra-minus",
    "~.md": b"zebra-tilde",
    "a\\b.md": b"zebra-backslash",
    "C:x.md": b"zebra-drive",
    "%2e%2e%2fx.md": b"zebra-percent",
    "`tick`.md": b"zebra-tick",
    "[x](y).md": b"zebra-link",
    "n" * 252 + ".md": b"zebra-long",
    "\u200b.md": b"zebra-invisible",
}
"""Files that are notes all the same, whatever was done to them."""

UNUSABLE: Mapping[bytes, bytes] = {
    b"line\n- [user] forged.md": b"zebra-newline",
    b"tab\t.md": b"zebra-tab",
    b"caf\xe9.md": b"zebra-name",
    "next\u0085line.md".encode(): b"zebra-nel",
    b"..md": b"zebra-dots",
    b".md": b"zebra-nameless",
}
"""Files whose names no line of a list can carry, and hidden ones: they stay where they are and are not looked at."""


def nest(folder: Path, levels: int) -> None:
    """Make folders in one another, deeper than a path can name."""
    handle = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=handle)
        inner = os.open("d", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(handle)


def break_into(memory: Path) -> None:
    """Put everything that can be wrong into a memory directory."""
    for name, content in BROKEN.items():
        (memory / name).write_bytes(content)
    for raw, content in UNUSABLE.items():
        with open(os.fsencode(memory) + b"/" + raw, "wb") as stream:  # noqa: PTH123  (a name that is no text)
            stream.write(content)
    with (memory / "big.md").open("wb") as stream:
        stream.write(note("zebra-big").encode())
        stream.truncate(50_000_000)
    (memory / "folder.md").mkdir()
    (memory / "folder.md/in.md").write_text("zebra-inner")
    os.mkfifo(memory / "pipe.md")
    (memory / "dangling.md").symlink_to(memory / "nowhere.md")
    (memory / "loop.md").symlink_to(memory / "loop.md")
    (memory / "outside.md").symlink_to("/etc/hostname")
    nest(memory, 1000)
    (memory / "MEMORY.md").write_text("".join(f"- [{name}](<{name}>)\n" for name in sorted(BROKEN)))


def shell(home: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run `reverie memory …` as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "gateway", "memory", *arguments],
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "PYTHONIOENCODING": "utf-8",
            "REVERIE_MANAGED_DIR": str(home / "none"),
            "REVERIE_HOME": str(home),
        },
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.fixture(scope="module")
async def broken(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Whole]:
    home = tmp_path_factory.mktemp("broken") / "home"
    try:
        # The clock must not dream beside a test, and Ann must have spoken for her memory to be known to the jobs.
        async with whole(home, "[scheduler]\nstart_delay = 3600\n") as running:
            await running.tell(ANN, "Hello there.")
            await running.settled()
            await asyncio.to_thread(break_into, (await running.scope(ANN)).memory_dir)
            yield running
    finally:
        # pytest's own cleaning does not go a thousand folders deep
        await asyncio.to_thread(subprocess.check_call, ["rm", "-rf", str(home)])


def listed(answer: str) -> list[str]:
    """Return the names that a `/memory` answer or a manifest lists."""
    return [line.split("`")[1] for line in answer.splitlines() if line.startswith("- `")]


async def test_each_broken_file_that_is_a_note_is_listed_on_one_line_and_nothing_else_is(broken: Whole) -> None:
    scope = await broken.scope(ANN)
    headers = await broken.core.scanner.scan(scope)
    assert {header.name for header in headers} == {*BROKEN, "big.md", "folder.md/in.md"}
    lines = scanning.manifest(headers).splitlines()
    assert len(lines) == len(headers)
    assert all(len(line) < 700 and line.isprintable() for line in lines if line.isascii())
    described = {header.name: header.description for header in headers}
    assert (described["bom.md"], described["utf16.md"]) == ("zebra-bom", "zebra-wide")
    assert described["crlf.md"] == "zebra-crlf"
    assert described["no.md"] == "2026-01-02"
    assert described["date.md"] == "2026-02-31"
    assert len(described["huge-description.md"]) <= 300
    assert described["escapes.md"] == "one two three"
    assert [described[name] for name in ("bomb.md", "deep-flow.md", "deep-block.md")] == [""] * 3


async def test_memory_answers_with_a_list(broken: Whole) -> None:
    answer = await broken.tell(ANN, "/memory")
    assert answer.startswith(f"I remember {len(BROKEN) + 2} things here:")


@pytest.mark.parametrize("name", sorted(BROKEN), ids=lambda name: ascii(name)[:24])
async def test_each_broken_note_is_shown_with_its_text(broken: Whole, name: str) -> None:
    shown = await broken.tell(ANN, f"/memory {name}")
    text = parse(decoded(BROKEN[name]))[1]
    words = [word for word in text.split() if len(word) < 80]
    assert shown.startswith(f"**{name}**")
    assert all(word in shown for word in words[:3])


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("big.md", "I can't show `big.md`: the file is larger than 1024 KiB, which no note may be."),
        ("folder.md", "I can't show `folder.md`: "),
        ("pipe.md", "I can't show `pipe.md`: this is not a plain file."),
        ("dangling.md", "I have no note `dangling.md` here."),
        ("loop.md", "I have no note `loop.md` here."),
        ("outside.md", "I have no note `outside.md` here."),
        ("d/" * 1000 + "x.md", "I have no note "),
    ],
    ids=["too large", "a folder", "a pipe", "a dangling link", "a loop", "a link out", "too deep"],
)
async def test_what_is_no_note_gets_a_plain_answer(broken: Whole, name: str, answer: str) -> None:
    assert (await broken.tell(ANN, f"/memory {name}")).startswith(answer)


async def test_recall_shows_broken_notes_and_the_answer_comes(broken: Whole) -> None:
    names = [*sorted(BROKEN), "big.md"]
    missing: dict[str, str] = {}
    for start in range(0, len(names), 5):
        group = names[start : start + 5]
        where = replace(ANN, thread=f"r{start}")
        broken.model.script(Answer(text=json.dumps({"selected_memories": group})), when=is_recall)
        assert await broken.tell(where, "Which zebra is it?")
        sent = "\n".join(block["text"] for block in broken.chats[-1].body["messages"][-1]["content"])
        assert broken.chats[-1].raw.isascii() or broken.chats[-1].raw.decode("utf-8")
        for name in group:
            if name not in ("empty.md", "blank.md") and f"/{name}`" not in sent:
                missing[name] = sent
    assert missing == {}


async def test_tools_list_and_search_a_broken_directory(broken: Whole) -> None:
    broken.then(calls(("glob", {"pattern": "**/*.md"}), ("grep", {"pattern": READ}), ("read", {"file_path": "big.md"})))
    assert await broken.tell(replace(ANN, thread="tools"), "List all there is.")
    results = [block["content"] for block in broken.chats[-1].body["messages"][-1]["content"]]
    assert "zebra-lower" in str(results[1])
    assert "/etc/hostname" not in str(results)
    assert "Traceback" not in str(results)


async def test_a_dream_goes_on_and_loses_nothing(broken: Whole) -> None:
    scope = await broken.scope(ANN)
    (ran,) = [each for each in await broken.core.night.clock.run_now("dream") if ANN.principal in each.scope]
    assert ran.outcome.value == "done", ran.detail
    for name, content in BROKEN.items():
        assert (scope.memory_dir / name).read_bytes() == content, name
    for raw, content in UNUSABLE.items():
        with open(os.fsencode(scope.memory_dir) + b"/" + raw, "rb") as stream:  # noqa: PTH123, ASYNC230
            assert stream.read() == content
    assert (scope.memory_dir / "big.md").stat().st_size == 50_000_000


@pytest.mark.timeout(300)
async def test_the_shell_lists_shows_and_searches(broken: Whole) -> None:
    home, who = broken.core.settings.home, ("--principal", ANN.principal)
    done = await asyncio.to_thread(shell, home, "list", *who, "--json")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert {each["note"] for each in json.loads(done.stdout)} >= set(BROKEN)
    for arguments, code in ((("show", "big.md"), 1), (("search", "zebra"), 0)):
        done = await asyncio.to_thread(shell, home, *arguments, *who)
        assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr


@pytest.mark.timeout(300)
async def test_a_home_of_twelve_thousand_notes_is_recalled_listed_and_parsed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[int] = []

    def counted(text: str) -> tuple[dict[str, object], str]:
        parsed.append(len(text))
        return parse(text)

    monkeypatch.setattr(scanning, "parse", counted)
    async with whole(tmp_path / "home") as running:
        memory = (await running.scope(ANN)).memory_dir
        await asyncio.to_thread(fill, memory, 12_000)
        await asyncio.sleep(0.2)  # what was changed within the last tenth of a second is read again, to be sure
        assert (await running.tell(ANN, "/memory")).startswith("I remember 12000 things here:")
        assert len(parsed) == 12_000
        running.model.script(Answer(text='{"selected_memories": ["topic-3/note-11999.md"]}'), when=is_recall)
        await running.tell(ANN, "What about the thing called unicorn?")
        assert "word of note 11999" in str(running.chats[-1].body["messages"][-1])
        assert len(parsed) == 12_000
        done = await asyncio.to_thread(
            shell, running.core.settings.home, "list", "--principal", ANN.principal, "--json"
        )
        assert len(json.loads(done.stdout)) == 12_000


def fill(memory: Path, count: int) -> None:
    """Write notes as they come about: in folders, of all ages, some long, some bare; the last is the newest."""
    rng = random.Random(7)
    for number in range(count):
        folder = memory / f"topic-{number % 4}"
        folder.mkdir(exist_ok=True)
        body = f"word of note {number}\n" * rng.choice((1, 1, 3, 40))
        head = HEAD.format(f"note {number} about {rng.randrange(10**6)}") if rng.random() < 0.9 else ""
        path = folder / f"note-{number}.md"
        path.write_text(head + body)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
