"""A chat in which everybody has something noted at once: what its model does, and which facts it was told are written.

People say `TOKEN ACT: FACT`. With the acts of `NOW` the turn itself writes, with those of `LATER` its extraction does.
Between a read and a write of the model's a person edits the same file by hand, where that must be noticed every time.
"""

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gateway.llm.standin.answers import Answer, Failure, ToolCall
from gateway.llm.standin.extraction_rules import text_of
from gateway.llm.standin.request import Conversation, Result
from gateway.llm.standin.rules import answer_by_rules
from memory.index import INDEX, pointer
from tests.acceptance.whole import is_fork, is_recall, note

SHARED, WHOLE, TOLD = "shared.md", "whole.md", "told.md"
TWINS = "twin-a.md", "twin-b.md"
NOW, LATER = ("own", "append", "correct", "whole"), ("own-later", "whole-later")
REWRITERS = 4
OVERLAP = 2
"""So many facts are noted by others between two steps of a dream."""
FACT = re.compile(r"Tool k\d+r\d+ hangs behind door \d+\.")
_ASKED = re.compile(rf"k\d+r\d+ ([a-z-]+): ({FACT.pattern})")
_LAST = re.compile(r"\blast (\d+) messages")
_DRAFT = "Draft: "


def fact(thread: int, turn: int) -> str:
    return f"Tool k{thread}r{turn} hangs behind door {thread}."


def asks(thread: int, turn: int) -> tuple[str, str]:
    """Return what a person says, and its token; a later turn in the same thread is another act.

    Of those who read a note and write it whole there are few: who is always late would come to no end.
    """
    acts, token = (*NOW, *LATER), f"k{thread}r{turn}"
    act = acts[(thread + turn) % len(acts)]
    act = "append" if act == "whole" and thread >= REWRITERS else act
    return f"{token} {act}: {fact(thread, turn)}", token


def numbered(lines: Sequence[str]) -> str:
    """Return a note that says how many lines it has, so that half of it is told from the whole."""
    return "".join(f"{line}\n" for line in ("---", f"name: {len(lines)} lines", "---", "", *lines))


def lines_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("- ")]


def is_whole(text: str) -> bool:
    return text.endswith("\n") and f"\nname: {len(lines_of(text))} lines\n" in text


class Hand:
    """A person with an editor."""

    def __init__(self) -> None:
        self.memory = Path()
        self.lines: list[str] = []

    def add(self, name: str) -> None:
        """Add a line to a note, which goes on saying how many it has if it did."""
        path, line = self.memory / name, f"- Hand {len(self.lines)} has put this down."
        self.lines.append(line)
        text = path.read_text()
        saved = self.memory.with_name("saved-by-the-editor")
        saved.write_text(numbered([*lines_of(text), line]) if is_whole(text) else f"{text}{line}\n")
        saved.replace(path)


class BusyModel:
    """The model of that chat; `told` are the facts of which a tool has said that they are written."""

    def __init__(self) -> None:
        self.hand = Hand()
        self.told: set[str] = set()

    def __call__(self, body: Mapping[str, Any]) -> Answer:
        if is_recall(dict(body)):
            return answer_by_rules(body)
        talk = Conversation.of(body)
        self.told |= set(_told(talk))
        wanted = _later(talk) if is_fork(dict(body)) else [each for each in _asked([talk.prompt]) if each[0] in NOW]
        if calls := list(self._next(wanted, _results(talk))):
            return Answer(tools=calls)
        return Answer(text=f"Noted {' '.join(said.split()[1] for _, said in wanted)}.")

    def _next(self, wanted: Sequence[tuple[str, str]], done: Sequence[Result]) -> Iterator[ToolCall]:
        """Return the calls that come next, of all acts at once."""
        by_act = {act: [said for each, said in wanted if each == act] for act, _ in wanted}
        for act, facts in by_act.items():
            if act.startswith("own"):
                yield from _own(facts, done)
            elif act == "append":
                yield from (_call("append", SHARED, f"- {each}") for each in facts if not _has(done, SHARED, each))
            elif act == "correct":
                yield from _correct(facts, done)
            else:
                yield from self._whole(TOLD if act == "whole-later" else WHOLE, facts, done)

    def _whole(self, name: str, facts: Sequence[str], done: Sequence[Result]) -> Iterator[ToolCall]:
        """Read a whole note and write it with these facts more; whoever was late reads again."""
        if all(_has(done, name, each) for each in facts):
            return
        last = _last(done, name)
        if last is None or last.name != "read":
            yield _call("read", name)
            return
        there = lines_of(text_of(last))
        new = [line for each in facts if (line := f"- {each}") not in there]
        if name == TOLD and sum(each.path.endswith(name) for each in done) == 1:
            self.hand.add(name)
        yield _call("write", name, numbered([*there, *new]))


