"""What an operator sets for Telegram."""

from importlib.util import find_spec

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator


class TelegramSettings(BaseModel):
    """How to reach one bot. With `webhook_url` Telegram calls us there; without it we poll."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    token: SecretStr
    api_url: str = "https://api.telegram.org"
    """Requests go to `{api_url}/bot{token}/{method}`."""

    local: bool = False
    """`api_url` is a Bot API server of one's own, with `--local`, whose files lie on a disk that we share: no 20 MB."""

    proxy: SecretStr | None = None
    """The way to Telegram, e.g. http://user:password@proxy:3128; without it, what the environment names."""

    webhook_url: str | None = None
    """The whole public address, below `/telegram/` of ours, e.g. https://bot.example.org/telegram/in."""

    webhook_secret: SecretStr | None = Field(default=None, min_length=1, max_length=256)
    """Sent along by Telegram with each call, so that nobody else can put messages in."""

    @field_validator("token")
    @classmethod
    def _is_one_word(cls, token: SecretStr) -> SecretStr:
        word = token.get_secret_value().strip()
        if not word or any(character.isspace() or character in "/?#" for character in word):
            raise ValueError("this is no bot token: take it from @BotFather, it looks like 123456789:AAE…")
        return SecretStr(word)

    @field_validator("api_url")
    @classmethod
    def _is_a_base(cls, url: str) -> str:
        if not url.startswith(("https://", "http://")):
            raise ValueError("write the whole base address, e.g. https://api.telegram.org")
        return url.rstrip("/")

    @field_validator("proxy")
    @classmethod
    def _is_a_proxy(cls, proxy: SecretStr | None) -> SecretStr | None:
        scheme, there, rest = proxy.get_secret_value().partition("://") if proxy else ("http", "://", "-")
        if not (there and rest) or scheme not in {"http", "https", "socks5", "socks5h"}:
            raise ValueError("write the whole address of the proxy, e.g. http://proxy:3128")
        if scheme.startswith("socks") and find_spec("socksio") is None:
            raise ValueError("a SOCKS proxy needs one more package: install httpx[socks]")
        return proxy

    @model_validator(mode="after")
    def _is_ours_if_local(self) -> "TelegramSettings":
        if self.local and self.api_url == type(self).model_fields["api_url"].default:
            raise ValueError("local needs api_url: the address of your own Bot API server")
        return self

    @model_validator(mode="after")
    def _webhook_is_guarded(self) -> "TelegramSettings":
        if self.webhook_url and not self.webhook_secret:
            raise ValueError("webhook_url needs webhook_secret: 16 or more letters and digits of your own")
        return self
