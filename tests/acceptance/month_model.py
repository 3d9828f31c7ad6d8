"""The model of a simulated month: rules that keep what people ask to be kept, and that fail now and then.

It stands where the SDK's client stands, so that everything of ours runs: prompts, tools, rights, guards, records. What
it is sent is looked through: no request may hold a word of another principal, or one that was forgotten.
"""

import json
import random
import re
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from gateway.errors import ModelUnavailable
from gateway.llm.client import Reply, Request, Tokens
from gateway.llm.standin.request import manifest_lines
from tests.acceptance.month_cast import Fact, Member, Plan, Told
from tests.acceptance.month_world import FakeClock

MARK = re.compile(r"z[qt]\d+x\d+")
_KEEP = re.compile(r"Keep this: (z[qt]\d+x\d+) ")
_MEMORY = re.compile(r"(/[^\s`'\"]*/homes/[^/\s`]+/projects/[^/\s`]+/memory)\b")
_LAST = re.compile(r"Look only at the last (\d+) messages")
_DAY_LOG = re.compile(r"^Day log: (.+)$", re.MULTILINE)
_LISTED_LOG = re.compile(r"^- (/.+\.md)$", re.MULTILINE)
AT_ONCE = "Write it down at once."
_BAD = ("half done", "too much", "another speaker", "down", "declined", "into the team", "endless")
_BAD_NIGHTS = ("half done", "down")
_INDEX = "MEMORY.md"


@dataclass(kw_only=True)
class Rewrite:
    """What a consolidation sets out to do; it counts once the product has kept it."""

    kind: str
    fault: str
    moves: dict[str, str] = field(default_factory=dict)
    removes: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class _Talk:
    """A request as the rules read it."""

    memory: Path
    prompt: str
    before: Sequence[dict[str, Any]]
    rounds: Sequence[dict[str, Any]]
    """The answers of the model to this prompt so far."""

    @property
    def wrote(self) -> bool:
        calls = (block for answer in self.rounds for block in answer["content"] if block["type"] == "tool_use")
        return any(call["name"] != "read" for call in calls)


