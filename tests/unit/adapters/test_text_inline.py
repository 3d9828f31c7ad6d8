"""What stands in one line of Markdown."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from adapters.text.inline import LineReader
from adapters.text.reader import Budget
from adapters.text.tree import Span, Spans, text_of


def read(text: str) -> Spans:
    return LineReader(Budget()).read(text)


def bold(text: str) -> list[str]:
    return [span.text for span in read(text) if span.bold]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("**重要：**请注意", ["重要："]),
        ("这是**“引号”**测试", ["“引号”"]),
        ("これは**「強調」**です", ["「強調」"]),
        ("문장에서도**(중요)**하다", ["(중요)"]),
        ("**A：**一，**B：**二", ["A：", "B："]),
        ("**Note:**text", []),
    ],
)
def test_emphasis_beside_punctuation_of_cjk_needs_no_space(text: str, expected: list[str]) -> None:
    assert bold(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        r"\(a_b * c_d * e\)",
        r"\[ x_1 * y_1 * z \]",
        "$x_{i}*y_{j}*z$",
        r"$$\sum_{i} a_i * b_i * c$$",
        r"$a \$ b$",
        "it costs $5 or $6",
        "US$5, and HK$6.",
    ],
)
def test_formulas_and_prices_stay_as_they_are_written(text: str) -> None:
    assert read(text) == (Span(text=text),)


@pytest.mark.parametrize("text", ["`$a` and `b$`", "*$5* and *$6*"])
def test_a_dollar_takes_no_style_away(text: str) -> None:
    assert sum(span.code or span.italic for span in read(text)) == 2


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("see https://a.b/c_d_e?x=1*2*3, then", "https://a.b/c_d_e?x=1*2*3"),
        ("(https://a.b/in_(c)).", "https://a.b/in_(c)"),
        ("**https://a.b**", "https://a.b"),
        ("见https://a.b/c。然后", "https://a.b/c"),
        ("[https://a.b/c](https://a.b/c)", "https://a.b/c"),
        ("||https://a.b||", "https://a.b"),
        (r"https://a.b/c\_d", "https://a.b/c_d"),
    ],
)
def test_a_bare_address_is_a_link_to_itself(text: str, address: str) -> None:
    assert [(span.text, span.href) for span in read(text) if span.href] == [(address, address)]


@pytest.mark.parametrize("text", ["ftp://a.b", "http://", "https:// a", "xhttps://a.b", "https://" + "a" * 3000])
def test_what_no_chat_can_follow_is_no_link(text: str) -> None:
    assert not any(span.href for span in read(text))
    assert text_of(read(text)) == text


@pytest.mark.parametrize(
    ("text", "hidden"),
    [("the ||gardener||.", ["gardener"]), ("答案是||秘密||吗", ["秘密"]), ("a||b||c", []), ("a || b || c", [])],
)
def test_bars_hide_a_spoiler_and_are_an_or_in_code(text: str, hidden: list[str]) -> None:
    assert [span.text for span in read(text) if span.spoiler] == hidden


PIECES = ["a", "b ", " ", "*", "**", "***", "_", "__", "~~", "`", "``", "[", "]", "](/xy)", "](/u 't')"]
PIECES += ["(", ")", "<http://a.b>", "<i>", "&amp;", "&#65;", "&x;", ".", "\n", "\\*", "é", '"', "!"]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join).filter(lambda text: "~~~" not in text))
def test_where_no_rule_is_ours_lines_are_read_as_markdown_it_reads_them(text: str) -> None:
    if "![" not in text and "\\<" not in text:
        assert read(text.strip()) == expected(text.strip())


def expected(text: str) -> Spans:
    markdown = MarkdownIt("commonmark", {"html": False}).disable(["html_inline", "reference"]).enable("strikethrough")
    runs: list[tuple[str, frozenset[str], str]] = []
    on: list[str] = []
    links: list[str] = []
    for token in markdown.parseInline(text)[0].children or []:
        said = follow(token, on, links)
        if said:
            style = frozenset([*on, *(["code"] if token.type == "code_inline" else [])])
            href = links[-1] if links and links[-1].startswith("http") else ""
            before = runs.pop()[0] if runs and runs[-1][1:] == (style, href) else ""
            runs.append((before + said, style, href))
    names = {"strong": "bold", "em": "italic", "s": "strike", "code": "code"}
    return tuple(Span(text=run, href=href, **{names[name]: True for name in style}) for run, style, href in runs)


def follow(token: Token, on: list[str], links: list[str]) -> str:
    if token.type == "link_open":
        links.append(str(token.attrGet("href")))
    elif token.type == "link_close":
        href = links.pop()
        return "" if href.startswith("http") or not href else f" ({href})"
    elif token.nesting > 0:
        on.append(token.type.removesuffix("_open"))
    elif token.nesting < 0:
        on.remove(token.type.removesuffix("_close"))
    return "\n" if token.type in {"softbreak", "hardbreak"} else token.content
