"""What somebody is in a chat, as the API's `ChatMember`."""

from collections.abc import Mapping
from typing import Any

from adapters.standins.telegram_chats import Person

_RIGHTS = (
    "can_manage_chat can_delete_messages can_manage_video_chats can_restrict_members can_promote_members "
    "can_change_info can_invite_users can_post_stories can_edit_stories can_delete_stories"
)
_ADMINISTRATOR: Mapping[str, bool] = {
    "can_be_edited": False,
    "is_anonymous": False,
    **dict.fromkeys(_RIGHTS.split(), True),
}
_RESTRICTIONS = (
    "can_send_messages can_send_audios can_send_documents can_send_photos can_send_videos can_send_video_notes "
    "can_send_voice_notes can_send_polls can_send_other_messages can_add_web_page_previews can_change_info "
    "can_invite_users can_pin_messages can_manage_topics can_edit_tag can_react_to_messages"
)
_RESTRICTED: Mapping[str, Any] = {"is_member": True, "until_date": 0, **dict.fromkeys(_RESTRICTIONS.split(), False)}
_MORE: Mapping[str, Mapping[str, Any]] = {
    "creator": {"is_anonymous": False},
    "administrator": _ADMINISTRATOR,
    "restricted": _RESTRICTED,
    "kicked": {"until_date": 0},
}


def member(person: Person, status: str) -> dict[str, Any]:
    """Return a member with the fields that this status has; who is restricted here may not write."""
    return {"status": status, "user": person.api(), **_MORE.get(status, {})}