class ScriptedModel:
    """Answers by rules; `rewrites` holds the last consolidation of each memory directory."""

    def __init__(self, plan: Plan, told: Told, clock: FakeClock) -> None:
        self.members: dict[Path, Member] = {}
        self.rewrites: dict[Path, Rewrite] = {}
        self.leaks: list[str] = []
        self.requests: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.tokens = 0
        self._plan = plan
        self._told = told
        self._clock = clock
        self._runs: Counter[tuple[str, str]] = Counter()
        self._bad = {"dream": count(), "distil": count()}
        self._fault: dict[tuple[str, Path], str] = {}

    async def ask(self, request: Request) -> Reply:
        """Choose two of the notes that recall lists."""
        self.requests["recall"] += 1
        listed = manifest_lines(str(request.messages[0]["content"][0]["text"]))
        chosen = [line.file for line in listed[:2]]
        return _reply([_text(json.dumps({"selected_memories": chosen}))], "end_turn", request, cached=0.0)

    async def stream(self, request: Request, **_: object) -> AsyncGenerator[str | Reply, None]:
        """Answer a turn, an extraction or a consolidation."""
        if "the tidying of a team's shared notes" in str(request.messages[0]["content"]):
            self.requests["tidy"] += 1
            yield _reply([_text("There is nothing to propose.")], "end_turn", request, cached=0.0)
            return
        talk = _talk(request)
        kind, rule = next((kind, rule) for words, kind, rule in self._rules if words in talk.prompt)
        self.requests[kind] += 1
        self._look(kind, talk, request)
        self._clock.forward(2 + len(talk.rounds) % 3)
        content = rule(talk)
        calls = any(block["type"] == "tool_use" for block in content)
        for block in content:
            if block["type"] == "text":
                yield block["text"]
        declined = content == [_text("")]
        stop = "refusal" if declined else "tool_use" if calls else "end_turn"
        reply = _reply(content, stop, request, cached=0.0 if kind in {"dream", "distil"} else 0.9)
        self.tokens += reply.tokens.total
        yield reply

    @property
    def _rules(self) -> Sequence[tuple[str, str, Any]]:
        return (
            ("This is a memory extraction run", "extraction", self._extract),
            ("This is a memory consolidation", "dream", self._dream),
            ("This is the nightly consolidation", "distil", self._distil),
            ("", "chat", self._chat),
        )

    def _look(self, kind: str, talk: _Talk, request: Request) -> None:
        """Note every mark that this principal may not see, or nobody any more."""
        mine = self.members[talk.memory]
        seen = set(MARK.findall(json.dumps([request.system, request.messages])))
        for fact in (self._told.facts[mark] for mark in sorted(seen) if mark in self._told.facts):
            theirs = fact.owner is mine or (fact.team and fact.owner.project == mine.project)
            if not theirs or fact.forgotten:
                why = "which was forgotten" if fact.forgotten else f"which is {fact.owner.principal}'s"
                self.leaks.append(f"{kind} for {mine.principal} at {self._clock.now} held {fact.mark}, {why}")

    # -- turns and extractions

    def _chat(self, talk: _Talk) -> list[dict[str, Any]]:
        rng = self._rng("chat", talk)
        if not talk.rounds and rng.random() < self._plan.bad_turns:
            self._fail("chat")
        if AT_ONCE in talk.prompt:
            return self._save(talk, self._kept(talk.prompt), reply="It is written down.")
        return [_text("All right, noted." if "Keep this" in talk.prompt else "Let us see.")]

    def _extract(self, talk: _Talk) -> list[dict[str, Any]]:
        self._maybe_fail("extraction", talk, self._plan.bad_extractions)
        facts = [fact for text in _heard(talk) for fact in self._kept(text)]
        log = _DAY_LOG.search(talk.prompt)
        if log is None:
            return self._save(talk, facts, reply="Saved.")
        missing = [fact for fact in facts if fact.mark not in _all_of(talk.memory / "logs")]
        if not missing or talk.wrote:
            return [_text("Logged.")]
        lines = "".join(f"- {self._clock.now:%H:%M} {fact.speaker}: {fact.mark} {fact.words}.\n" for fact in missing)
        return [_call("append", talk, file_path=log[1], content=lines)]

    def _kept(self, text: str) -> list[Fact]:
        return [self._told.facts[mark] for mark in dict.fromkeys(_KEEP.findall(text))]

    def _save(
        self, talk: _Talk, facts: Sequence[Fact], *, reply: str, also: Sequence[Path] = ()
    ) -> list[dict[str, Any]]:
        """Read in one round what there is, write in the next what is missing, and stop."""
        there = _all_of(talk.memory)
        missing = [fact for fact in facts if fact.mark not in there]
        if not missing or talk.wrote:
            return [_text(reply)]
        notes = {talk.memory / fact.topic for fact in missing}
        indexes = {note.parent / _INDEX for note in notes}
        if not talk.rounds and (present := [path for path in sorted({*notes, *indexes, *also}) if path.exists()]):
            return [_call("read", talk, number, file_path=str(path)) for number, path in enumerate(present)]
        texts = {note: _text_of(note) or _head(note.stem) for note in sorted(notes)}
        for fact in missing:
            texts[talk.memory / fact.topic] += f"{fact.line}\n"
        for index in sorted(indexes):
            lines = [_pointer(note) for note in sorted(notes) if note.parent == index.parent]
            new = [line for line in lines if line not in _text_of(index)]
            if new:
                texts[index] = "\n".join([*_text_of(index).splitlines(), *new, ""])
        return _writes(talk, texts)

    # -- consolidations

    def _dream(self, talk: _Talk) -> list[dict[str, Any]]:
        notes = sorted(talk.memory.glob("topic-*.md"))
        if not talk.rounds:
            self._begin("dream", talk)
            present = [*notes, talk.memory / _INDEX]
            return [
                _call("read", talk, number, file_path=str(path)) for number, path in enumerate(present) if path.exists()
            ] or [_text("Nothing to do.")]
        rewrite = self.rewrites[talk.memory]
        if rewrite.fault and (answer := self._badly(talk, rewrite, notes)) is not None:
            return answer
        if talk.wrote:
            if rewrite.fault == "half done":
                self._fail(rewrite.fault)
            return [_text("I have put things in order.")]
        return self._tidied(talk, rewrite, notes) or [_text("Nothing needed changing.")]

    def _tidied(self, talk: _Talk, rewrite: Rewrite, notes: Sequence[Path]) -> list[dict[str, Any]]:
        """Take out what was replaced, a tenth at most, and merge the smallest note into the one before it."""
        texts = {note: _text_of(note) for note in notes}
        standing = [mark for text in texts.values() for mark in MARK.findall(text)]
        old = [mark for mark in standing if self._told.facts[mark].replaced]
        rewrite.removes = old[: max(1, len(standing) // 10)]
        changed = {note: _without(text, rewrite.removes) for note, text in texts.items()}
        gone: list[Path] = []
        if len(notes) > 2 and self._rng("merge", talk).random() < 0.5:
            least = min(notes, key=lambda note: (len(changed[note]), note))
            into = next(note for note in notes if note != least)
            moved = [line for line in changed[least].splitlines() if MARK.search(line)]
            changed[into] += "".join(f"{line}\n" for line in moved)
            rewrite.moves = {MARK.findall(line)[0]: into.name for line in moved}
            gone = [least]
        writes = {note: text for note, text in changed.items() if note not in gone and text != texts[note]}
        deletions = [_call("delete", talk, 900 + n, file_path=str(note)) for n, note in enumerate(gone)]
        return [*_writes(talk, writes), *deletions]

    def _badly(self, talk: _Talk, rewrite: Rewrite, notes: Sequence[Path]) -> list[dict[str, Any]] | None:
        """Do what must not be kept; None where this memory gives no occasion for it."""
        match rewrite.fault:
            case "down":
                self._fail(rewrite.fault)
            case "half done":
                return None
            case "endless":
                return [_call("read", talk, file_path=str(talk.memory / _INDEX))]
        answer = self._wrongly(talk, rewrite.fault, notes)
        rewrite.fault = rewrite.fault if answer else ""
        self.faults[rewrite.fault or "none"] += not talk.wrote
        return answer

    def _wrongly(self, talk: _Talk, fault: str, notes: Sequence[Path]) -> list[dict[str, Any]] | None:
        """Come to an end, but not to one that may stand."""
        if fault == "declined":
            return [_text("")]
        if talk.wrote:
            return [_text("Tidy now.")]
        if fault == "into the team":
            return [_call("write", talk, file_path=str(talk.memory / "team" / "dreamt.md"), content="# no\n")]
        if fault == "too much":
            lost = sum(len(MARK.findall(_text_of(note))) for note in notes)
            emptied = {note: _head(note.stem) for note in notes}
            return _writes(talk, emptied) if lost > max(1, len(MARK.findall(_all_of(talk.memory))) * 0.2) else None
        ada, other = ([name for _, name in self.members[talk.memory].speakers] * 2)[:2]
        texts = {note: _text_of(note).replace(f"({ada},", f"({other},") for note in notes}
        changed = {note: text for note, text in texts.items() if text != _text_of(note)}
        return _writes(talk, changed) if changed else None

    def _distil(self, talk: _Talk) -> list[dict[str, Any]]:
        logs = [Path(path) for path in _LISTED_LOG.findall(talk.prompt)]
        if not talk.rounds:
            self._begin("distil", talk)
        rewrite = self.rewrites[talk.memory]
        if rewrite.fault in {"down", "half done"} and (rewrite.fault == "down" or talk.wrote):
            self._fail(rewrite.fault)
        if not talk.wrote:
            marks = dict.fromkeys(mark for log in logs for mark in MARK.findall(_text_of(log)))
            notes = _notes_of(talk.memory)
            facts = [self._told.facts[mark] for mark in marks if mark not in notes]
            rewrite.moves = {fact.mark: fact.topic for fact in facts}
            return self._sorted(talk, facts, logs)
        return [_text("The logs are sorted.")]

    def _sorted(self, talk: _Talk, facts: Sequence[Fact], logs: Sequence[Path]) -> list[dict[str, Any]]:
        if not talk.rounds:
            present = {talk.memory / fact.topic for fact in facts} | {talk.memory / _INDEX}
            paths = [*logs, *sorted(path for path in present if path.exists())]
            return [_call("read", talk, number, file_path=str(path)) for number, path in enumerate(paths)]
        texts: dict[Path, str] = {}
        for fact in facts:
            note = talk.memory / fact.topic
            texts[note] = texts.get(note) or _text_of(note) or _head(note.stem)
            texts[note] += f"{fact.line}\n"
        index = talk.memory / _INDEX
        new = [line for note in sorted(texts) if (line := _pointer(note)) not in _text_of(index)]
        if new:
            texts[index] = "\n".join([*_text_of(index).splitlines(), *new, ""])
        return _writes(talk, texts) if texts else [_text("Nothing was worth keeping.")]

    def runs(self, kind: str) -> int:
        """Return how many runs of a kind were begun, those that failed at once too."""
        return sum(number for (each, _), number in self._runs.items() if each == kind)

    # -- chance

    def _begin(self, kind: str, talk: _Talk) -> None:
        self._runs[kind, talk.memory.as_posix()] += 1
        rng = self._rng(kind, talk)
        bad = rng.random() < self._plan.bad_dreams
        kinds = _BAD if kind == "dream" else _BAD_NIGHTS
        fault = kinds[next(self._bad[kind]) % len(kinds)] if bad else ""
        self.rewrites[talk.memory] = Rewrite(kind=kind, fault=fault)

    def _maybe_fail(self, kind: str, talk: _Talk, share: float) -> None:
        """Fail at the beginning, before the writes or after them."""
        if not talk.rounds:
            self._runs[kind, talk.memory.as_posix()] += 1
        rng = self._rng(kind, talk)
        if rng.random() < share and len(talk.rounds) == rng.randrange(3):
            self._fail(kind)

    def _rng(self, kind: str, talk: _Talk) -> random.Random:
        """Return chance that is the same for the same run, whatever else is going on."""
        if kind == "chat" and not talk.rounds:
            self._runs[kind, talk.memory.as_posix()] += 1
        who = self.members[talk.memory].number
        return random.Random(f"{self._plan.seed} {kind} {who} {self._runs[kind, talk.memory.as_posix()]}")

    def _fail(self, kind: str) -> None:
        self.faults[kind] += 1
        raise ModelUnavailable("the model is away for a moment")


def _talk(request: Request) -> _Talk:
    places = [n for n, message in enumerate(request.messages) if message["role"] == "user" and _words(message)]
    prompt = _words(request.messages[places[-1]])
    told = prompt if "Memory directory: " in prompt else "\n".join(block["text"] for block in request.system)
    found = _MEMORY.search(told)
    assert found is not None, "a request names no memory directory"
    after = request.messages[places[-1] + 1 :]
    return _Talk(
        memory=Path(found[1]),
        prompt=prompt,
        before=request.messages[: places[-1]],
        rounds=[message for message in after if message["role"] == "assistant"],
    )


def _heard(talk: _Talk) -> list[str]:
    """Return what people said in as many last messages as the run is to look at."""
    found = _LAST.search(talk.prompt)
    said = [message for message in talk.before if _words(message)]
    last = said[-int(found[1]) :] if found else said
    return [message["content"][-1]["text"] for message in last if message["role"] == "user"]


def _words(message: Mapping[str, Any]) -> str:
    return "\n".join(block["text"] for block in message["content"] if block["type"] == "text")


def _reply(content: list[dict[str, Any]], stop: str, request: Request, *, cached: float) -> Reply:
    size = sum(len(str(message["content"])) for message in request.messages) + len(str(request.system))
    tokens = Tokens(input=int(size * (1 - cached)) // 4, cache_read=int(size * cached) // 4, output=40)
    return Reply(content=content, stop_reason=stop, tokens=tokens)


def _call(tool: str, talk: _Talk, number: int = 0, /, **given: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"t{len(talk.rounds)}_{number}", "name": tool, "input": given}


def _writes(talk: _Talk, texts: Mapping[Path, str]) -> list[dict[str, Any]]:
    each = enumerate(texts.items())
    return [_call("write", talk, number, file_path=str(path), content=text) for number, (path, text) in each]


def _text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def _head(name: str) -> str:
    return f"---\nname: {name}\ndescription: what belongs to {name}\ntype: project\n---\n\n"


def _pointer(note: Path) -> str:
    return f"- [{note.stem}]({note.name}): what belongs to {note.stem}"


def _without(text: str, marks: Sequence[str]) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not set(MARK.findall(line)) & set(marks))


def _text_of(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _notes_of(memory: Path) -> str:
    return "".join(path.read_text() for path in sorted(memory.glob("*.md")))


def _all_of(folder: Path) -> str:
    """Return the notes, with those of the team; of a folder of logs all that is in it."""
    deep = folder.name == "logs"
    paths = folder.rglob("*.md") if deep else [*folder.glob("*.md"), *folder.glob("team/*.md")]
    return "".join(path.read_text() for path in sorted(paths))
