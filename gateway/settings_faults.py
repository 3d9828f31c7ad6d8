"""What is wrong with settings, in plain words: where it stands, what it is, and the name that may have been meant."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import SettingsError

from gateway.errors import StartRefused

PREFIX = "REVERIE_"
_BETWEEN = "__"
_CURE = "Mend it where it stands; what can be set is told in deploy/env.example and README.md."
_WHOLE, _TEXT, _LIST, _TABLE = "a whole number", "a text, in quotes", "a list", "a table"
_KINDS = {
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), _WHOLE),
    **dict.fromkeys(("float_parsing", "float_type"), "a number"),
    **dict.fromkeys(("bool_parsing", "bool_type"), "true or false"),
    **dict.fromkeys(("string_type", "path_type", "dataclass_type"), _TEXT),
    **dict.fromkeys(("tuple_type", "list_type"), _LIST),
    **dict.fromkeys(("dict_type", "model_type"), _TABLE),
}
_PATTERNS = {"^https?://": "a whole address, with http:// or https:// before it"}
_LENGTH = re.compile(r"at least (\d+) items? after validation, not (\d+)")
_Path = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where settings come from: the files, of which the first goes before the environment and the rest after it."""

    files: Sequence[tuple[Path, Mapping[str, Any]]]
    environ: Mapping[str, str]
    fixed: Mapping[str, _Path]
    """Names of variables that have no prefix, and which setting is meant."""

    def place(self, path: _Path) -> str:
        """Return which file or variable gives the setting, or else the table that it belongs in; "" if none does."""
        parts = (path[:length] for length in range(len(path), 0, -1))
        return next((place for part in parts for place in self._giving(part)), "")

    def _giving(self, path: _Path) -> Iterator[str]:
        of_files = [str(file) if _holds(tree, path) else "" for file, tree in self.files]
        name = PREFIX + _BETWEEN.join(path).upper()
        yield from filter(None, of_files[:1])
        yield from (given for given, value in self.environ.items() if value and given.upper() == name)
        yield from (given for given, meant in self.fixed.items() if meant == path and self.environ.get(given))
        yield from filter(None, of_files[1:])


def told(error: ValidationError, model: type[BaseModel], sources: Sources) -> StartRefused:
    """Return the faults and their cure; a fault is its place, the setting and the cause."""
    found = error.errors(include_input=False, include_url=False)
    return StartRefused(*dict.fromkeys(_line(fault, model, sources) for fault in found), cure=_CURE)


def told_unreadable(error: SettingsError) -> StartRefused:
    """Return the same for a variable whose value can't be taken apart."""
    field = re.search(r'field "(\w+)"', str(error))
    name = f"{PREFIX}{field[1].upper()}" if field else "The environment"
    said = f"{name}: it can't be read: {error.__cause__ or error}"
    return StartRefused(said, cure="Lists go with commas, tables as JSON.")


def misspelt(environ: Mapping[str, str], model: type[BaseModel], *, besides: Collection[str]) -> Iterator[str]:
    """Yield a clause for each variable with our prefix that nothing reads; those of known tables are refused already.

    `besides` are names that are read elsewhere.
    """
    tops = {f"{PREFIX}{name}".upper(): field.annotation for name, field in model.model_fields.items()}
    sections = {name: section for name, annotation in tops.items() if (section := _section(annotation))}
    within = (f"{name}{_BETWEEN}{key}".upper() for name, each in sections.items() for key in each.model_fields)
    known = [*tops, *besides, *within]
    for name, value in sorted(environ.items()):
        upper = name.upper()
        if value and upper.startswith(PREFIX) and upper not in besides and upper.split(_BETWEEN)[0] not in tops:
            yield f"{name} is no setting and does nothing{nearest(upper, known)}"


def nearest(name: str, known: Collection[str]) -> str:
    """Return ` (did you mean …?)` for the name that is most like it, or ""."""
    like = get_close_matches(name, known, n=1)
    return f" (did you mean {like[0]}?)" if like else ""


def _line(fault: ErrorDetails, model: type[BaseModel], sources: Sources) -> str:
    path = tuple(str(part) for part in fault["loc"] if part != "[key]")
    return ": ".join(filter(None, (sources.place(path), ".".join(path), _cause(fault, path, model))))


def _cause(fault: ErrorDetails, path: _Path, model: type[BaseModel]) -> str:
    if fault["type"] == "extra_forbidden":
        section = _at(model, path[:-1])
        return f"there is no such setting{nearest(path[-1], section.model_fields if section else ())}"
    if length := _LENGTH.search(fault["msg"]):  # which pydantic says of a secret too
        return (
            "it is empty"
            if length[2] == "0"
            else f"it has a length of {length[2]}, and should have at least {length[1]}"
        )
    kind = _KINDS.get(fault["type"]) or _PATTERNS.get(fault.get("ctx", {}).get("pattern", ""))
    said = fault["msg"].removeprefix("Value error, ").replace("Input should", "it should")
    return f"it should be {kind}" if kind else "it is missing" if fault["type"] == "missing" else said


def _at(model: type[BaseModel], path: _Path) -> type[BaseModel] | None:
    """Return the section that a setting stands in; the names in a table of sections are anybody's."""
    at: type[BaseModel] | None = model
    for part in path:
        field = at.model_fields.get(part) if at else None
        at = _section(field.annotation) if field else at
    return at


def _section(annotation: object) -> type[BaseModel] | None:
    """Return the section that a setting is, or has as values."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for each in get_args(annotation) if (found := _section(each))), None)


def _holds(tree: Any, path: _Path) -> bool:
    for part in path:
        if not isinstance(tree, Mapping) or part not in tree:
            return False
        tree = tree[part]
    return True
