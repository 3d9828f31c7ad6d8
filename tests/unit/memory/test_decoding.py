"""Notes are text whatever an editor saves them as, and every reader sees the same."""

from pathlib import Path

import pytest

from memory import snapshot
from memory.decoding import decoded, decoded_exactly
from memory.doubles import LocalLeases
from memory.facts import forgettable
from memory.notes import Notes
from memory.paths import Homes, ensure
from memory.prompt import memory_prompt, read_text
from memory.scan import Scanner
from memory.scope import Mode, Scope
from memory.settings import MemorySettings

NOTE = "---\nname: Café\ndescription: Café am Eck\n---\n\n- Der Schlüssel hängt\n"
ENCODINGS = {
    "UTF-16 LE": ("\ufeff" + NOTE).encode("utf-16-le"),
    "UTF-16 BE": ("\ufeff" + NOTE).encode("utf-16-be"),
    "UTF-8 with a mark": NOTE.encode("utf-8-sig"),
    "UTF-8": NOTE.encode(),
}


@pytest.fixture
def scope(tmp_path: Path) -> Scope:
    homes = Homes(tmp_path / "homes", settings=MemorySettings())
    scope = homes.scope(principal="ann", project=None, member=False, shared=False, mode=Mode.AUTO, timezone="UTC")
    assert ensure(scope)
    return scope


@pytest.mark.parametrize("content", ENCODINGS.values(), ids=ENCODINGS)
async def test_every_reader_sees_the_same_text(scope: Scope, content: bytes) -> None:
    path = scope.memory_dir / "cafe.md"
    for file in (path, scope.index):
        file.write_bytes(content)
    assert (await Notes(leases=LocalLeases()).read(scope, path)).text == NOTE
    assert read_text(scope.memory_dir, path, limit=10_000) == NOTE
    assert "Schlüssel" in await memory_prompt(scope)
    assert [header.description for header in await Scanner().scan(scope)] == ["Café am Eck"]
    saved = snapshot.read_one(scope, path)
    assert saved is not None
    assert saved.text == NOTE
    assert forgettable(saved.text) == ["Der Schlüssel hängt", "Café am Eck"]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", ""),
        (b"\xff\xfe", ""),
        (b"\xff\xfea\x00b", "a\ufffd"),
        (b"\xff\xfe\x00\xd8a\x00", "\ufffda"),
        (b"caf\xe9", "caf\ufffd"),
        (b"\xef\xbb\xbfcaf\xe9", "caf\ufffd"),
        (b"a\x00b\x00", "a\0b\0"),
    ],
)
def test_what_cannot_be_read_shows_as_such_and_is_no_exact_text(content: bytes, text: str) -> None:
    assert decoded(content) == text
    if "\ufffd" in text:
        with pytest.raises(UnicodeDecodeError):
            decoded_exactly(content)
    else:
        assert decoded_exactly(content) == text
