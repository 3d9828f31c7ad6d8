"""Files in and out of Slack, against the stand-in."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from adapters.base import Attachment, Button
from adapters.doubles import RecordingInbox
from adapters.errors import Permanent, Transient, Unsure
from adapters.slack.adapter import SlackAdapter
from adapters.slack.files import is_of
from adapters.standins.slack import SlackStandin
from tests.unit.adapters.slack_stage import ADA, place, posts, serve, standin

PNG = b"\x89PNG\r\n\x1a\n" + bytes(200)
LONG_AGO = timedelta(minutes=1)


@pytest.fixture
async def slack() -> SlackStandin:
    return standin()


@pytest.fixture
async def inbox() -> RecordingInbox:
    return RecordingInbox()


@pytest.fixture
async def adapter(slack: SlackStandin, inbox: RecordingInbox) -> AsyncIterator[SlackAdapter]:
    async with serve(slack, inbox) as made:
        yield made


@pytest.fixture
def into(tmp_path: Path) -> Path:
    return tmp_path / "came-along"


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "report.csv"
    path.write_bytes(b"a,b\n1,2\n")
    return path


async def attached(slack: SlackStandin, inbox: RecordingInbox, file_id: str) -> Attachment:
    slack.say(slack.dm("U1"), "U1", "look", files=[file_id])
    await inbox.until(lambda: bool(inbox.got))
    (attachment,) = inbox.got[0].attachments
    return attachment


def kept(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def remove(path: Path) -> None:
    path.unlink()


# in


async def test_a_file_is_described_and_fetched_when_it_is_wanted(
    slack: SlackStandin, adapter: SlackAdapter, inbox: RecordingInbox, into: Path
) -> None:
    file_id = slack.file("U1", "sky.png", PNG, mimetype="image/png")
    attachment = await attached(slack, inbox, file_id)
    assert attachment == Attachment(
        kind="photo", file_id=file_id, name="sky.png", media_type="image/png", size=len(PNG)
    )
    assert slack.downloads == []
    await adapter.fetch(attachment, address=place("D1"), into=into, limit=len(PNG))
    assert kept(into) == PNG


async def test_of_a_stub_slack_is_asked_what_it_is(
    slack: SlackStandin, adapter: SlackAdapter, inbox: RecordingInbox, into: Path
) -> None:
    attachment = await attached(slack, inbox, slack.file("U1", "a.pdf", b"%PDF-1.7 and more", stub=True))
    assert (attachment.kind, attachment.name, attachment.size) == ("document", "", None)
    await adapter.fetch(attachment, address=place("D1"), into=into, limit=100)
    assert kept(into) == b"%PDF-1.7 and more"


@pytest.mark.parametrize("stub", [False, True])
async def test_what_is_named_too_large_is_not_even_asked_for(
    slack: SlackStandin, adapter: SlackAdapter, inbox: RecordingInbox, into: Path, stub: bool
) -> None:
    attachment = await attached(slack, inbox, slack.file("U1", "a.png", PNG, mimetype="image/png", stub=stub))
    with pytest.raises(Permanent, match="larger than 100 bytes"):
        await adapter.fetch(attachment, address=place("D1"), into=into, limit=100)
    assert (slack.downloads, kept(into)) == ([], None)


async def test_what_turns_out_too_large_is_read_no_further_and_not_kept(
    slack: SlackStandin, adapter: SlackAdapter, inbox: RecordingInbox, into: Path
) -> None:
    attachment = await attached(slack, inbox, slack.file("U1", "a.bin", bytes(500_000), length=10))
    with pytest.raises(Permanent, match="larger than 1000 bytes"):
        await adapter.fetch(attachment, address=place("D1"), into=into, limit=1000)
    assert kept(into) is None


async def test_a_page_to_sign_in_is_no_picture_and_the_missing_scope_is_named(
    slack: SlackStandin, adapter: SlackAdapter, inbox: RecordingInbox, into: Path
) -> None:
    attachment = await attached(slack, inbox, slack.file("U1", "a.png", PNG, mimetype="image/png", page=True))
    with pytest.raises(Permanent, match="files:read"):
        await adapter.fetch(attachment, address=place("D1"), into=into, limit=9999)
    slack.withhold("files:read")
    with pytest.raises(Permanent, match="files:read"):
        await adapter.fetch(attachment, address=place("D1"), into=into, limit=9999)
    assert kept(into) is None


@pytest.mark.parametrize("content", [b"", b"\x89P", b"<!DOCTYPE html><title>Sign in</title>" * 9])
async def test_bytes_that_are_no_picture_are_not_taken_for_one(
    slack: SlackStandin, adapter: SlackAdapter, inbox: RecordingInbox, into: Path, content: bytes
) -> None:
    attachment = await attached(slack, inbox, slack.file("U1", "a.png", content, mimetype="image/png"))
    with pytest.raises(Permanent, match="not the file"):
        await adapter.fetch(attachment, address=place("D1"), into=into, limit=9999)
    assert kept(into) is None


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/a.png", "http://localhost/a.png", "https://evil.example/", "x"])
async def test_the_token_goes_to_no_other_host(
    slack: SlackStandin, adapter: SlackAdapter, into: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_id = slack.file("U1", "a.png", PNG, mimetype="image/png")
    shape = slack.workspace.file_shape
    elsewhere = {"url_private": url, "url_private_download": url}
    monkeypatch.setattr(slack.workspace, "file_shape", lambda file: {**shape(file), **elsewhere})
    with pytest.raises(Permanent, match="outside Slack"):
        await adapter.fetch(Attachment(kind="photo", file_id=file_id), address=place("D1"), into=into, limit=9999)
    assert (slack.downloads, kept(into)) == ([], None)


@pytest.mark.parametrize(
    ("url", "ours"),
    [
        ("https://files.slack.com/files-pri/T1-F1/a.png", True),
        ("https://slack.com/files-pri/T1-F1/a.png", True),
        ("https://files.slack.com:443/a.png", True),
        ("http://files.slack.com/a.png", False),
        ("http://slack.com/a.png", False),
        ("https://files.slack.com:8443/a.png", False),
        ("https://evilslack.com/a.png", False),
        ("https://slack.com.evil.example/a.png", False),
        ("https://slack.com@evil.example/a.png", False),
        ("https://u:p@files.slack.com/a.png", False),
        ("https://files.slack.com:x/a.png", False),
        ("//files.slack.com/a.png", False),
        ("", False),
    ],
)
def test_the_token_belongs_to_slacks_own_hosts(url: str, ours: bool) -> None:
    assert is_of(url, api_url="https://slack.com/api/") is ours


async def test_a_file_that_is_gone_is_gone_and_one_without_an_id_was_never_there(
    adapter: SlackAdapter, into: Path
) -> None:
    for file_id, word in (("F404", "gone"), ("", "does not say where")):
        with pytest.raises(Permanent, match=word):
            await adapter.fetch(Attachment(kind="voice", file_id=file_id), address=place("D1"), into=into, limit=1)


async def test_a_question_that_slack_does_not_answer_now_may_be_asked_again(
    slack: SlackStandin, adapter: SlackAdapter, into: Path
) -> None:
    attachment = Attachment(kind="photo", file_id=slack.file("U1", "a.png", PNG, mimetype="image/png"))
    slack.fail("files.info", retry_after=7)
    with pytest.raises(Transient) as told:
        await adapter.fetch(attachment, address=place("D1"), into=into, limit=9999)
    assert told.value.retry_after == 7


# out


async def test_a_file_goes_with_the_first_part_and_its_message_is_found_again(
    slack: SlackStandin, adapter: SlackAdapter, report: Path
) -> None:
    root = slack.say("C1", "U1", "the report, please")
    (post,) = posts(adapter, place("C1", root), "Here: **two** lines <!channel>", file=report)
    ts = await adapter.deliver(post)
    shown = slack.messages("C1", root)[-1]
    assert (shown.ts, shown.text.lstrip("\u2061\u2062\u2063\u2064")) == (ts, "Here: two lines &lt;!channel&gt;")
    (file,) = shown.files
    assert slack.workspace.files[file].content == kept(report)
    assert await adapter.find(post, since=datetime.now(UTC) - LONG_AGO) == ts
    assert await adapter.find(replace(post, key="other"), since=datetime.now(UTC) - LONG_AGO) is None


async def test_a_file_whose_answer_was_lost_is_found_and_not_sent_again(
    slack: SlackStandin, adapter: SlackAdapter, report: Path
) -> None:
    (post,) = posts(adapter, place("C1"), "Here.", file=report)
    slack.fail("files.completeUploadExternal", status=0, error="", after_acting=True)
    with pytest.raises(Unsure):
        await adapter.deliver(post)
    found = await adapter.find(post, since=datetime.now(UTC) - LONG_AGO)
    assert found
    assert await adapter.deliver(replace(post, message_id=found)) == found
    assert [len(shown.files) for shown in slack.messages("C1")] == [1]


async def test_a_file_takes_the_place_of_the_message_that_showed_the_answer_growing(
    slack: SlackStandin, adapter: SlackAdapter, report: Path
) -> None:
    root = slack.say("C1", "U1", "the report, please")
    live = await adapter.open_live(place("C1", root), key="k1:0", reply_to="", recipient=ADA)
    await live.close()
    (post,) = posts(adapter, place("C1", root), "Here.", file=report, message_id=live.message_id)
    for _ in range(2):
        ts = await adapter.deliver(post)
    assert [(shown.ts, len(shown.files)) for shown in slack.messages("C1", root)] == [(root, 0), (ts, 1)]


async def test_without_the_right_to_see_files_a_file_is_posted_all_the_same_and_once(
    slack: SlackStandin, adapter: SlackAdapter, report: Path
) -> None:
    slack.withhold("files:read")
    (post,) = posts(adapter, place("C1"), "Here.", file=report)
    assert await adapter.deliver(post) == slack.messages("C1")[0].ts
    assert len(slack.messages("C1")) == 1


async def test_a_missing_right_to_send_files_is_named_and_not_tried_for_days(
    slack: SlackStandin, adapter: SlackAdapter, report: Path
) -> None:
    slack.withhold("files:write")
    (post,) = posts(adapter, place("C1"), "Here.", file=report)
    with pytest.raises(Permanent, match="files:write"):
        await adapter.deliver(post)
    assert slack.messages("C1") == []


async def test_a_file_that_is_not_there_any_more_and_one_for_one_person_are_told(
    slack: SlackStandin, adapter: SlackAdapter, report: Path
) -> None:
    (post,) = posts(adapter, place("C1"), "Here.", file=report, only_for=ADA)
    with pytest.raises(Permanent, match="one person only"):
        await adapter.deliver(post)
    remove(report)
    with pytest.raises(Permanent, match="can't be read"):
        await adapter.deliver(replace(post, only_for=None))
    assert slack.messages("C1") == []


async def test_buttons_stand_under_a_file_in_a_message_of_their_own(
    slack: SlackStandin, adapter: SlackAdapter, report: Path
) -> None:
    for post in posts(adapter, place("C1"), "Here.", file=report, buttons=[Button(label="Thanks", token="t")]):
        await adapter.deliver(post)
    with_file, with_buttons = slack.messages("C1")
    assert (len(with_file.files), with_buttons.text) == (1, "Thanks")
