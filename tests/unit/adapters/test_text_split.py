import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.text.graphemes import boundary
from adapters.text.layout import LayoutMeasure, lay_out
from adapters.text.measure import Cost
from adapters.text.reading import parse
from adapters.text.split import split
from adapters.text.tree import Bullets, Document, Fence, Heading, Paragraph, Table, text_of

ENOUGH = 1 << 40
SNIPPETS = st.sampled_from(
    [
        "word ",
        "**bold** ",
        "`code` ",
        "[a](https://b.c) ",
        "\n",
        "\n\n",
        "- a\n",
        "  - b\n",
        "3. c\n",
        "> q\n",
        "```py\n",
        "# head\n",
        "漢字。",
        "👨\u200d👩\u200d👧\u200d👦",
        "🇩🇪",
        "é",
        "<id> ",
        "x" * 30,
        "***\n",
        "\ud800",
    ]
) | st.just("|a|b|\n|-|-|\n|1|2|\n")
MARKDOWN = st.lists(SNIPPETS, max_size=60).map("".join)


def cut(document: Document, limit: int) -> list[Document]:
    return split(document, LayoutMeasure(), Cost(limit, ENOUGH, ENOUGH))


def within(document: Document, limit: int) -> bool:
    return len(lay_out(document).text) <= limit


def visible(documents: list[Document]) -> str:
    return "".join("".join(lay_out(document).text.split()) for document in documents)


@settings(max_examples=150, deadline=None)
@given(markdown=MARKDOWN, limit=st.integers(40, 200))
def test_every_part_fits(markdown: str, limit: int) -> None:
    parts = cut(parse(markdown), limit)
    assert all(within(part, limit) for part in parts)


@settings(max_examples=100, deadline=None)
@given(markdown=MARKDOWN, limit=st.integers(0, 12))
def test_splitting_ends_however_little_fits(markdown: str, limit: int) -> None:
    parts = cut(parse(markdown), limit)
    assert all(part.blocks for part in parts)


@settings(max_examples=150, deadline=None)
@given(
    words=st.lists(st.sampled_from(["word", "漢字。", "👨‍👩‍👧‍👦", "🇩🇪", "e\u0301", "a.", " "]), max_size=80),
    limit=st.integers(12, 60),
)
def test_prose_keeps_every_visible_character_and_every_cluster(words: list[str], limit: int) -> None:
    whole = parse("".join(words))
    parts = cut(whole, limit)
    assert visible(parts) == visible([whole])
    clusters = [cluster for part in parts for cluster in regex.findall(r"\X", lay_out(part).text)]
    expected = regex.findall(r"\X", lay_out(whole).text)
    assert [c for c in clusters if not c.isspace()] == [c for c in expected if not c.isspace()]


@settings(max_examples=150, deadline=None)
@given(
    pieces=st.lists(SNIPPETS.filter(lambda piece: not piece.startswith(("|", "> "))), max_size=60),
    limit=st.integers(60, 200),
)
def test_the_parts_joined_give_the_text_back(pieces: list[str], limit: int) -> None:
    whole = parse("".join(pieces))
    assert visible(cut(whole, limit)) == visible([whole])


def test_a_fence_goes_on_as_a_fence_in_its_language() -> None:
    code = "\n".join(f"line {n}" for n in range(20))
    parts = cut(parse(f"```py\n{code}\n```"), 50)
    fences = [block for part in parts for block in part.blocks]
    assert all(isinstance(block, Fence) and block.language == "py" for block in fences)
    assert "\n".join(block.text for block in fences if isinstance(block, Fence)) == code


def test_a_long_item_goes_on_at_its_depth_without_a_second_marker() -> None:
    parts = cut(parse(f"4. top\n   - {'word ' * 30}\n5. next"), 60)
    rest = parts[1].blocks[0]
    assert isinstance(rest, Bullets)
    assert rest.start == 4
    assert rest.items[0].continued
    inner = rest.items[0].blocks[0]
    assert isinstance(inner, Bullets)
    assert lay_out(parts[-1]).text.endswith("5. next")


def test_a_table_repeats_its_header() -> None:
    rows = "\n".join(f"|{n}|value|" for n in range(30))
    parts = cut(parse(f"|key|name|\n|-|-|\n{rows}"), 120)
    tables = [block for part in parts for block in part.blocks if isinstance(block, Table)]
    assert len(tables) == len(parts) > 1
    assert all(text_of(table.header[0]) == "key" for table in tables)


def test_a_heading_stays_with_what_it_heads() -> None:
    parts = cut(parse(f"{'a' * 30}\n\n# head\n\n{'b' * 30}"), 50)
    assert isinstance(parts[1].blocks[0], Heading)
    assert isinstance(parts[1].blocks[1], Paragraph)


def test_a_cut_prefers_lines_then_sentences_then_words() -> None:
    assert boundary("one two\nthree. four five", 20) == 15  # the line ends in the first half
    assert boundary("one two three.\nfour five", 20) == 15
    assert boundary("onetwothreefour five six", 18) == 16
    assert boundary("漢字漢字漢字。漢字漢字", 9) == 7


def test_a_cluster_longer_than_a_part_is_cut_between_code_points() -> None:
    parts = cut(parse("a" + "\u0301" * 500), 100)
    assert len(visible(parts)) == 501
    assert all(within(part, 100) for part in parts)


@given(text=st.text(alphabet="🇩🇪a\u200d\u0301👨👩🏽 \n", max_size=30))
def test_cuts_are_where_a_cluster_ends(text: str) -> None:
    ends = {0} | {cluster.end() for cluster in regex.finditer(r"\X", text)}
    assert {boundary(text, most) for most in range(1, len(text))} <= ends | set(range(1, _longest(text)))


def _longest(text: str) -> int:
    return max((len(cluster) for cluster in regex.findall(r"\X", text)), default=0)
