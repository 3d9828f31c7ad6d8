"""What rendering for Telegram takes, beside two libraries: run by hand, `python -m tests.bench.bench_rendering`.

From Markdown to messages within the limits. Compare columns of one run with each other, never with those of
another machine or another hour. telegramify-markdown reads Markdown in Rust; chatgpt-md-converter is Python.
"""

import time
from collections.abc import Callable

from adapters.text import slack, telegram
from tests.unit.adapters.rendering_referee import cases
from tests.unit.adapters.test_side_by_side import converter, ours, telegramify

SIZE = 50_000
ROUNDS = 5
PATIENCE = 3.0  # seconds for the rounds of one text

LINES = {
    **{
        "one word": "x",
        "words": "lorem ipsum. ",
        "CJK": "漢字。",
        "families": "👨‍👩‍👧‍👦",
        "flags": "🇩🇪",
        "accents": "e\u0301",
    },
    **{"marks only": "\u0301", "Thai": "ภาษาไทย", "right to left": "שלום abc ", "brackets": "[", "links begun": "[a]("},
    **{
        "links": "[a](https://b.c) ",
        "addresses": "https://example.org/a?b=c&d ",
        "bold": "**b** word ",
        "italic": "*a* ",
    },
    **{
        "code": "`a` ",
        "struck": "~~a~~ ",
        "hidden": "||a|| ",
        "formulas": "$a$ ",
        "escapes": "\\\\*",
        "entities": "&lt;",
    },
}


def milliseconds(act: Callable[[], object]) -> float:
    """Return the least of some rounds, fewer if they take long."""
    best, began = float("inf"), time.perf_counter()
    for _ in range(ROUNDS):
        before = time.process_time()
        act()
        best = min(best, (time.process_time() - before) * 1000)
        if time.perf_counter() - began > PATIENCE:
            break
    return best


def row(name: str, markdown: str, *, patient: bool) -> tuple[float, float, float]:
    """Print one line of figures, in ms; the Python library takes up to a minute for one long line."""
    mine = milliseconds(lambda: ours(markdown))
    rust = milliseconds(lambda: telegramify(markdown))
    python = milliseconds(lambda: converter(markdown)) if patient else float("nan")
    in_slack = milliseconds(lambda: slack.render(markdown))
    print(f"{name:22}{len(markdown):8}{mine:10.1f}{rust:13.1f}{python:12.1f}{in_slack:10.1f}", flush=True)
    return mine, rust, python


def growing(markdown: str, step: int = 300) -> None:
    """Print what showing an answer while it grows takes, all updates together and the longest of them."""
    beginnings = [markdown[:end] for end in range(step, len(markdown) + step, step)]
    for name, kept in (("as a whole", telegram.render), ("growing", telegram.Growing().render)):
        took = []
        for text in beginnings:
            before = time.process_time()
            kept(text)
            took.append((time.process_time() - before) * 1000)
        print(f"{len(beginnings)} updates up to {len(markdown)} {name}: {sum(took):.0f} ms, longest {max(took):.1f} ms")


def main() -> None:
    """Print the figures of the corpus and of long lines."""
    print(f"{'':22}{'length':>8}{'ours':>10}{'telegramify':>13}{'converter':>12}{'Slack':>10}")
    sums = [row(case.name, case.markdown, patient=True) for case in cases()]
    mine, rust, python = (sum(column) for column in zip(*sums, strict=True))
    print(f"{'the corpus':22}{'':8}{mine:10.1f}{rust:13.1f}{python:12.1f}")
    for name, unit in LINES.items():
        row(name, unit * (SIZE // len(unit.encode())), patient=False)
    growing(next(case.markdown for case in cases() if case.name == "dense_answer") * 2)


if __name__ == "__main__":
    main()
