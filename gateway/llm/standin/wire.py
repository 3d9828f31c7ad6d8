"""The fields of a Messages API request, as strict as the API itself: what is not named here is refused.

Only the shape is here; what one part of a request demands of another is in `validation`.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag


class _Wire(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class CacheControl(_Wire):
    """A cache breakpoint; without `ttl` it holds for five minutes."""

    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] = "5m"


class _Cacheable(_Wire):
    cache_control: CacheControl | None = None


class TextBlock(_Cacheable):
    """Plain text."""

    type: Literal["text"]
    text: str
    citations: list[dict[str, Any]] | None = None


class Base64Image(_Wire):
    """An image within the request."""

    type: Literal["base64"]
    media_type: Literal["image/jpeg", "image/png", "image/gif", "image/webp"]
    data: str = Field(min_length=1)


class UrlSource(_Wire):
    """Something that the API fetches."""

    type: Literal["url"]
    url: str = Field(min_length=1)


class FileSource(_Wire):
    """Something that was uploaded before."""

    type: Literal["file"]
    file_id: str = Field(min_length=1)


class ImageBlock(_Cacheable):
    """A picture."""

    type: Literal["image"]
    source: Annotated[Base64Image | UrlSource | FileSource, Field(discriminator="type")]
    transformations: dict[str, Any] | None = None


class Base64Pdf(_Wire):
    """A PDF within the request."""

    type: Literal["base64"]
    media_type: Literal["application/pdf"]
    data: str = Field(min_length=1)


class PlainText(_Wire):
    """A text document."""

    type: Literal["text"]
    media_type: Literal["text/plain"]
    data: str


class DocumentBlock(_Cacheable):
    """A document to read, with or without citations."""

    type: Literal["document"]
    source: Annotated[Base64Pdf | PlainText | UrlSource | FileSource, Field(discriminator="type")]
    title: str | None = None
    context: str | None = None
    citations: dict[str, Any] | None = None


class SearchResultBlock(_Cacheable):
    """A search result that may be cited."""

    type: Literal["search_result"]
    source: str
    title: str
    content: list[TextBlock]
    citations: dict[str, Any] | None = None


class ThinkingBlock(_Wire):
    """Thinking of an earlier answer, handed back unchanged."""

    type: Literal["thinking"]
    thinking: str
    signature: str


class RedactedThinkingBlock(_Wire):
    """Thinking that only the API can read, handed back unchanged."""

    type: Literal["redacted_thinking"]
    data: str


class ToolUseBlock(_Cacheable):
    """A call that the model made."""

    type: Literal["tool_use"]
    id: str = Field(pattern=r"^[a-zA-Z0-9_-]+$")
    name: str = Field(pattern=r"^[a-zA-Z0-9_-]{1,200}$")
    input: dict[str, Any]
    caller: dict[str, Any] | None = None
    toolset_name: str | None = None


def _blocks(content: object) -> object:
    """A string is shorthand for one text block; as blocks, the errors name one path and not two."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


_ResultPart = Annotated[TextBlock | ImageBlock | SearchResultBlock | DocumentBlock, Field(discriminator="type")]


class ToolResultBlock(_Cacheable):
    """What a call gave; `content` may be missing."""

    type: Literal["tool_result"]
    tool_use_id: str = Field(pattern=r"^[a-zA-Z0-9_-]+$")
    content: Annotated[list[_ResultPart], BeforeValidator(_blocks)] | None = None
    is_error: bool = False
    toolset_name: str | None = None


Block = Annotated[
    TextBlock
    | ImageBlock
    | DocumentBlock
    | SearchResultBlock
    | ThinkingBlock
    | RedactedThinkingBlock
    | ToolUseBlock
    | ToolResultBlock,
    Field(discriminator="type"),
]


class Message(_Wire):
    """One message; which block may stand in which role is checked apart."""

    role: Literal["user", "assistant", "system"]
    content: Annotated[list[Block], BeforeValidator(_blocks)]


class InputSchema(BaseModel):
    """A JSON schema of which only the outside is looked at."""

    model_config = ConfigDict(extra="allow", strict=True)
    type: Literal["object"]
    properties: dict[str, Any] | None = None
    required: list[str] | None = None


class CustomTool(_Cacheable):
    """A tool that the client runs."""

    name: str = Field(pattern=r"^[a-zA-Z0-9_-]{1,128}$")
    input_schema: InputSchema
    type: Literal["custom"] | None = None
    description: str | None = None
    strict: bool | None = None
    defer_loading: bool | None = None
    eager_input_streaming: bool | None = None
    allowed_callers: list[str] | None = None
    input_examples: list[dict[str, Any]] | None = None


class BuiltInTool(_Cacheable):
    """A tool that the API defines; its own options are not looked at."""

    model_config = ConfigDict(extra="allow", strict=True)
    name: str
    type: str = Field(pattern=r"^[a-z_]+_20\d{6}$")


def _tool_kind(tool: object) -> str:
    kind = tool.get("type") if isinstance(tool, dict) else getattr(tool, "type", None)
    return "custom" if kind in (None, "custom") else "built_in"


Tool = Annotated[
    Annotated[CustomTool, Tag("custom")] | Annotated[BuiltInTool, Tag("built_in")], Discriminator(_tool_kind)
]


class ToolChoice(_Wire):
    """Whether, and which, tools must be called."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool = False


class ThinkingEnabled(_Wire):
    """Thinking with a budget in tokens."""

    type: Literal["enabled"]
    budget_tokens: int = Field(ge=1024)
    display: Literal["summarized", "omitted"] | None = None


class ThinkingAdaptive(_Wire):
    """Thinking as much as the model sees fit."""

    type: Literal["adaptive"]
    display: Literal["summarized", "omitted"] | None = None


class ThinkingOther(_Wire):
    """No thinking, or thinking between tool calls only."""

    type: Literal["disabled", "between_tools"]


class JsonFormat(_Wire):
    """The answer is one JSON value of this schema."""

    model_config = ConfigDict(extra="forbid", strict=True, protected_namespaces=())
    type: Literal["json_schema"]
    schema_: dict[str, Any] = Field(alias="schema")


class OutputConfig(_Wire):
    """How to answer."""

    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: JsonFormat | None = None


class Metadata(_Wire):
    """Whom the request is for, as an opaque id."""

    user_id: str | None = Field(default=None, max_length=512)


class Diagnostics(_Wire):
    """A wish to learn why the cache was missed."""

    previous_message_id: str | None = None


class CountTokens(_Wire):
    """The body of `/v1/messages/count_tokens`."""

    model: str = Field(min_length=1)
    messages: list[Message] = Field(max_length=100_000)
    system: Annotated[list[TextBlock], BeforeValidator(_blocks)] | None = None
    tools: list[Tool] = Field(default_factory=list)
    tool_choice: ToolChoice | None = None
    thinking: Annotated[ThinkingEnabled | ThinkingAdaptive | ThinkingOther, Field(discriminator="type")] | None = None
    output_config: OutputConfig | None = None
    cache_control: CacheControl | None = None
    speed: Literal["standard", "fast"] | None = None


class CreateMessage(CountTokens):
    """The body of `/v1/messages`."""

    max_tokens: int = Field(ge=1)
    stream: bool = False
    stop_sequences: list[str] = Field(default_factory=list)
    metadata: Metadata | None = None
    service_tier: Literal["auto", "standard_only"] | None = None
    inference_geo: str | None = None
    container: str | dict[str, Any] | None = None
    diagnostics: Diagnostics | None = None
    user_profile_id: str | None = None
