"""Sentences that state something lasting about a person or a project, found by their first words."""

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from gateway.llm.standin.words import stems

_PASSING = (
    r"fine|ok|okay|good|great|well|tired|here|back|sorry|glad|happy|not|just|done|late|busy|sure|afraid|"
    r"hungry|curious|ready|so|very|really|too|still|in|on|at|about|also|only|almost|a bit|out|off|"
    r"home|confused|lost|stuck|new here"
)
_KINDS: tuple[tuple[str, str, str, re.Pattern[str]], ...] = tuple(
    (kind, kind_of_note, title, re.compile(pattern, re.IGNORECASE))
    for kind, kind_of_note, title, pattern in (
        ("name", "user", "Name", r"\bmy name(?:'s|’s| is)\b|\bcall me\b|我叫|我的名字|私の名前|名前は"),
        (
            "instruction",
            "feedback",
            "How to answer",
            r"^(?:please,? )?(?:always|never|from now on|don't ever|do not ever)\b|\bfrom now on\b",
        ),
        ("deadline", "project", "Deadline", r"\bdeadline\b|\bis due (?:on|by|in)\b"),
        (
            "decision",
            "project",
            "Decision",
            r"\bwe(?:'ve| have)? (?:decided|agreed)\b"
            r"|\bwe(?: always| never)? (?:use|deploy|release|ship|meet)\b",
        ),
        ("project", "project", "Project", r"^(?:and )?our [\w' -]{2,60}? (?:is|are|lives?|runs?|uses?)\b"),
        (
            "preference",
            "user",
            "Preference",
            r"\bi(?: really| usually| always| also)? (?:prefer|like|love|enjoy|hate|dislike|can't stand)\b"
            r"|\bi (?:always|never|usually)\b|\bmy favou?rite\b|我喜欢|我喜歡|好きです|嫌いです",
        ),
        (
            "about",
            "user",
            "About the person",
            rf"\bi(?:'m|’m| am) (?!(?:{_PASSING})\b)(?!\w+ing\b)\w"
            r"|\bi (?:live|work|study) (?:in|at|as|for|with)\b"
            r"|\bmy (?:job|role|birthday|timezone|time zone|pronouns?)\b|我是|私は",
        ),
        (
            "reminder",
            "user",
            "To remember",
            r"\bremember that\b|^(?:please )?remember:|请记住|請記住|記住|记住|覚えて",
        ),
    )
)
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_SPEAKER = re.compile(
    r"^(?:From (?P<sender>[^\n]{1,64}?) \([^)\n]*\):"
    r"|\[(?P<tag>[^\]\n]{1,60})\]:?|(?P<name>[A-Z][\w'’-]*(?: [A-Z][\w'’-]*){0,2}):)\s+"
)
_NO_SPEAKERS = frozenset({"Remember", "Note", "Please", "Deadline", "Update", "Hi", "Hello", "Hey", "Decision"})
_NO_TOPIC = frozenset({"prefer", "decid", "deadlin", "alway", "never", "hi", "hello", "hey"})
_MAX_FACT = 300
_MAX_SLUG_WORDS = 3


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A sentence to keep, quoted as it was said; `type` is one of the four note types."""

    kind: str
    type: str
    label: str
    sentence: str
    speaker: str = ""

    @property
    def quoted(self) -> str:
        """The sentence, with its speaker in front where one was named."""
        return f"{self.speaker}: {self.sentence}" if self.speaker else self.sentence

    @property
    def title(self) -> str:
        """A short heading."""
        key = " ".join(_key_words(self.sentence))
        core = self.label if self.kind == "name" or not key else f"{self.label}: {key}"
        return f"{core} ({self.speaker})" if self.speaker else core

    @property
    def file(self) -> str:
        """The note's file name: the same fact always gets the same one; a new name replaces the old."""
        words = [] if self.kind == "name" else _key_words(self.sentence)
        parts = [self.kind, *([self.speaker] if self.speaker else []), *words]
        plain = unicodedata.normalize("NFKD", "-".join(parts)).encode("ascii", "ignore").decode().lower()
        slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
        if self.kind != "name" and not words:
            slug += "-" + hashlib.sha256(self.sentence.encode()).hexdigest()[:8]
        return f"{slug}.md"


def facts_in(texts: Iterable[str]) -> list[Fact]:
    """Return the lasting statements in what people said, in order, each sentence once."""
    found: dict[str, Fact] = {}
    for text in texts:
        speaker, said = split_speaker(_CODE.sub("\n", text))
        for sentence in _sentences(said):
            fact = _fact(sentence, speaker)
            if fact:
                found.setdefault(fact.quoted.casefold(), fact)
    return list(found.values())


def split_speaker(text: str) -> tuple[str, str]:
    """Take the speaker, if one is named in front, from what was said."""
    match = _SPEAKER.match(text)
    name = (match["sender"] or match["tag"] or match["name"]) if match else ""
    if not match or name in _NO_SPEAKERS:
        return "", text
    return name, text[match.end() :]


def _sentences(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(">")]
    parts = (part.strip(" \t-*•") for part in _SENTENCE.split("\n".join(lines)))
    return [part for part in parts if part and not part.endswith(("?", "？"))]


def _fact(sentence: str, speaker: str) -> Fact | None:
    if len(sentence) > _MAX_FACT:
        return None
    plain = sentence.replace("’", "'")
    for kind, type_, label, pattern in _KINDS:
        if pattern.search(plain):
            return Fact(kind=kind, type=type_, label=label, sentence=sentence, speaker=speaker)
    return None


def _key_words(sentence: str) -> list[str]:
    """The first meaningful words, in the order in which they stand."""
    words = (word for word in re.findall(r"[A-Za-zÀ-ɏ0-9]+", sentence) if len(word) > 1)
    telling = (word.lower() for word in words if stems(word) - _NO_TOPIC)
    return list(dict.fromkeys(telling))[:_MAX_SLUG_WORDS]