class BusyDream:
    """A dream that merges two notes with its hands full of what it read long ago; `fails` right before its end."""

    def __init__(self, model: BusyModel, *, fails: bool) -> None:
        self.model = model
        self.fails = fails
        self.began = asyncio.Event()
        self.is_over = False
        self.waits_for = 0

    async def __call__(self, body: dict[str, Any]) -> Answer | Failure:
        done, (kept, merged) = _results(Conversation.of(body)), TWINS
        if not done:
            self.waits_for = len(self.model.told)
            self.began.set()
            return Answer(tools=[_call("read", name) for name in (INDEX, *TWINS)])
        if not any(each.name == "write" for each in done):
            await self._others_write()
            self.model.hand.add(kept)
            index = text_of(next(each for each in done if each.path.endswith(INDEX)))
            tidied = index.replace("hook", "dreamt")
            return Answer(tools=[_call("write", INDEX, f"{tidied}\n"), _call("write", kept, _union(done))])
        if not _has(done, kept, "- "):
            is_read = (last := _last(done, kept)) is not None and last.name == "read"
            return Answer(tools=[_call("write", kept, _union(done)) if is_read else _call("read", kept)])
        if not any(each.name == "delete" for each in done):
            self.model.hand.add(kept)
            await self._others_write()
            return Answer(tools=[ToolCall(name="delete", input={"file_path": merged})])
        await self._others_write()
        self.is_over = True
        return Failure(status=500) if self.fails else Answer(text="Merged two notes.")

    async def _others_write(self) -> None:
        """Wait until others have noted some facts more, counted from the dream's begin."""
        self.waits_for += OVERLAP
        while len(self.model.told) < self.waits_for:  # noqa: ASYNC110  (requests of other processes tell it)
            await asyncio.sleep(0.01)


def _union(done: Sequence[Result]) -> str:
    texts = (text_of(last) for name in TWINS if (last := _last([r for r in done if r.name == "read"], name)))
    return "".join(f"{line}\n" for line in dict.fromkeys(line for text in texts for line in lines_of(text)))


def _own(facts: Sequence[str], done: Sequence[Result]) -> Iterator[ToolCall]:
    """Make a note of each, and point to all of them in the index as it was read."""
    names = {f"note-{each.split()[1]}.md": each for each in facts}
    new = [(name, each) for name, each in names.items() if not _has(done, name, each)]
    if new:
        yield from (_call("write", name, note(each)) for name, each in new)
        yield _call("read", INDEX)
    elif not all(_has(done, INDEX, name) for name in names):
        last = _last(done, INDEX)
        if last is None or last.name != "read":
            yield _call("read", INDEX)
            return
        there = text_of(last)
        lines = (pointer(name[:-3], name, "hook") for name in names if name not in there)
        yield _call("write", INDEX, "".join(f"{line}\n" for line in (*there.splitlines(), *lines)))


def _correct(facts: Sequence[str], done: Sequence[Result]) -> Iterator[ToolCall]:
    """Add a fact and put a better one in its place."""
    for each in facts:
        if not _has(done, SHARED, f"- {_DRAFT}{each}"):
            yield _call("append", SHARED, f"- {_DRAFT}{each}")
        elif not _has(done, SHARED, f"- {each}"):
            given = {"file_path": SHARED, "old_string": f"- {_DRAFT}{each}", "new_string": f"- {each}"}
            yield ToolCall(name="edit", input=given)


def _call(tool: str, name: str, content: str | None = None) -> ToolCall:
    return ToolCall(name=tool, input={"file_path": name} | ({} if content is None else {"content": content}))


def _results(talk: Conversation) -> list[Result]:
    return [result for turn in talk.rounds for result in turn]


def _last(done: Sequence[Result], name: str) -> Result | None:
    return next((each for each in reversed(done) if each.path.endswith(name)), None)


def _written(result: Result) -> str:
    """Return what a tool has put into a file; nothing if it has not."""
    return "" if result.is_error else str(result.input.get("content") or result.input.get("new_string") or "")


def _has(done: Sequence[Result], name: str, words: str) -> bool:
    return any(each.path.endswith(name) and words in _written(each) for each in done)


def _told(talk: Conversation) -> Iterable[str]:
    texts = (_written(each) for each in _results(talk))
    return (said for text in texts for line in text.splitlines() if _DRAFT not in line for said in FACT.findall(line))


def _asked(texts: Iterable[str]) -> list[tuple[str, str]]:
    return [(act, said) for text in texts for act, said in _ASKED.findall(text)]


def _later(talk: Conversation) -> list[tuple[str, str]]:
    """Return what an extraction has to note, of the messages that it is told to look at."""
    found = _LAST.search(talk.prompt)
    heard = [spoken for spoken in talk.before if spoken.text and spoken.role != "system"]
    last = heard[-int(found[1]) :] if found else heard
    return [each for each in _asked(spoken.text for spoken in last if spoken.role == "user") if each[0] in LATER]
