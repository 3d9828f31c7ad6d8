"""Agents' files: what describes an agent, what doesn't, and what a project's file can't have."""

import os
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memory.agents import Agent, AgentMemory, AgentRefused, Agents, agents_prompt, load_agents, mentioned, read_agent

NAMES = st.from_regex(r"[a-z0-9]{1,6}(-[a-z0-9]{1,6}){0,3}", fullmatch=True)


def file(head: str = "name: reviewer\ndescription: Reads drafts", prompt: str = "Read the draft.") -> str:
    return f"---\n{head}\n---\n\n{prompt}\n"


def put(folder: Path, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


def agent(name: str) -> Agent:
    return Agent(name=name, description="d", prompt="p")


def names(agents: Agents) -> list[str]:
    return [found.name for found in agents.found]


def test_a_file_gives_name_description_tools_model_memory_and_prompt() -> None:
    head = "name: reviewer\ndescription: >\n  Reads\n  drafts\ntools: Read, Grep,write\nmodel: small-1\nmemory: user"
    found, remarks = read_agent(file(head), trusted=True)
    assert (found.name, found.description, found.prompt) == ("reviewer", "Reads drafts", "Read the draft.")
    assert (found.tools, found.model, found.memory) == (("read", "grep", "write"), "small-1", AgentMemory.USER)
    assert remarks == []


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        ("", None),
        ("tools: '*'", None),
        ("tools: [Read, '*']", None),
        ("tools: []", ()),
        ("tools: ''", ()),
        ("tools: [Read, read, Bash]", ("read", "bash")),
    ],
)
def test_tools_left_out_mean_all_and_an_empty_list_means_none(tools: str, expected: tuple[str, ...] | None) -> None:
    found, _ = read_agent(file(f"name: a\ndescription: b\n{tools}"), trusted=True)
    assert found.tools == expected


@pytest.mark.parametrize(
    "name",
    ["../x", "a/b", "A", "a_b", "-a", "a-", "a--b", "a.b", "a b", "a:b", "é", "a" * 65, "'a\\n'", "''", "12", ".."],
)
def test_a_name_that_is_no_slug_is_refused(name: str) -> None:
    with pytest.raises(AgentRefused, match="name"):
        read_agent(file(f"name: {name}\ndescription: b"), trusted=True)


@settings(deadline=None)
@given(st.text(max_size=70))
@example("a\n")
def test_every_accepted_name_is_one_plain_folder_name(name: str) -> None:
    try:
        accepted = agent(name).name
    except AgentRefused:
        return
    assert accepted.isascii()
    assert accepted == accepted.lower().strip("-.")
    assert set(accepted) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("just text", "frontmatter"),
        (file("name: a"), "description"),
        (file("description: b"), "name"),
        (file(prompt=" "), "prompt"),
        (file("name: a\ndescription: b\ntools: 3"), "tools"),
        (file("name: a\ndescription: b\ntools: {read: true}"), "tools"),
        (file("name: a\ndescription: b\nmodel: [x]"), "model"),
        (file('name: a\ndescription: b\nmodel: "x\\ny"'), "model"),
    ],
)
def test_a_file_that_describes_no_agent_says_what_is_missing(text: str, reason: str) -> None:
    with pytest.raises(AgentRefused, match=reason):
        read_agent(text, trusted=True)


def test_a_memory_of_no_known_kind_is_remarked_and_leaves_the_agent_without() -> None:
    for value in ("global", "[user]", "{a: b}", "3"):
        found, remarks = read_agent(file(f"name: a\ndescription: b\nmemory: {value}"), trusted=True)
        assert found.memory is None
        assert "user, project and local" in remarks[0]


def test_a_projects_file_decides_neither_the_model_nor_reaches_beyond_the_project() -> None:
    found, remarks = read_agent(file("name: a\ndescription: b\nmodel: dear-1\nmemory: user"), trusted=False)
    assert (found.model, found.memory, found.trusted) == (None, AgentMemory.LOCAL, False)
    assert len(remarks) == 2


def test_agents_come_from_the_operator_and_the_project_and_the_operators_name_stands(tmp_path: Path) -> None:
    put(tmp_path / "home/agents", "a.md", file("name: both\ndescription: the operator's"))
    put(tmp_path / "root/.claude/agents", "x.md", file("name: both\ndescription: the project's"))
    put(tmp_path / "root/.claude/agents", "y.md", file("name: also\ndescription: here"))
    found = load_agents(tmp_path / "home", tmp_path / "root")
    assert [(one.name, one.trusted) for one in found.found] == [("also", False), ("both", True)]
    assert [fault.file for fault in found.faults] == [".claude/agents/x.md"]
    assert found.named("both") == found.found[1]
    assert found.named("gone") is None
    assert names(load_agents(tmp_path / "home", None)) == ["both"]


