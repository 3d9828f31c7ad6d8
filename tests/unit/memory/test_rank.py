from collections.abc import Mapping
from pathlib import Path

import pytest

from memory.rank import Ranking, terms
from memory.scan import NoteHeader
from memory.scope import Mode, Scope


@pytest.fixture
def scope(tmp_path: Path) -> Scope:
    directory = tmp_path.resolve() / "memory"
    directory.mkdir()
    return Scope(
        principal="person-1", project="", memory_dir=directory, team_dir=None, mode=Mode.AUTO, shared=False,
        enabled=True, timezone="UTC", readable=(directory,), writable=(directory,),
    )  # fmt: skip


def noted(scope: Scope, notes: Mapping[str, str], *, description: str = "") -> list[NoteHeader]:
    headers = []
    for name, text in notes.items():
        path = scope.memory_dir / name
        path.write_text(text)
        headers.append(NoteHeader(path=path, name=name, mtime=0.0, type=None, description=description, team=False))
    return headers


async def found(scope: Scope, notes: Mapping[str, str], query: str, k: int = 5) -> list[str]:
    return [name for name, _ in await Ranking().best(scope, noted(scope, notes), query, k)]


async def test_the_note_that_has_the_words_comes_first(scope: Scope) -> None:
    notes = {"tea.md": "Ann drinks green tea.", "boat.md": "The boat is blue, tea on board.", "cat.md": "A cat."}
    assert await found(scope, notes, "Which green tea do I like?") == ["tea.md", "boat.md"]


async def test_names_and_descriptions_are_searched_and_forms_of_a_word_match(scope: Scope) -> None:
    headers = noted(scope, {"sailing-boats.md": "x"}, description="moored in Harbour A")
    for query in ("sail the boat", "what is moored where?"):
        assert [name for name, _ in await Ranking().best(scope, headers, query, 5)] == ["sailing-boats.md"]


async def test_a_script_without_spaces_is_found_by_pairs(scope: Scope) -> None:
    notes = {"a.md": "我喜欢绿茶和咖啡", "b.md": "我们的船是蓝色的", "c.md": "コーヒーが好きです"}
    assert await found(scope, notes, "绿茶") == ["a.md"]
    assert await found(scope, notes, "コーヒー") == ["c.md"]


async def test_the_score_is_the_share_of_the_words_weighted_by_rarity(scope: Scope) -> None:
    notes = {"a.md": "zebra harbour", "b.md": "harbour", "c.md": "harbour", "d.md": "sky"}
    scores = dict(await Ranking().best(scope, noted(scope, notes), "zebra harbour", 5))
    assert scores["a.md"] == pytest.approx(1.0)
    assert 0 < scores["b.md"] == scores["c.md"] < 0.5
    assert "d.md" not in scores


async def test_a_question_of_empty_words_and_marks_finds_nothing(scope: Scope) -> None:
    notes = {"a.md": "what do you know about me"}
    for query in ("what do you know about me?", "\"' OR * NEAR( -", ""):
        assert await found(scope, notes, query) == []


async def test_query_syntax_is_taken_as_words(scope: Scope) -> None:
    notes = {"a.md": "near the harbour", "b.md": "name: x"}
    assert await found(scope, notes, 'NEAR(harbour) "body: ^') == ["a.md"]


async def test_no_more_than_k_are_named(scope: Scope) -> None:
    assert len(await found(scope, {f"{n}.md": "harbour" for n in range(9)}, "harbour", k=4)) == 4


async def test_a_file_outside_the_memory_directory_or_behind_a_link_is_never_read(scope: Scope, tmp_path: Path) -> None:
    (tmp_path / "outside.md").write_text("canary")
    (scope.memory_dir / "link.md").symlink_to(tmp_path / "outside.md")
    paths = (tmp_path / "outside.md", scope.memory_dir / "link.md")
    headers = [NoteHeader(path=p, name=p.name, mtime=0, type=None, description="", team=False) for p in paths]
    assert await Ranking().best(scope, headers, "canary", 5) == []


def test_words_are_folded_and_cut() -> None:
    assert list(terms("Straße, ＴＥＡ-cup 喝绿茶 茶!")) == ["strasse", "tea", "cup", "喝绿", "绿茶", "茶"]
