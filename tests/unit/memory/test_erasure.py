from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memory import snapshot as snapshots
from memory.dailylog import waiting_logs
from memory.doubles import LocalLeases
from memory.erasure import erase, erase_everywhere, hindrance
from memory.errors import Conflict, WriteRefused
from memory.facts import facts_of
from memory.gone import Gone, Item, find, gone, holding, mentioning, whole
from memory.notes import Notes
from memory.paths import folder_name
from memory.places import fixed, places, read_files, read_places
from memory.provenance import fact_hash
from memory.redaction import redacted
from memory.scan import Scanner
from memory.scope import Mode, Scope

NOON = datetime(2026, 5, 3, 12, tzinfo=UTC)
ZEBRA = "Ann keeps a zebra called Zoe"


@pytest.fixture
def scope(tmp_path: Path) -> Scope:
    memory = tmp_path / "memory"
    (memory / "team").mkdir(parents=True)
    return Scope(
        principal="person:telegram:42", project="", memory_dir=memory, team_dir=memory / "team", mode=Mode.LOG,
        shared=True, enabled=True, timezone="UTC", readable=(memory,), writable=(memory,),
    )  # fmt: skip


def write(scope: Scope, name: str, text: str) -> Path:
    path = scope.memory_dir / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def note(*facts: str, description: str = "animals", name: str = "animals") -> str:
    return f"---\nname: {name}\ndescription: {description}\ntype: user\n---\n\n" + "".join(f"- {f}\n" for f in facts)


async def files_of(scope: Scope) -> dict[str, str]:
    return read_files(scope, await Scanner(limit=None).scan(scope))


async def forget(scope: Scope, *items: Item, messages: Sequence[int] = (), notes: Notes | None = None) -> None:
    files = await files_of(scope)
    what, leases = gone(files, items), LocalLeases()
    notes = notes or Notes(leases=leases)
    await erase(scope, what, holding(files, what), messages=frozenset(messages), notes=notes, leases=leases)


def fact(text: str, note: str = "animals.md") -> Item:
    return Item(note=note, hash=fact_hash(text))


async def test_a_fact_leaves_every_note_it_stands_in_and_the_rest_stays_to_the_letter(scope: Scope) -> None:
    one = write(scope, "animals.md", note(ZEBRA, "Ann keeps bees"))
    two = write(scope, "team/pets.md", f"# Pets\n\n{ZEBRA}.\n\nNobody keeps a dog\n")
    await forget(scope, fact(ZEBRA))
    assert one.read_text() == note("Ann keeps bees")
    assert two.read_text() == "# Pets\n\n\nNobody keeps a dog\n"


async def test_a_note_whose_last_fact_leaves_goes_with_its_line_in_the_index(scope: Scope) -> None:
    write(scope, "animals.md", note(ZEBRA))
    write(scope, "bees.md", note("Ann keeps bees", description="bees", name="bees"))
    index = write(scope, "MEMORY.md", f"- [Zebra](animals.md): {ZEBRA}\n- [Bees](bees.md): who keeps bees\n")
    await forget(scope, fact(ZEBRA))
    assert not (scope.memory_dir / "animals.md").exists()
    assert index.read_text() == "- [Bees](bees.md): who keeps bees\n"


async def test_header_and_index_line_do_not_go_on_telling_what_left_the_note(scope: Scope) -> None:
    path = write(scope, "my-animals.md", note(ZEBRA, "Ann has bees", description=ZEBRA, name="The zebra Ann keeps"))
    index = write(scope, "MEMORY.md", f"- [Animals](my-animals.md): {ZEBRA}\n")
    await forget(scope, fact(ZEBRA, "my-animals.md"))
    text = path.read_text()
    assert "zebra" not in text
    assert "name: my animals" in text
    assert "description: Ann has bees" in text
    assert "type: user" in text
    assert index.read_text() == "- [my animals](my-animals.md)\n"


