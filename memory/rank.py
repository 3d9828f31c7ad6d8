"""The local ranking of notes: SQLite's full-text search over name, description and body, without a model.

It names candidates beyond those that a manifest has room for, and stands in when the selector gives no
answer.
"""

import math
import sqlite3
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import takewhile

import regex
from anyio import to_thread

from memory.prompt import read_text
from memory.scan import NoteHeader
from memory.scope import Scope

BODY_BYTES = 65_536
"""How much of a note is searched; longer ones are rare and their head says what they are about."""

MAX_TERMS = 32
"""How many different words of a message are looked up."""

# Scripts written without spaces, which SQLite's tokenizer takes for one endless word.
UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}\u30fc"
_PIECE = regex.compile(rf"[{UNSPACED}]+|[[\p{{L}}\p{{N}}\p{{M}}]--[{UNSPACED}]]+", regex.V1)
_UNSPACED_RUN = regex.compile(rf"[{UNSPACED}]+", regex.V1)

# Cut by shape: the header is read elsewhere, and YAML is too slow for thousands of notes in one call.
_FRONTMATTER = regex.compile(r"\A---[ \t]*\r?\n(?:.*?\n)?---[ \t]*(?:\r?\n|\Z)", regex.DOTALL)

FUNCTION_WORDS = (
    "about again all also and any are because been but can could did does for from get had has have her here hers him "
    "his how its just know let like more most not now our out she should some than that the their them then there "
    "these they this those too use was were what when where which who whom whose why will with would yes you your"
)
"""Words of three letters and more of which sentences are made and which say nothing of their subject."""
_ASKING = (
    "a am an as at be by d do give go he hello hey hi i if in is it ll m me mine my no of on or ours please re "
    "remember remind s so t tell thanks thing to up us ve we yours"
)
_EMPTY = frozenset(f"{FUNCTION_WORDS} {_ASKING}".split())


def terms(text: str) -> Iterator[str]:
    """Yield the words to search by, in order: case-folded words, overlapping pairs of unspaced scripts."""
    for piece in _PIECE.findall(unicodedata.normalize("NFKC", text).casefold()):
        if not _UNSPACED_RUN.fullmatch(piece) or len(piece) == 1:
            yield piece
        else:
            yield from (piece[i : i + 2] for i in range(len(piece) - 1))


class Ranking:
    """Ranks a scope's notes by how well they match a text."""

    async def best(self, scope: Scope, headers: Sequence[NoteHeader], query: str, k: int) -> list[tuple[str, float]]:
        """Return at most `k` (name, score), best first by BM25.

        The score, in (0, 1], is the share of the query's words that the note has, each weighted by its
        rarity: unlike BM25's own figure it can be held against one threshold for all collections. Notes that
        match nothing are left out, unreadable ones are judged by their header. Only files below the scope's
        memory directory are opened.
        """
        wanted = list(dict.fromkeys(term for term in terms(query) if term not in _EMPTY))[:MAX_TERMS]
        inside = [header for header in headers if str(header.path).startswith(f"{scope.memory_dir}/")]
        if not wanted or not inside:
            return []
        given_up = threading.Event()
        try:
            rank = partial(_ranked, scope, inside, wanted, k, given_up)
            return await to_thread.run_sync(rank, abandon_on_cancel=True)
        finally:
            given_up.set()


def _ranked(
    scope: Scope, headers: Sequence[NoteHeader], wanted: Sequence[str], k: int, given_up: threading.Event
) -> list[tuple[str, float]]:
    # In memory and per call: nothing of a note outlives the call, so nothing has to be erased with it.
    with closing(sqlite3.connect(":memory:")) as table:
        table.execute(
            "CREATE VIRTUAL TABLE note USING fts5"
            "(name, description, body, content='', tokenize='porter unicode61 remove_diacritics 2')"
        )
        # A thread can't be cancelled: without this one whose caller has gone would read thousands of notes more.
        rows = takewhile(lambda _: not given_up.is_set(), _rows(scope, headers))
        table.executemany("INSERT INTO note(rowid, name, description, body) VALUES (?, ?, ?, ?)", rows)
        matched = {term: {row for (row,) in _matches(table, term)} for term in wanted}
        weight = {term: math.log(1 + len(headers) / (len(rows) or 0.5)) for term, rows in matched.items()}
        total = sum(weight.values())
        order = table.execute(
            "SELECT rowid FROM note WHERE note MATCH ? ORDER BY bm25(note, 2.0, 2.0, 1.0), rowid LIMIT ?",
            (" OR ".join(f'"{term}"' for term in wanted), k),
        )
        return [
            (headers[row].name, sum(weight[term] for term in wanted if row in matched[term]) / total)
            for (row,) in order
        ]


def _rows(scope: Scope, headers: Sequence[NoteHeader]) -> Iterator[tuple[int, str, str, str]]:
    for row, header in enumerate(headers):
        text = read_text(scope.memory_dir, header.path, limit=BODY_BYTES)
        # Without a readable header the block may be anything: then all of the text is searched.
        body = _FRONTMATTER.sub("", text, count=1) if header.type or header.description else text
        name = header.name.removesuffix(".md")
        yield row, _searchable(name), _searchable(header.description), _searchable(body)


def _searchable(text: str) -> str:
    return " ".join(terms(text))


def _matches(table: sqlite3.Connection, term: str) -> sqlite3.Cursor:
    return table.execute("SELECT rowid FROM note WHERE note MATCH ?", (f'"{term}"',))
