"""Chat by rules: greet, note, quote what was recalled, and say honestly what this is."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gateway.llm.standin.answers import Answer, ToolCall
from gateway.llm.standin.extraction_rules import TEAM_DIRECTORY
from gateway.llm.standin.facts import facts_in, split_speaker
from gateway.llm.standin.request import Conversation, Pointer, path_at, pointers
from gateway.llm.standin.words import stems

_GREETING = re.compile(
    r"^\W*(?:hi|hello|hey|good (?:morning|afternoon|evening)|hallo|bonjour|hola|你好|こんにちは|привет)\b",
    re.IGNORECASE,
)
ABOUT_ME = re.compile(r"\b(?:know|remember)\b[^.?!\n]*\b(?:me|i)\b|\babout me\b|\bwho am i\b", re.IGNORECASE)
_QUESTION = re.compile(
    r"[?？]|^\W*(?:who|what|when|where|which|why|how|can|could|do|does|is|are|tell me|show me)\b",
    re.IGNORECASE,
)
_WANTS_LIST = re.compile(r"\buse a tool\b|\blist (?:my|your) notes\b", re.IGNORECASE)
_SHARE = re.compile(
    r"^\W*(?:please )?share (?:this |that |it )?with (?:the|my|our) team\b[\s:,.!]*(.*)", re.IGNORECASE | re.DOTALL
)
_AGE = re.compile(r"\b(\d+) days? (?:old|ago)\b|\b(today|yesterday)\b|\b(\d+) days\b", re.IGNORECASE)
_FILE = re.compile(r"[^\s`\"'()<>]+\.md\b")
_FRONTMATTER = re.compile(r"^---[ \t]*\n.*?\n---[ \t]*\n?", re.DOTALL | re.MULTILINE)
_FENCE = re.compile(r"</?[a-z-]+>")
"""The tag around what other members of a project wrote."""
_MAX_QUOTES = 3
_AS_IT_IS = "write it again as it is"
"""What the tool says of a day without a date: rules can't tell whether one is meant."""

UNKNOWN = "I don't know that: nothing I was told fits. (I'm the built-in stand-in: rules, no model.)"
_NO_TEAM = "There is no team memory in this chat; `/team` says why."
_SHARE_WHAT = "Share what? Write “share this with the team:”, and the words behind it."
_KEEPS = "Tell me something about yourself, and I'll keep it."
_KEEPS_NOTHING = "Memory is off here, so I keep nothing of what you tell me."
WHAT_I_AM = (
    "I'm Reverie's **built-in stand-in**: a small server with rules, no model. I don't think, so I can't "
    "help with that. What I can do:\n\n"
    "- **note** what you tell me about yourself or your project (“I prefer short answers”),\n"
    "- **quote** it again when you ask, also in a later session,\n"
    "- **list my notes**, or give a **long answer** to show how that looks."
)


@dataclass(frozen=True, kw_only=True)
class _Recalled:
    """An injected note: where it comes from, how old it says it is, and its text."""

    file: str
    age: str
    text: str


def chat(talk: Conversation) -> Answer:
    """Answer a person."""
    asked = split_speaker(talk.prompt)[1]
    if "long answer" in asked.casefold():
        return Answer(text=_long_answer())
    if _WANTS_LIST.search(asked):
        return _list_notes(talk)
    if shared := _SHARE.match(asked):
        return _share(talk, shared[1] or _said_before(talk))
    parts = []
    if _GREETING.search(asked):
        parts.append("Hello!")
    facts, asks = [fact.sentence for fact in facts_in([talk.prompt])], bool(_QUESTION.search(asked))
    if facts:
        parts.append(f"{'Noted' if talk.memory_dir else 'Heard'}:{_quoted(facts)}")
    if asks:
        parts.append(_from_memory(talk, asked) or UNKNOWN)
    elif not facts:
        parts.append("I'm Reverie's **built-in stand-in**: rules, no model." if parts else WHAT_I_AM)
    if not talk.memory_dir and (facts or not asks):
        parts.append(_KEEPS_NOTHING)
    elif not asks and not facts and WHAT_I_AM not in parts:
        parts.append(_KEEPS)
    return Answer(text="\n\n".join(parts))


def _quoted(facts: Sequence[str]) -> str:
    return f" “{facts[0]}”" if len(facts) == 1 else "\n\n" + "\n".join(f"- “{fact}”" for fact in facts)


def _said_before(talk: Conversation) -> str:
    """Return what the person said last before this; "" if nothing."""
    said = (split_speaker(each.text)[1] for each in reversed(talk.before) if each.role == "user" and each.text)
    return next((words for words in said if not _SHARE.match(words)), "")