async def test_a_whole_note_goes_and_its_facts_leave_the_others_too(scope: Scope) -> None:
    write(scope, "team/pets.md", note(ZEBRA, "Ann keeps bees"))
    other = write(scope, "other.md", note(ZEBRA, "It rains in Kiel"))
    team = write(scope, "team/MEMORY.md", "- [Pets](pets.md): what there is\n")
    await forget(scope, whole("team/pets.md", note(ZEBRA, "Ann keeps bees")))
    assert not (scope.memory_dir / "team/pets.md").exists()
    assert team.read_text() == ""
    assert other.read_text() == note("It rains in Kiel")


async def test_of_a_note_that_grew_since_it_was_shown_only_what_was_shown_goes(scope: Scope) -> None:
    path = write(scope, "pets.md", note(ZEBRA, "Ann keeps bees"))
    index = write(scope, "MEMORY.md", "- [Pets](pets.md): what there is\n")
    shown = whole("pets.md", path.read_text())
    write(scope, "pets.md", note(ZEBRA, "Ann keeps bees", "The key is under the stone"))
    await forget(scope, shown)
    assert path.read_text() == note("The key is under the stone")
    assert "(pets.md)" in index.read_text()


async def test_signs_and_dates_keep_facts_apart_when_one_is_forgotten(scope: Scope) -> None:
    other = ("Her language is C", "Rent is due (Ann, 2026-06-01)", "15:30 dentist", "It is 5° outside")
    gone_ = ("Her language is C++", "Rent is due (Ann, 2026-05-01)", "9:00 dentist", "It is -5° outside")
    path = write(scope, "animals.md", note(*other, *gone_))
    await forget(scope, *map(fact, gone_))
    assert path.read_text() == note(*other)


async def test_in_a_shared_log_a_marked_line_of_another_message_stays(scope: Scope) -> None:
    anns = "- 10:00 Ann: I keep bees in two hives <!-- m1 -->\n"
    bobs = "10:05 Bob: know that I keep bees in two hives and live in Kiel near the harbour"
    name = "logs/2026/05/2026-05-01.md"
    path = write(scope, name, f"{anns}- {bobs} <!-- m3 -->\n- 10:06 Ann: I keep bees in two hives\n")
    await forget(scope, fact(bobs, name), messages=[3])
    assert path.read_text() == f"{anns}- 10:06 Ann: I keep bees in two hives\n"


async def test_a_heading_in_a_persons_log_goes_if_it_tells_and_the_others_stay(scope: Scope) -> None:
    scope = replace(scope, shared=False)
    kept = "## Bees\n\n- 10:00 Ann has bees <!-- m1 -->\n"
    name = "logs/2026/05/2026-05-01.md"
    path = write(scope, name, f"{kept}\n## {ZEBRA}\n\n- 10:05 {ZEBRA} <!-- m3 -->\n")
    await forget(scope, fact(f"10:05 {ZEBRA}", name), messages=[3])
    assert path.read_text() == f"{kept}\n\n"


async def test_what_agents_keep_for_the_same_principal_is_found_and_erased_too(scope: Scope, tmp_path: Path) -> None:
    own = tmp_path / "homes" / folder_name(scope.principal)
    files = [own / "agent-memory/gardener/soil.md", own / "projects/p/agent-memory-local/mole/soil.md"]
    others = tmp_path / "homes" / folder_name("person:telegram:43") / "agent-memory/gardener/soil.md"
    for file in (*files, others):
        file.parent.mkdir(parents=True)
        file.write_text(note(ZEBRA, "Ann keeps bees"))
    found = places(scope, tmp_path)
    texts = read_places(found, ())
    assert sorted(texts) == ["@gardener/soil.md", "@p/mole/soil.md"]
    what, leases = gone(texts, [fact(ZEBRA, "@gardener/soil.md")]), LocalLeases()
    notes, held = Notes(leases=leases), holding(texts, what)
    await erase_everywhere(found, what, held, messages=frozenset(), notes=notes, leases=leases)
    assert [file.read_text() for file in files] == [note("Ann keeps bees")] * 2
    assert others.read_text() == note(ZEBRA, "Ann keeps bees")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    for agent in ("gardener", "no agent"):
        (root / ".claude/agent-memory" / agent).mkdir(parents=True)
        (root / ".claude/agent-memory" / agent / "soil.md").write_text(note(ZEBRA, "Ann keeps bees"))
    (root / ".claude/agent-memory/mole").symlink_to(root / ".claude/agent-memory/gardener")
    return root


