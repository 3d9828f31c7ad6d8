"""What came along with a message: its files, and the messages that it answers or passes on."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from adapters.base import Attachment


@dataclass(frozen=True, kw_only=True, slots=True)
class Shared:
    """A message that came along with another one, in Slack's own markup."""

    name: str
    user: str
    text: str


def attachments(files: Iterable[Mapping[str, Any]]) -> Iterable[Attachment]:
    """Yield the files. Of a file in a Slack Connect channel there may be a stub only: an id, and nothing else."""
    for file in files:
        media_type, size = str(file.get("mimetype") or ""), file.get("size")
        main = media_type.split("/", maxsplit=1)[0]
        kind = {"image": "photo", "audio": "audio", "video": "video"}.get(main, "document")
        yield Attachment(
            kind="voice" if file.get("subtype") == "slack_audio" else kind,
            file_id=str(file.get("id") or ""),
            name=str(file.get("name") or ""),
            media_type=media_type,
            size=size if isinstance(size, int) else None,
        )


def shared_with(event: Mapping[str, Any]) -> Shared | None:
    """Return the message that was passed on with this one, or that its reply was also sent to the channel with.

    Of an ordinary reply Slack names only who began the thread, not what was said there.
    """
    for each in event.get("attachments") or ():
        if each.get("is_share") and each.get("text"):
            name = str(each.get("author_name") or each.get("author_subname") or "")
            return Shared(name=name, user=str(each.get("author_id") or ""), text=str(each["text"]))
    root = event.get("root") or {}
    if root.get("text"):
        return Shared(name="", user=str(root.get("user") or ""), text=str(root["text"]))
    return None
