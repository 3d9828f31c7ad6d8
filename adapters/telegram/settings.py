"""What an operator sets for Telegram."""

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator


class TelegramSettings(BaseModel):
    """How to reach one bot. With `webhook_url` Telegram calls us there; without it we poll."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    token: SecretStr
    api_url: str = "https://api.telegram.org"
    """Requests go to `{api_url}/bot{token}/{method}`."""

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

    @model_validator(mode="after")
    def _webhook_is_guarded(self) -> "TelegramSettings":
        if self.webhook_url and not self.webhook_secret:
            raise ValueError("webhook_url needs webhook_secret: 16 or more letters and digits of your own")
        return self