async def erased_everywhere(scope: Scope, home: Path, note: str) -> None:
    found = places(scope, home)
    texts = read_places(found, ())
    what, leases = gone(texts, [fact(ZEBRA, note)]), LocalLeases()
    held, notes = holding(texts, what), Notes(leases=leases)
    await erase_everywhere(found, what, held, messages=frozenset(), notes=notes, leases=leases)


async def test_what_agents_keep_for_the_project_is_erased_from_its_shared_chats(
    scope: Scope, project: Path, tmp_path: Path
) -> None:
    scope = replace(scope, project="garden", project_root=project)
    assert sorted(read_places(places(scope, tmp_path), ())) == ["@project:gardener/soil.md"]
    await erased_everywhere(scope, tmp_path, "@project:gardener/soil.md")
    assert (project / ".claude/agent-memory/gardener/soil.md").read_text() == note("Ann keeps bees")
    rootless = tmp_path / "projects/garden/agent-memory/gardener/soil.md"
    rootless.parent.mkdir(parents=True)
    rootless.write_text(note(ZEBRA, "It rains"))
    await erased_everywhere(replace(scope, project_root=None), tmp_path, "@project:gardener/soil.md")
    assert rootless.read_text() == note("It rains")


async def test_from_a_private_chat_it_is_found_and_refused_before_anything_changes(
    scope: Scope, project: Path, tmp_path: Path
) -> None:
    scope = replace(scope, shared=False, project="garden", project_root=project)
    mine = write(scope, "animals.md", note(ZEBRA, "It rains"))
    found = places(scope, tmp_path)
    assert fixed(found, read_places(found, ())) == ["@project:gardener/soil.md"]
    with pytest.raises(WriteRefused, match="shared by the project"):
        await erased_everywhere(scope, tmp_path, "animals.md")
    assert mine.read_text() == note(ZEBRA, "It rains")


def test_of_a_project_that_one_does_not_belong_to_no_memory_is_found(scope: Scope, tmp_path: Path) -> None:
    (tmp_path / "projects/garden/agent-memory/gardener").mkdir(parents=True)
    stranger = replace(scope, shared=False, project="garden", team_dir=None)
    assert list(places(stranger, tmp_path)) == [""]
    assert list(places(replace(stranger, shared=True), tmp_path)) == ["", "@project:gardener/"]


def renaming(scope: Scope) -> None:
    write(scope, "pets/ann-has-a-zebra.md", note(ZEBRA, "Ann keeps bees", name="Ann has a zebra"))
    write(scope, "pets/MEMORY.md", "- [Ann](ann-has-a-zebra.md): who she is\n")
    write(scope, "MEMORY.md", "# Zebra\n- [Bees](bees.md)\n- [Ann](pets/ann-has-a-zebra.md): who she is\n")
    write(scope, "zebra/bees.md", note(ZEBRA, "Bees need flowers"))
    write(scope, "bees.md", note("Ann keeps bees"))
    snapshots.take(scope, NOON)


