"""What the model is told of its tools: the same bytes in every request, whatever the rights, as the cache needs it."""

from typing import Any


def _tool(
    name: str, description: str, required: dict[str, str], optional: dict[str, Any] | None = None
) -> dict[str, Any]:
    properties = {key: {"type": "string", "description": text} for key, text in required.items()} | (optional or {})
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
    return {"name": name, "description": description, "input_schema": schema}


_PATH = "Absolute, or relative to the memory directory."

DEFINITIONS: tuple[dict[str, Any], ...] = (
    _tool(
        "read",
        "Read a text file. For long files give view_range.",
        {"file_path": _PATH},
        {
            "view_range": {
                "type": "array",
                "items": {"type": "integer"},
                "description": "First and last line, counted from 1; -1 as the last means to the end.",
            }
        },
    ),
    _tool(
        "write",
        "Write a whole Markdown file; makes missing folders. A file that exists must have been read before.",
        {"file_path": _PATH, "content": "The whole new content."},
    ),
    _tool(
        "edit",
        "Replace a passage of a Markdown file. The passage must occur exactly once, unless replace_all is true.",
        {
            "file_path": _PATH,
            "old_string": "The passage as it stands.",
            "new_string": "What takes its place.",
        },
        {"replace_all": {"type": "boolean", "description": "Replace every occurrence."}},
    ),
    _tool(
        "append",
        "Add text at the end of a Markdown file, on a new line; makes the file if it is missing.",
        {"file_path": _PATH, "content": "The text to add."},
    ),
    _tool(
        "delete",
        "Delete a memory note; its line in the index goes with it.",
        {"file_path": _PATH},
    ),
    _tool(
        "glob",
        "List files by a pattern such as **/*.md, newest first.",
        {"pattern": "A relative pattern."},
        {"path": {"type": "string", "description": "Where to look; the memory directory if left out."}},
    ),
    _tool(
        "grep",
        "Search text files line by line for a regular expression.",
        {"pattern": "The regular expression."},
        {"path": {"type": "string", "description": "A file or folder; the memory directory if left out."}},
    ),
    _tool(
        "Agent",
        "Have one of the agents listed in the system prompt do a task, and get its report. It sees nothing of this "
        "conversation, so the prompt says all that it needs.",
        {"name": "The agent's name.", "prompt": "The task, complete in itself."},
    ),
)

WRITING = frozenset({"write", "edit", "append", "delete"})
"""The tools that change files."""
