"""The `/control` API of the model stand-in, for another process to drive it; `standin` documents it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gateway.llm.standin.answers import Answer, Failure, Flaw, ToolCall, structured
from gateway.llm.standin.request import Conversation

_Wish = TypeVar("_Wish", bound=BaseModel)


class Driven(Protocol):
    """What can be driven: the stand-in, as far as this API reaches."""

    @property
    def requests(self) -> Sequence[Any]:
        """What was asked so far, oldest first."""

    def forget(self) -> None:
        """Drop the record."""

    def script(self, answer: Answer | Failure, *, when: Callable[[dict[str, Any]], bool] | None) -> None:
        """Queue one answer."""

    def fail(self, status: int, times: int, retry_after: float | None, *, message: str) -> None:
        """Refuse the next requests."""


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Call(_Body):
    name: str
    input: dict[str, JsonValue] = Field(default_factory=dict)
    id: str = ""


class _Text(_Body):
    text: str = ""
    tools: list[_Call] = Field(default_factory=list)
    thinking: str = ""
    stop_reason: str = ""
    delay: float = Field(default=0.0, ge=0)
    chunk_delay: float | None = Field(default=None, ge=0)
    flaw: Flaw = Flaw.NONE
    flaw_after: int = Field(default=1, ge=0)

    def answer(self) -> Answer:
        fields = {name: getattr(self, name) for name in type(self).model_fields if name != "tools"}
        return Answer(**fields, tools=[ToolCall(name=c.name, input=c.input, id=c.id) for c in self.tools])


class _Structured(_Body):
    json_: JsonValue = Field(alias="json")

    def answer(self) -> Answer:
        return structured(self.json_)


class _Refusal(_Body):
    status: int = Field(ge=400, le=599)
    message: str = ""
    retry_after: float | None = Field(default=None, ge=0)
    delay: float = Field(default=0.0, ge=0)

    def answer(self) -> Failure:
        return Failure(**self.model_dump())


class _When(_Body):
    contains: str = ""
    structured: bool | None = None

    def accepts(self, body: Mapping[str, Any]) -> bool:
        has_format = bool((body.get("output_config") or {}).get("format"))
        fits = self.structured is None or self.structured == has_format
        return fits and self.contains in Conversation.of(body).last_user_text


class _Script(_Body):
    answers: list[_Text | _Structured | _Refusal] = Field(min_length=1)
    when: _When | None = None


class _Fail(_Body):
    status: int = Field(ge=400, le=599)
    times: int = Field(default=1, ge=1)
    retry_after: float | None = Field(default=None, ge=0)
    message: str = ""


_EXAMPLES: Mapping[type[BaseModel], Any] = {
    _Script: {"answers": [{"text": "As you wish."}]},
    _Fail: {"status": 529},
}


def _fault(found: ErrorDetails) -> str:
    """Return which field is at fault and why; those of the kinds of answer that were not meant are left in."""
    where = ".".join(str(part) for part in found["loc"] if not str(part).startswith("_"))
    why = {"missing": "is missing", "extra_forbidden": "is not known"}.get(found["type"], found["msg"])
    return f"{where} {why}" if where else why


def control_routes(standin: Driven) -> list[Route]:
    """Return the routes under `/control` that drive this stand-in."""
    control = _Control(standin)
    return [
        Route("/control/requests", control.requests, methods=["GET", "DELETE"]),
        Route("/control/script", control.script, methods=["POST"]),
        Route("/control/fail", control.fail, methods=["POST"]),
    ]


class _Control:
    def __init__(self, standin: Driven) -> None:
        self._standin = standin

    async def requests(self, request: Request) -> Response:
        if request.method == "DELETE":
            self._standin.forget()
            return JSONResponse({"ok": True})
        names = ("path", "body", "status", "outcome", "usage", "at")
        # Without headers: they hold the key.
        rows = [{name: getattr(row, name) for name in names} for row in self._standin.requests]
        return JSONResponse({"requests": rows})

    async def script(self, request: Request) -> Response:
        return await self._apply(request, _Script, self._queue)

    async def fail(self, request: Request) -> Response:
        return await self._apply(request, _Fail, lambda wish: self._standin.fail(**wish.model_dump()))

    def _queue(self, script: _Script) -> None:
        for wish in script.answers:
            self._standin.script(wish.answer(), when=script.when.accepts if script.when else None)

    async def _apply(self, request: Request, kind: type[_Wish], act: Callable[[_Wish], None]) -> Response:
        try:
            wish = kind.model_validate_json(await request.body())
        except ValidationError as error:
            told = "; ".join(dict.fromkeys(map(_fault, error.errors(include_url=False))))
            return JSONResponse({"ok": False, "error": told, "example": _EXAMPLES[kind]}, status_code=400)
        act(wish)
        return JSONResponse({"ok": True})
