"""What the stand-in answers: rules over the request, the same answer to the same request.

It tells the kinds of request apart by what a model would see too: a schema with `selected_memories` is a
recall, a prompt that begins as an extraction run's does, or speaks of "memory extraction" or "consolidation" and
names a "Memory directory: ", is such a run, and the rest is chat.
"""

import re
from collections.abc import Mapping
from typing import Any

from gateway.llm.standin.answers import Answer, ToolCall, structured
from gateway.llm.standin.chat_rules import ABOUT_ME, chat
from gateway.llm.standin.dream_rules import dream
from gateway.llm.standin.extraction_rules import extract
from gateway.llm.standin.request import Conversation, is_manifest_line, manifest_lines
from gateway.llm.standin.words import stems

MAX_SELECTED = 5
_PERSONAL = frozenset({"user", "feedback"})
_QUERY = re.compile(r"^(?:query|message|question)\b[^:\n]*:[ \t]*", re.IGNORECASE | re.MULTILINE)
_TAGGED = re.compile(r"<(message|query)>\s*(.*?)\s*</\1>", re.DOTALL)
_LABEL = re.compile(r"^(?:.*:\s*$|recently used tools\b.*|available memories\b.*)", re.IGNORECASE)


def answer_by_rules(body: Mapping[str, Any]) -> Answer:
    """Answer a request that the validation has taken."""
    talk = Conversation.of(body)
    format_ = (body.get("output_config") or {}).get("format")
    if format_:
        schema = format_["schema"]
        if "selected_memories" in (schema.get("properties") or {}):
            return structured({"selected_memories": select(talk.last_user_text)})
        return structured(example_of(schema, schema))
    choice = body.get("tool_choice") or {}
    if choice.get("type") in ("any", "tool"):
        return _forced(talk, choice.get("name"))
    answer = _by_kind(talk)
    if choice.get("disable_parallel_tool_use") and len(answer.tools) > 1:
        return Answer(text=answer.text, tools=answer.tools[:1])
    return answer


def select(text: str) -> list[str]:
    """Pick up to five files of a manifest that share words with the query beside it, the best first."""
    wanted = stems(_query(text))
    about_me = bool(ABOUT_ME.search(text))
    scored = [
        (len(wanted & stems(f"{line.file} {line.about}")) + (about_me and line.type in _PERSONAL), line.file)
        for line in manifest_lines(text)
    ]
    best = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])
    return list(dict.fromkeys(file for _, file in best))[:MAX_SELECTED]


def example_of(schema: Any, root: Mapping[str, Any]) -> Any:
    """Return the plainest value that a JSON schema allows: empty lists and strings, required fields only."""
    if not isinstance(schema, Mapping):
        return None
    if "$ref" in schema:
        name = str(schema["$ref"]).rsplit("/", 1)[-1]
        return example_of((root.get("$defs") or root.get("definitions") or {}).get(name), root)
    fixed = [schema["const"]] if "const" in schema else schema.get("enum")
    if fixed:
        return fixed[0]
    branches = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    return example_of(branches[0], root) if branches else _plain(schema, root)


def _plain(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        properties = schema.get("properties") or {}
        return {name: example_of(properties.get(name), root) for name in schema.get("required") or ()}
    if kind == "array":
        return [example_of(schema.get("items"), root)] * int(schema.get("minItems", 0))
    values: dict[Any, Any] = {"string": "", "integer": 0, "number": 0, "boolean": False}
    return values.get(kind)


def _by_kind(talk: Conversation) -> Answer:
    named = "Memory directory: " in talk.prompt
    prompt, system = talk.prompt.casefold(), talk.system.casefold()
    if (named and "memory extraction" in prompt) or prompt.startswith("this is a memory extraction run"):
        return extract(talk)
    fresh = not talk.before and "Memory directory: " in talk.system and "memory consolidation" in system
    if fresh or (named and "consolidation" in prompt + system):
        return dream(talk)
    return chat(talk)


def _query(text: str) -> str:
    """The query beside a manifest: what a tag or label marks, else what is neither manifest nor label."""
    if tagged := _TAGGED.search(text):
        return tagged[2]
    if found := _QUERY.search(text):
        rest = text[found.end() :].splitlines()
        end = next((i for i, line in enumerate(rest) if is_manifest_line(line) or (i and _LABEL.match(line))), None)
        return "\n".join(rest[:end])
    lines = (line for line in text.splitlines() if not is_manifest_line(line) and not _LABEL.match(line))
    return "\n".join(lines)


def _forced(talk: Conversation, name: str | None) -> Answer:
    """A tool must be called: the named one, or the first, with the plainest input that it takes."""
    tool = name or next(iter(talk.tools))
    schema = talk.tools.get(tool, {})
    return Answer(tools=[ToolCall(name=tool, input=example_of({"type": "object", **schema}, schema) or {})])