def _share(talk: Conversation, said: str) -> Answer:
    """Write a note and its line in the index into the team's memory, then tell what came of it."""
    directory, words = TEAM_DIRECTORY.search(talk.system), " ".join(said.split())
    if directory is None or not words:
        return Answer(text=_SHARE_WHAT if directory else _NO_TEAM)
    team = path_at(directory[1])
    again = len(talk.rounds) == 1 and any(_AS_IT_IS in result.text for result in talk.rounds[0] if result.is_error)
    if talk.rounds and not again:
        results = [result for turn in talk.rounds for result in turn]
        if faults := [result.text for result in talk.rounds[-1] if result.is_error]:
            return Answer(text=f"The tool said: {faults[0]}")
        waits = any("staged" in result.text for result in results)
        return Answer(text="It waits for your word." if waits else "It is shared with the team now.")
    slug = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:40].strip("-") or "shared"
    title = words[:60].translate(str.maketrans("[]", "()"))
    header = "\n".join(f"{key}: {json.dumps(value)}" for key, value in (("name", title), ("description", words)))
    note = {"file_path": f"{team}/{slug}.md", "content": f"---\n{header}\ntype: project\n---\n\n{words}\n"}
    line = {"file_path": f"{team}/MEMORY.md", "content": f"- [{title}]({slug}.md)"}
    share = [ToolCall(name="write", input=note), ToolCall(name="append", input=line)]
    return Answer(tools=share[:1] if again else share)


def _from_memory(talk: Conversation, asked: str) -> str:
    """Quote recalled notes that fit the question, else fitting lines of the index; empty if none fits."""
    wanted = stems(asked)
    about_me = bool(ABOUT_ME.search(asked))
    recalled = [note for block in (*talk.injected, *talk.injected_before) for note in _recalled(block)]
    fitting = [note for note in recalled if about_me or wanted & stems(f"{note.file} {note.text}")]
    if fitting:
        return "\n\n".join(_quote(note) for note in fitting[:_MAX_QUOTES])
    lines = [line for line in _index(talk) if about_me or wanted & stems(f"{line.title} {line.file} {line.hook}")]
    if not lines:
        return ""
    told = "\n".join(f"- **{line.title}**: {line.hook or 'no more than the title'}" for line in lines[:5])
    return f"My index has this:\n\n{told}"


def _index(talk: Conversation) -> Sequence[Pointer]:
    return pointers("\n".join([talk.system, *talk.injected]))


def _quote(note: _Recalled) -> str:
    name = note.file.rsplit("/", 1)[-1]
    age = _AGE.search(note.age)
    if not age:
        return f"I remember: “{note.text}” (from `{name}`)"
    if age[2]:
        return f"I remember: “{note.text}” (saved {age[2].lower()}, from `{name}`)"
    days = int(age[1] or age[3])
    if days < 2:
        return f"I remember: “{note.text}” (saved {days} day(s) ago, from `{name}`)"
    return f"I remember: “{note.text}” (from `{name}`, {days} days old: it may no longer hold)"


def _recalled(block: str) -> Iterator[_Recalled]:
    """Read an injected block: a header that names a file, an empty line, the note."""
    head, gap, rest = block.partition("\n\n")
    while gap and not _FILE.search(head):  # a header may itself have paragraphs before the path
        more, gap, rest = rest.partition("\n\n")
        head = f"{head}\n\n{more}"
    file = _FILE.search(head)
    if not file:
        return
    body = _FENCE.sub("", _FRONTMATTER.sub("", rest, count=1)).strip()
    text = " ".join(" ".join(line.strip(" \t-*•#") for line in body.split("\n\n")[0].splitlines()).split())
    if text and not pointers(rest):
        yield _Recalled(file=file.group(0), age=head, text=text)


def _list_notes(talk: Conversation) -> Answer:
    if talk.rounds:
        result = talk.rounds[-1][-1]
        if result.is_error:
            return Answer(text=f"The tool said: {result.text}")
        names = [line.rsplit("/", 1)[-1] for line in result.text.splitlines() if line.rstrip().endswith(".md")]
        listed = "\n".join(f"- `{name}`" for name in names)
        return Answer(text=f"I have {len(names)} file(s):\n\n{listed}" if names else "I have no notes yet.")
    if "glob" not in talk.tools or not talk.memory_dir:
        return Answer(text="I was given no tool to list notes with." if talk.memory_dir else _KEEPS_NOTHING)
    call = ToolCall(name="glob", input={"pattern": "*.md", "path": talk.memory_dir})
    return Answer(text="Let me look.", tools=[call])


def _long_answer() -> str:
    """About nine thousand characters, with a table and a code fence, to try out splitting and rendering."""
    table = "\n".join(["| part | what it does |", "| --- | --- |", *(f"| part {n} | row {n} |" for n in range(1, 9))])
    code = "\n".join(["```python", *(f"print('line {n} of a fence')" for n in range(1, 41)), "```"])
    paragraphs = [
        f"**Paragraph {n}.** This text has no meaning. It is here to be long, so that you can see "
        "how an answer is split over several messages, whether words stay whole, and whether *formatting* "
        f"survives the cut. It is number {n} of its kind, and the next one differs only in its number."
        for n in range(1, 28)
    ]
    return "\n\n".join(["# A long answer", *paragraphs[:8], table, *paragraphs[8:16], code, *paragraphs[16:]])
