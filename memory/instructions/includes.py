"""The `@path` includes of an instruction file: where they may stand and what they may name."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import PurePosixPath

from markdown_it import MarkdownIt
from markdown_it.token import Token

MAX_HOPS = 4
"""How far an included file may be from the file that is loaded for itself."""

_MOST_PER_FILE = 500
_ELSEWHERE = "\0"
"""Stands for code and HTML: it is no blank, and the parser lets none through."""
_INCLUDE = re.compile(r"(?<!\S)@((?:\\.|[^\s\\\0])+)")
_FRAGMENT = re.compile(r"(?<!\\)#.*", re.DOTALL)
_ESCAPED = re.compile(r"\\([ -/:-@\[-`{-~])")
_ACCEPTED = re.compile(r"\./|~/|/.|[\w.-]", re.DOTALL)
_MARKUP = ("emphasis", "link", "image", "text_join")
"""What would take a path apart, or hide that an `@` was written in another way."""

_TEXT_TYPES = frozenset(
    """
    md markdown mdx mdc qmd rmd rst adoc asciidoc org tex bib txt text log csv tsv
    json jsonc json5 jsonl ndjson yaml yml toml ini cfg conf config env properties xml xsd xsl svg
    html htm xhtml css scss sass less styl vue svelte astro hbs ejs pug njk j2 jinja liquid
    js jsx mjs cjs ts tsx mts cts py pyi pyx ipynb rb erb rake php pl pm lua tcl r jl
    c h cc cpp cxx hh hpp hxx m mm rs go zig nim d java kt kts scala groovy gradle clj cljs cljc edn
    cs fs fsx vb swift dart ex exs erl hrl hs lhs elm ml mli lisp el scm rkt
    sh bash zsh fish ps1 psm1 bat cmd awk sed make mk cmake bazel bzl nix tf tfvars hcl
    sql graphql gql proto thrift avsc prisma sol wgsl glsl vim diff patch lock tmpl
    """.split()  # noqa: SIM905  (a list of two hundred quoted words hides them)
)


def includes(text: str) -> Sequence[str]:
    """Return the paths that a Markdown text includes, each once, without escapes and fragments.

    An include begins a line or follows a blank, outside of code and HTML; a blank in its path is written with
    a backslash before it. Only names of text files count, and those without an extension.
    """
    if "@" not in text:
        return ()
    tokens = MarkdownIt("commonmark").disable(_MARKUP).parse(text)
    written = (raw for token in tokens if token.children for raw in _INCLUDE.findall(_plain(token.children)))
    paths = dict.fromkeys(path for raw in written if _is_text_file(path := _path(raw)))
    return tuple(islice(paths, _MOST_PER_FILE))


def _plain(children: Sequence[Token]) -> str:
    return "".join(_shown(children))


def _shown(children: Sequence[Token]) -> Iterator[str]:
    for token in children:
        match token.type:
            case "text":
                yield token.content
            case "text_special":  # as it was written: an escaped @ is none
                yield token.markup
            case "softbreak" | "hardbreak":
                yield "\n"
            case _:
                yield _ELSEWHERE


def _path(raw: str) -> str:
    return _ESCAPED.sub(r"\1", _FRAGMENT.sub("", raw))


def _is_text_file(path: str) -> bool:
    if not _ACCEPTED.match(path):
        return False
    return PurePosixPath(path).suffix.lower().removeprefix(".") in _TEXT_TYPES | {""}