def test_bad_files_are_named_and_skipped(tmp_path: Path) -> None:
    folder = tmp_path / "agents"
    put(folder, "good.md", file())
    put(folder, "bad.md", "nothing")
    put(folder, "note.txt", file("name: c\ndescription: b"))
    put(folder, ".hidden.md", file("name: d\ndescription: b"))
    put(folder, "large.md", file("name: e\ndescription: b", prompt="x" * 70_000))
    (folder / "latin.md").write_bytes(file("name: f\ndescription: b").encode() + b"\xe9")
    (folder / "folder.md").mkdir()
    put(folder, "two\nlines.md", "nothing")
    found = load_agents(tmp_path, None)
    assert names(found) == ["reviewer"]
    listed = {fault.file for fault in found.faults}
    assert listed == {f"agents/{name}.md" for name in ("bad", "large", "latin", "folder", "two�lines")}


def test_no_link_is_followed_out_of_a_project(tmp_path: Path) -> None:
    put(tmp_path / "secret", "a.md", file())
    root = tmp_path / "root"
    (root / ".claude/agents").mkdir(parents=True)
    (root / ".claude/agents/a.md").symlink_to(tmp_path / "secret/a.md")
    other = tmp_path / "other"
    (other / ".claude").mkdir(parents=True)
    (other / ".claude/agents").symlink_to(tmp_path / "secret")
    for place in (root, other):
        found = load_agents(tmp_path / "home", place)
        assert found.found == ()
        assert len(found.faults) == 1


def test_a_pipe_among_the_files_holds_nothing_up(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    os.mkfifo(tmp_path / "agents/a.md")
    assert [fault.file for fault in load_agents(tmp_path, None).faults] == ["agents/a.md"]


def test_of_a_folder_with_very_many_files_the_first_are_read(tmp_path: Path) -> None:
    for number in range(201):
        put(tmp_path / "agents", f"{number:03}.md", file(f"name: a{number}\ndescription: b"))
    found = load_agents(tmp_path, None)
    assert len(found.found) == 200
    assert [fault.file for fault in found.faults] == ["agents"]


def test_folders_that_are_missing_have_no_agents_and_no_faults(tmp_path: Path) -> None:
    assert load_agents(tmp_path, tmp_path / "gone") == Agents()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@reviewer please", ["reviewer"]),
        ("ask @Reviewer, then @scout.", ["reviewer", "scout"]),
        ("@agent-reviewer", ["reviewer"]),
        ("@agent-x and @agent-x", ["agent-x"]),
        ("(@scout)", ["scout"]),
        ("mail ann@reviewer.org or @reviewer.org", []),
        ("@reviewers, @reviewer-two, @reviewer/x, @nobody, reviewer", []),
        ("@@reviewer @reviewer@host", []),
    ],
)
def test_a_mention_is_a_whole_name_after_an_at(text: str, expected: list[str]) -> None:
    there = [agent(name) for name in ("reviewer", "scout", "agent-x", "x")]
    assert [found.name for found in mentioned(text, there)] == expected


@settings(deadline=None)
@given(st.lists(NAMES, unique=True, max_size=4), st.text(max_size=40))
def test_only_agents_that_exist_are_mentioned_and_each_once(there: list[str], text: str) -> None:
    said = " ".join([text, *(f"@{name}" for name in there)])
    found = [one.name for one in mentioned(said, [agent(name) for name in there])]
    assert sorted(found) == sorted(there)


def test_the_list_for_the_main_agent_has_a_line_for_each_and_is_empty_without_any() -> None:
    assert agents_prompt([]) == ""
    assert agents_prompt([agent("a"), agent("b")]).endswith("\n\n- `a`: d\n- `b`: d")


def test_a_tool_that_no_agent_has_is_a_fault_and_the_agent_works_without_it(tmp_path: Path) -> None:
    put(tmp_path / "agents", "a.md", file('name: a\ndescription: b\ntools: [Read, Bash, "\\x1b[0m", web, x, y, z, w]'))
    put(tmp_path / "agents", "b.md", file("name: b\ndescription: b\ntools: [Read]"))
    loaded = load_agents(tmp_path, None, tools={"read", "grep"})
    assert names(loaded) == ["a", "b"]
    (fault,) = loaded.faults
    assert fault.file == "agents/a.md"
    assert "bash" in fault.reason
    assert "and 2 more" in fault.reason
    assert fault.reason.isprintable()
    assert load_agents(tmp_path, None).faults == ()