def everything(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


async def test_a_name_that_tells_it_gives_way_and_pointers_and_snapshots_follow(scope: Scope) -> None:
    renaming(scope)
    await forget(scope, fact(ZEBRA, "pets/ann-has-a-zebra.md"))
    (new,) = (scope.memory_dir / "pets").glob("note-*.md")
    (other,) = scope.memory_dir.glob("note-*.md")
    assert new.read_text() == note("Ann keeps bees", name=new.stem.replace("-", " "))
    assert other.read_text() == note("Bees need flowers")
    assert (scope.memory_dir / "pets/MEMORY.md").read_text() == f"- [Ann]({new.name}): who she is\n"
    assert scope.index.read_text() == f"- [Bees](bees.md)\n- [Ann](pets/{new.name}): who she is\n"
    (before,) = snapshots.kept_beside(scope).glob("*/before")
    assert everything(before) == everything(scope.memory_dir)
    assert not [path for path in scope.memory_dir.parent.rglob("*") if "zebra" in path.name]


def killed(notes: Notes, monkeypatch: pytest.MonkeyPatch, *, after: int) -> None:
    left = list(range(after))

    def killing(act: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
        async def until_killed(*given: object, **named: object) -> object:
            if not left:
                raise KeyboardInterrupt
            left.pop()
            return await act(*given, **named)

        return until_killed

    monkeypatch.setattr(notes, "write", killing(notes.write))
    monkeypatch.setattr(notes, "delete", killing(notes.delete))


@pytest.mark.parametrize("steps", range(9))
async def test_killed_at_any_step_it_can_be_repeated(scope: Scope, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    renaming(scope)
    notes = Notes(leases=LocalLeases())
    killed(notes, monkeypatch, after=steps)
    with suppress(KeyboardInterrupt):
        await forget(scope, fact(ZEBRA), notes=notes)
    await forget(scope, fact(ZEBRA))
    found = everything(scope.memory_dir)
    assert sorted(len(path) for path in found) == [7, 9, 14, 16, 21]  # a copy more or less would show
    assert "zebra" not in str(found).lower()
    assert found["MEMORY.md"].count("](") == 2


@pytest.mark.parametrize("steps", range(3))
async def test_the_note_by_which_it_is_found_loses_it_last(
    scope: Scope, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scope = replace(scope, shared=False)
    write(scope, "animals.md", note(ZEBRA, "It rains"))
    write(scope, "MEMORY.md", "# Zebra\n- [Animals](animals.md)\n")
    write(scope, "logs/2026/05/2026-05-01.md", f"- tea\n- 10:00 {ZEBRA}\n")
    notes = Notes(leases=LocalLeases())
    killed(notes, monkeypatch, after=steps)
    with suppress(KeyboardInterrupt):
        await forget(scope, fact(ZEBRA), notes=notes)
    if "animals.md" in holding(files := await files_of(scope), gone(files, [fact(ZEBRA)])):
        await forget(scope, fact(ZEBRA))
    assert "zebra" not in str(everything(scope.memory_dir)).lower()


async def test_a_neutral_name_that_another_note_has_is_left_to_it(scope: Scope) -> None:
    for other in ("It rains", "It snows"):
        write(scope, "zebra.md", note(ZEBRA, other))
        await forget(scope, fact(ZEBRA, "zebra.md"))
    assert sorted(path.read_text() for path in scope.memory_dir.glob("note-*.md")) == [
        note("It rains"),
        note("It snows"),
    ]
    assert len(await files_of(scope)) == 2


async def test_a_read_only_note_is_not_copied_to_another_name(scope: Scope) -> None:
    write(scope, "zebra.md", note(ZEBRA, "It rains")).chmod(0o400)
    with pytest.raises(WriteRefused, match="read-only"):
        await forget(scope, fact(ZEBRA, "zebra.md"))
    assert list(await files_of(scope)) == ["zebra.md"]


async def test_a_log_that_tells_it_does_not_make_its_words_common(scope: Scope) -> None:
    log = write(scope, "logs/2026/05/2026-05-01.md", "# 2026-05-01\n- 10:00 Ann: I have a zebra <!-- m7 -->\n- tea\n")
    write(scope, "zebra.md", f"# Zebra\n\n- {ZEBRA}\n- It rains\n")
    await forget(scope, fact(ZEBRA, "zebra.md"), messages=[7])
    assert log.read_text() == "# 2026-05-01\n- tea\n"
    (new,) = scope.memory_dir.glob("*.md")
    assert new.read_text() == "\n- It rains\n"


@pytest.mark.parametrize(
    ("text", "betrays"),
    [
        ("zebra", True),
        ("AnnsZebra", True),
        ("Ann keeps a zebra called Zoe!", True),
        ("what Ann keeps", False),
        ("notes about the day", False),
        ("2026-05-01", False),
    ],
)
def test_a_heading_betrays_by_words_that_no_fact_that_stays_has(text: str, betrays: bool) -> None:
    said = f"{ZEBRA} about the day (Ann, 2026-05-01)"
    what = Gone(
        notes=frozenset(), texts=(said,), corpus=(said, "Ann keeps bees", "> a zebra"), staying=("Ann keeps bees",)
    )
    assert what.betrays(text) == betrays


async def test_a_note_with_a_description_alone_is_one_fact(scope: Scope) -> None:
    path = write(scope, "bare.md", f"---\ndescription: {ZEBRA}\n---\n")
    assert facts_of(path.read_text()) == [ZEBRA]
    await forget(scope, fact(ZEBRA, "bare.md"))
    assert not path.exists()


async def test_words_of_a_description_that_stays_betray_nothing(scope: Scope) -> None:
    path = write(scope, "animals.md", f"# Zebra\n\n- {ZEBRA}\n- It rains\n")
    write(scope, "bare.md", "---\ndescription: A zebra is striped\n---\n")
    await forget(scope, fact(ZEBRA))
    assert path.read_text() == "# Zebra\n\n- It rains\n"


async def test_logs_lose_the_lines_of_the_messages_and_those_that_tell_it_and_stay_processed(scope: Scope) -> None:
    text = f"# day\n- 10:00 Ann: hm <!-- m7 -->\n- 10:01 Ann: tea <!-- m8 -->\n- 10:02 {ZEBRA}\n- 10:03 It rains\n"
    done = write(scope, "logs/2026/05/2026-05-01.md", text)
    open_ = write(scope, "logs/2026/05/2026-05-02.md", text)
    untouched = write(scope, "logs/2026/04/2026-04-30.md", "- 10:00 Ann: tea <!-- m1 -->\n")
    mark = snapshots.read_one(scope, done)
    assert mark is not None
    write(scope, "logs/.processed", f"2026-05-01.md {mark.hash}\n")
    done.chmod(0o400)
    await forget(scope, fact(f"10:02 {ZEBRA}", "logs/2026/05/2026-05-01.md"), messages=[7])
    assert done.read_text() == open_.read_text() == "# day\n- 10:01 Ann: tea <!-- m8 -->\n- 10:03 It rains\n"
    assert [log.path for log in waiting_logs(scope, NOON)] == [untouched, open_]
    assert done.stat().st_mode & 0o777 == 0o400


async def test_a_log_that_is_not_utf8_loses_what_is_forgotten_and_keeps_its_other_bytes(scope: Scope) -> None:
    path = write(scope, "logs/2026/05/2026-05-01.md", "")
    path.write_bytes(f"- caf\xe9\n- {ZEBRA}\n- 10:01 Ann: hm <!-- m7 -->\n".encode("latin-1"))
    write(scope, "animals.md", note(ZEBRA, "Ann keeps bees"))
    await forget(scope, fact(ZEBRA), messages=[7])
    assert path.read_bytes() == b"- caf\xe9\n"


async def test_what_dreams_keep_holds_every_like_fact_that_stays_in_its_older_words_too(scope: Scope) -> None:
    monday, tuesday = ("The dentist in Kiel is Dr. Holm, open on " + day for day in ("Monday", "Tuesday"))
    ann, bob = (f"{name}: I prefer a zebra to any dog." for name in ("Ann", "Bob"))
    write(scope, "dentists.md", note(tuesday, "The shed is green"))
    write(scope, "pets.md", note(ann, bob))
    write(scope, "monday.md", note(monday))
    taken = snapshots.take(scope, NOON)
    write(scope, "pets.md", note("Ann prefers a zebra", "Bob likes a zebra better than a dog"))
    await forget(scope, fact(monday, "monday.md"), fact("Ann prefers a zebra", "pets.md"))
    kept = {path.name: saved.text for path, saved in snapshots.load(scope, taken.folder).files.items()}
    assert kept == {"dentists.md": note(tuesday, "The shed is green"), "pets.md": note(bob)}


async def test_what_dreams_keep_loses_it_also_in_older_words(scope: Scope) -> None:
    write(scope, "animals.md", note("Ann keeps one zebra, called Zoe", "Ann keeps bees"))
    write(scope, "zoe.md", note(ZEBRA))
    write(scope, "gone.md", note("It rains in Kiel"))
    write(scope, "empty.md", "")
    write(scope, "crlf.md", "- It snows\r\n- It hails\r\n")
    write(scope, "MEMORY.md", f"- [Zoe](zoe.md): {ZEBRA}\n- [Gone](gone.md): weather\n")
    taken = snapshots.take(scope, NOON)
    write(scope, "animals.md", note("Ann keeps bees"))  # the older words stand only in what is kept
    await forget(scope, fact(ZEBRA, "zoe.md"), whole("gone.md", note("It rains in Kiel")))
    kept = {
        path.relative_to(scope.memory_dir).as_posix(): saved
        for path, saved in snapshots.load(scope, taken.folder).files.items()
    }
    assert sorted(kept) == ["MEMORY.md", "animals.md", "crlf.md", "empty.md"]
    assert kept["animals.md"].text == note("Ann keeps bees")
    assert kept["crlf.md"].text == "- It snows\r\n- It hails\r\n"
    assert "zoe" not in kept["MEMORY.md"].text.replace("zoe.md", "").lower()
    assert "gone" not in kept["MEMORY.md"].text


async def test_doing_it_again_changes_nothing(scope: Scope) -> None:
    write(scope, "animals.md", note(ZEBRA, "Ann keeps bees"))
    files = await files_of(scope)
    what, leases = gone(files, [fact(ZEBRA)]), LocalLeases()
    for _ in range(2):
        held = holding(files, what)
        await erase(scope, what, [*held, "missing.md"], messages=frozenset(), notes=Notes(leases=leases), leases=leases)
    assert (scope.memory_dir / "animals.md").read_text() == note("Ann keeps bees")
    assert gone(await files_of(scope), [fact(ZEBRA), Item(note="missing.md")]).texts == ()


async def test_a_note_that_is_changed_meanwhile_is_read_again_and_in_the_end_given_up(
    scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(scope, "animals.md", note(ZEBRA, "Ann keeps bees"))
    notes = Notes(leases=LocalLeases())
    real, hindered = notes.write, [True]

    async def busy(*given: object, **named: object) -> object:
        if hindered and hindered[0]:
            hindered.pop()
            raise Conflict("changed", actual="")
        return await real(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(notes, "write", busy)
    await forget(scope, fact(ZEBRA), notes=notes)
    assert path.read_text() == note("Ann keeps bees")
    write(scope, "animals.md", note(ZEBRA, "Ann keeps bees"))

    async def never(*_: object, **__: object) -> object:
        raise Conflict("changed", actual="")

    monkeypatch.setattr(notes, "write", never)
    with pytest.raises(Conflict, match="did not stand still"):
        await forget(scope, fact(ZEBRA), notes=notes)


async def test_a_fact_that_stands_in_an_index_alone_is_found_and_erased(scope: Scope) -> None:
    index = write(scope, "MEMORY.md", f"- {ZEBRA}\n- [Bees](bees.md) — zebras\n- Bob draws zebras and bees\n")
    write(scope, "team/MEMORY.md", f"# Team\n\n{ZEBRA}\n")
    write(scope, "bees.md", note("Ann keeps bees"))
    [item] = [item for item in find(await files_of(scope), "Ann's zebra Zoe") if item.text == ZEBRA]
    await forget(scope, item)
    assert index.read_text() == "- [bees](bees.md)\n- Bob draws zebras and bees\n"
    assert (scope.memory_dir / "team" / "MEMORY.md").read_text() == "# Team\n\n"
    index.write_text(f"- {ZEBRA}\n- [Bees](bees.md) — zebras\n- Bob draws zebras and bees\n")
    await forget(replace(scope, shared=False), item)
    assert index.read_text() == "- [bees](bees.md)\n"


def test_an_index_is_no_note_to_be_forgotten_as_a_whole() -> None:
    files = {"MEMORY.md": f"- {ZEBRA}\n- A zebra is striped\n"}
    assert {item.hash != "" for item in find(files, "zebra")} == {True}
    assert gone(files, [Item(note="MEMORY.md")]).notes == frozenset()


def test_words_of_a_title_make_no_fact_fit_that_has_none_of_them() -> None:
    files = {
        "ann-and-her-zebra.md": note(ZEBRA, "The key is red", "The gate is green"),
        "dentist.md": note("On Friday"),
    }
    assert [item.text for item in find(files, "keeps a zebra")] == [ZEBRA]
    assert [item.text for item in find(files, "the dentist")] == ["On Friday"]


@pytest.mark.parametrize("spoil", ["read-only", "not UTF-8", "folder", "index"])
async def test_what_stands_in_the_way_is_known_before_anything_changes(scope: Scope, spoil: str) -> None:
    write(scope, "MEMORY.md", "- [B](b.md): zebra\n- [C](c/c.md)\n")
    write(scope, "a.md", note(ZEBRA))
    bad = write(scope, "c/c.md", note(ZEBRA, "It rains"))
    if spoil == "not UTF-8":
        bad.write_bytes(f"- {ZEBRA}\n- Caf\xe9\n".encode("latin-1"))
    changed = {"folder": bad.parent, "index": scope.index, "read-only": bad}.get(spoil)
    files, found = await files_of(scope), {"": scope}
    what = gone(files, [fact(ZEBRA)])
    if changed is not None:
        changed.chmod(0o500)
    there = await hindrance(found, what, holding(files, what), Notes(leases=LocalLeases()))
    assert there.startswith("`MEMORY.md`: " if spoil == "index" else "`c/c.md`: ")
    assert "make" in there or "save it as UTF-8" in there
    if changed is not None:
        changed.chmod(0o700)
        assert await hindrance(found, what, holding(files, what), Notes(leases=LocalLeases())) == ""


@pytest.mark.parametrize("index", ["MEMORY.md", "c/MEMORY.md"])
async def test_an_index_that_has_to_follow_the_notes_and_cannot_stands_in_the_way(scope: Scope, index: str) -> None:
    write(scope, "c/a.md", note(ZEBRA))
    target = "a.md" if index.startswith("c/") else "c/a.md"
    write(scope, index, "").write_bytes(f"- [A]({target}): pets\n- [B](b.md)\n".encode("utf-16"))
    files = await files_of(scope)
    what = gone(files, [whole("c/a.md", files["c/a.md"])])
    there = await hindrance({"": scope}, what, holding(files, what), Notes(leases=LocalLeases()))
    assert there == f"`{index}`: the file is not UTF-8 text; save it as UTF-8"


async def test_a_folder_whose_name_tells_it_gives_way_with_its_index(scope: Scope) -> None:
    write(scope, "animals.md", note(ZEBRA, "Ann has bees"))
    write(scope, "sub/zebra/tea.md", note("Bob likes tea", description="tea"))
    write(scope, "sub/zebra/MEMORY.md", "# Drinks\n\n- [Tea](tea.md)\n")
    write(scope, "MEMORY.md", "- [Tea](sub/zebra/tea.md): tea\n")
    snapshots.take(scope, NOON)
    files, leases = await files_of(scope), LocalLeases()
    what = gone(files, [fact(ZEBRA)])
    held = [*holding(files, what), *mentioning(files, what)]
    await erase(scope, what, held, messages=frozenset(), notes=Notes(leases=leases), leases=leases)
    (new,) = (scope.memory_dir / "sub").glob("note-*.md")
    assert new.read_text() == note("Bob likes tea", description="tea")
    assert scope.index.read_text() == f"- [Tea](sub/{new.name}): tea\n"
    assert not [path for path in scope.memory_dir.parent.rglob("*") if "zebra" in path.name]


def test_the_folder_in_which_an_agent_keeps_its_notes_betrays_nothing() -> None:
    files = {"a.md": note(ZEBRA), "@zebra/tea.md": note("Bob likes tea")}
    what = gone(files, [fact(ZEBRA, "a.md")])
    assert mentioning(files, what, starts=("", "@zebra/")) == []


def test_a_search_names_facts_and_whole_notes_best_first_and_five_at_most() -> None:
    files = {
        "animals.md": note(ZEBRA, "Ann drinks tea", description="x"),
        "zebra.md": note("The zebra is striped", "The zebra is in Kiel"),
        "logs/2026/05/2026-05-01.md": "- 10:00 a zebra was seen\n- 10:01 a zebra was gone\n",
        **{f"{n}.md": note(f"Thing {n} lies in box {n}") for n in range(9)},
    }
    found = {(item.note, item.text) for item in find(files, "my zebra, please")}
    assert ("animals.md", ZEBRA) in found
    assert ("zebra.md", "The zebra is striped") in found
    assert {item.hash == "" for item in find(files, "zebra") if item.note == "zebra.md"} == {True}
    assert {item.hash != "" for item in find(files, "zebra") if item.note.startswith("logs/")} == {True}
    assert len(find(files, "thing box")) == 5
    assert find(files, "quantum") == []
    assert find({}, "zebra") == []


def test_a_note_without_anything_to_hide_is_left_as_it_is() -> None:
    what = Gone(notes=frozenset(), texts=(ZEBRA,), corpus=(ZEBRA, "Ann keeps bees"))
    for text in (note("Ann keeps bees"), "", "# Only a heading\n", "---\nname: [broken\n---\n- x y z\n"):
        assert redacted(text, what.same, what.tells, title="t") == text


def test_a_description_is_found_unless_it_goes_with_a_fact_that_is_found() -> None:
    files = {
        "animals.md": note(ZEBRA, description=f"{ZEBRA} and more"),
        "trips.md": note("Ann went to Kiel", description="The tent leaks"),
    }
    assert [item.text for item in find(files, "tent")] == ["The tent leaks"]
    assert [item.text for item in find(files, "zebra")] == [ZEBRA]
    assert [item.text for item in find(files, "zebra tent")] == [ZEBRA, "The tent leaks"]


async def test_a_description_leaves_its_note_and_the_index_and_the_facts_below_it_stay(scope: Scope) -> None:
    path = write(scope, "trips.md", note("Ann went to Kiel", description="The tent leaks", name="trips"))
    index = write(scope, "MEMORY.md", "- [Trips](trips.md): The tent leaks\n")
    await forget(scope, fact("The tent leaks", "trips.md"))
    assert path.read_text() == note("Ann went to Kiel", description="Ann went to Kiel", name="trips")
    assert index.read_text() == "- [trips](trips.md)\n"
