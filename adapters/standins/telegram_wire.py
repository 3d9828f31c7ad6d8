"""The Bot API on the wire: how parameters arrive, which ones each method knows, and how it refuses."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import UploadFile
from starlette.requests import Request

Given = Mapping[str, Any]
"""A method's parameters, decoded."""
Oddity = Callable[[str], None]
"""Where a method reports what the real API would swallow in silence."""

TEXT, INT, BOOL, JSON, CHAT, FILE = "text", "int", "bool", "json", "chat", "file"

_POST = {
    "chat_id": CHAT,
    "message_thread_id": INT,
    "business_connection_id": TEXT,
    "direct_messages_topic_id": INT,
    "parse_mode": TEXT,
    "disable_notification": BOOL,
    "protect_content": BOOL,
    "allow_paid_broadcast": BOOL,
    "message_effect_id": TEXT,
    "suggested_post_parameters": JSON,
    "reply_parameters": JSON,
    "reply_markup": JSON,
}
_CAPTION = {"caption": TEXT, "caption_entities": JSON}
_SCOPED = {"scope": JSON, "language_code": TEXT}

METHODS: Mapping[str, Mapping[str, str]] = {
    "getMe": {},
    "getUpdates": {"offset": INT, "limit": INT, "timeout": INT, "allowed_updates": JSON},
    "setWebhook": {
        "url": TEXT,
        "certificate": FILE,
        "ip_address": TEXT,
        "max_connections": INT,
        "allowed_updates": JSON,
        "drop_pending_updates": BOOL,
        "secret_token": TEXT,
    },
    "deleteWebhook": {"drop_pending_updates": BOOL},
    "getWebhookInfo": {},
    "sendMessage": {**_POST, "text": TEXT, "entities": JSON, "link_preview_options": JSON},
    "sendMessageDraft": {
        "chat_id": CHAT,
        "message_thread_id": INT,
        "draft_id": INT,
        "text": TEXT,
        "parse_mode": TEXT,
        "entities": JSON,
        "can_stop": BOOL,
        "keep_on_stop": BOOL,
    },
    "editMessageText": {
        "business_connection_id": TEXT,
        "chat_id": CHAT,
        "message_id": INT,
        "inline_message_id": TEXT,
        "text": TEXT,
        "parse_mode": TEXT,
        "entities": JSON,
        "link_preview_options": JSON,
        "reply_markup": JSON,
    },
    "deleteMessage": {"chat_id": CHAT, "message_id": INT},
    "sendChatAction": {
        "business_connection_id": TEXT,
        "chat_id": CHAT,
        "message_thread_id": INT,
        "action": TEXT,
    },
    "setMyCommands": {"commands": JSON, **_SCOPED},
    "getMyCommands": _SCOPED,
    "deleteMyCommands": _SCOPED,
    "setMessageReaction": {"chat_id": CHAT, "message_id": INT, "reaction": JSON, "is_big": BOOL},
    "answerCallbackQuery": {
        "callback_query_id": TEXT,
        "text": TEXT,
        "show_alert": BOOL,
        "url": TEXT,
        "cache_time": INT,
    },
    "getFile": {"file_id": TEXT},
    "getChat": {"chat_id": CHAT},
    "getChatMember": {"chat_id": CHAT, "user_id": INT},
    "sendDocument": {
        **_POST,
        **_CAPTION,
        "document": FILE,
        "thumbnail": FILE,
        "disable_content_type_detection": BOOL,
    },
    "sendPhoto": {
        **_POST,
        **_CAPTION,
        "photo": FILE,
        "show_caption_above_media": BOOL,
        "has_spoiler": BOOL,
    },
}
"""Every method that the stand-in answers, with its parameters in Bot API 10.0 (of drafts: 10.3), and their encoding."""

BY_LOWER_NAME: Mapping[str, str] = {name.lower(): name for name in METHODS}
"""The API takes method names in any case."""


class Refused(Exception):
    """The API answers `ok: false`; carries what stands in the answer."""

    def __init__(self, status: int, description: str, **parameters: int) -> None:
        super().__init__(description)
        self.status = status
        self.description = description
        self.parameters = parameters

    @classmethod
    def bad(cls, reason: str) -> "Refused":
        """Make the most common refusal, 400 with `Bad Request: ` before the reason."""
        return cls(400, f"Bad Request: {reason}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Upload:
    """A file that came along in a multipart request."""

    name: str
    content: bytes
    mime_type: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Sent:
    """What a request carried before anything was checked: parameters as they came, and files by part name."""

    parameters: Mapping[str, Any] = field(default_factory=dict)
    uploads: Mapping[str, Upload] = field(default_factory=dict)


async def read(request: Request) -> Sent:
    """Read query, form, multipart or JSON parameters; a broken body is refused."""
    parameters: dict[str, Any] = dict(request.query_params)
    uploads: dict[str, Upload] = {}
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        parameters |= _object(await request.body())
    elif kind in {"application/x-www-form-urlencoded", "multipart/form-data"}:
        async with request.form() as form:
            for name, value in form.multi_items():
                if isinstance(value, UploadFile):
                    uploads[name] = await _upload(value)
                else:
                    parameters[name] = value
    return Sent(parameters=parameters, uploads=uploads)


def _object(body: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(body or b"{}")
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise Refused.bad("can't parse JSON object")
    return parsed


async def _upload(value: UploadFile) -> Upload:
    return Upload(
        name=value.filename or "file",
        content=await value.read(),
        mime_type=value.content_type or "application/octet-stream",
    )


def decode(method: str, sent: Sent) -> dict[str, Any]:
    """Turn what came into Python values by the method's table; what the table doesn't know is left out.

    Empty values count as absent, as in the API. A file becomes an `Upload` or, if it is an id, a string.
    """
    known = METHODS[method]
    decoded = {
        name: _value(known[name], name, value, sent)
        for name, value in sent.parameters.items()
        if name in known and value is not None and value != ""
    }
    direct = {name: upload for name, upload in sent.uploads.items() if known.get(name) == FILE}
    return decoded | direct


def strangers(method: str, sent: Sent) -> list[str]:
    """Name the parameters that the method does not have; the API ignores them, a test should not."""
    attached = {str(value).removeprefix("attach://") for value in sent.parameters.values()}
    names = [*sent.parameters, *(name for name in sent.uploads if name not in attached)]
    return sorted(name for name in names if name not in METHODS[method])


def _value(kind: str, name: str, value: Any, sent: Sent) -> Any:
    if kind == INT:
        return _integer(name, value)
    if kind == BOOL:
        return str(value).strip().lower() in {"true", "yes", "1"}
    if kind == CHAT:
        return _chat(value)
    if kind == JSON:
        return _json(name, value)
    text = value if isinstance(value, str) else json.dumps(value)
    if kind == FILE and text.startswith("attach://"):
        return _attached(text, sent)
    return text


def _integer(name: str, value: Any) -> int:
    try:
        return int(str(value).strip())
    except ValueError:
        raise Refused.bad(f'invalid parameter "{name}": integer expected') from None


def _chat(value: Any) -> int | str:
    text = str(value).strip()
    try:
        return int(text)
    except ValueError:
        return text


def _json(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise Refused.bad(f"can't parse {name.replace('_', ' ')} JSON object") from None


def _attached(text: str, sent: Sent) -> Upload:
    try:
        return sent.uploads[text.removeprefix("attach://")]
    except KeyError:
        raise Refused.bad("wrong file identifier/HTTP URL specified") from None
