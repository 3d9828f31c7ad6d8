"""Credentials in text, told by the published shapes of their tokens; no rule goes by a keyword alone.

Every rule is anchored at both ends, and bounded in length or unable to run past the next rule of dashes, so that a scan
takes time in proportion to the text. Each has one capture group, the secret itself. A finding carries a rule and a
label, never the text.

Most shapes are those of the public rules of gitleaks; those of Groq and xAI are TruffleHog's, and OpenRouter's is what
its clients check for. For OpenAI's keys without the old mark in their middle none is published: they are told by their
prefix, by their length and by mixed characters, which placeholders don't have.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A kind of secret that occurs in a text, once for each kind."""

    rule: str
    label: str


_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
"""A sign that Markdown shows without the backslash in front of it."""
_BEFORE = r"(?<![A-Za-z0-9])"
_AFTER = r"(?![A-Za-z0-9])"
_MIXED = r"(?=[A-Za-z_-]{0,99}[0-9])(?=[a-z0-9_-]{0,99}[A-Z])(?=[A-Z0-9_-]{0,99}[a-z])"
_MARKER = r"[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----"
_BODY = r"(?:[^-]|-(?!----)){64}[^-]*+(?:-(?!----)[^-]*+)*+"
_PRIVATE_KEY = f"(-----BEGIN{_MARKER}{_BODY}-----END{_MARKER})"

_SHAPES: tuple[tuple[str, str, str, str], ...] = (
    # rule, what its secrets contain (one of these, in small letters), label, shape
    # cloud
    ("aws-key-id", "a3t akia asia abia acca", "AWS access key id", r"(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}"),
    ("gcp-api-key", "aiza", "Google API key", r"AIza[A-Za-z0-9_-]{35}"),
    ("azure-ad-secret", "q~", "Azure AD client secret", r"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}"),
    ("digitalocean-pat", "dop_v1_", "DigitalOcean access token", r"dop_v1_[a-f0-9]{64}"),
    ("digitalocean-oauth", "_v1_", "DigitalOcean OAuth token", r"do[or]_v1_[a-f0-9]{64}"),
    # models
    ("anthropic-api-key", "sk-ant-api", "Anthropic API key", r"sk-ant-api\d{2}-[A-Za-z0-9_-]{80,120}"),
    ("anthropic-admin-key", "sk-ant-admin", "Anthropic admin key", r"sk-ant-admin\d{2}-[A-Za-z0-9_-]{80,120}"),
    ("anthropic-oauth", "sk-ant-o", "Anthropic OAuth token", r"sk-ant-o[ar]t\d{2}-[A-Za-z0-9_-]{80,120}"),
    ("openai-legacy-key", "t3blbkfj", "OpenAI API key", r"sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}"),
    (
        "openai-key",
        "sk-proj- sk-svcacct- sk-admin- sk-none-",
        "OpenAI API key",
        rf"sk-(?:proj|svcacct|admin|None)-{_MIXED}[A-Za-z0-9_-]{{40,260}}",
    ),
    ("openrouter-key", "sk-or-v1-", "OpenRouter API key", r"sk-or-v1-[a-f0-9]{64}"),
    ("groq-key", "gsk_", "Groq API key", r"gsk_[A-Za-z0-9]{52}"),
    ("xai-key", "xai-", "xAI API key", r"xai-[A-Za-z0-9_]{80}"),
    ("huggingface-token", "hf_", "Hugging Face access token", r"hf_[A-Za-z]{34}"),
    ("huggingface-org-token", "api_org_", "Hugging Face organisation token", r"api_org_[A-Za-z]{34}"),
    # source code
    ("github-pat", "ghp_", "GitHub personal access token", r"ghp_[A-Za-z0-9]{36,255}"),
    ("github-fine-grained-pat", "github_pat_", "GitHub fine-grained token", r"github_pat_[A-Za-z0-9_]{82,255}"),
    ("github-app-token", "ghu_ ghs_", "GitHub app token", r"gh[us]_[A-Za-z0-9]{36,255}"),
    ("github-oauth", "gho_", "GitHub OAuth token", r"gho_[A-Za-z0-9]{36,255}"),
    ("github-refresh-token", "ghr_", "GitHub refresh token", r"ghr_[A-Za-z0-9]{36,255}"),
    (
        "gitlab-pat",
        "glpat-",
        "GitLab personal access token",
        r"glpat-[A-Za-z0-9_-]{20,300}(?:\.[a-z0-9]{2}\.[a-z0-9]{9})?",
    ),
    (
        "gitlab-runner-token",
        "glrt-",
        "GitLab runner token",
        r"glrt-(?:t\d_)?[A-Za-z0-9_-]{20,300}(?:\.[a-z0-9]{9})?",
    ),
    ("gitlab-deploy-token", "gldt-", "GitLab deploy token", r"gldt-[A-Za-z0-9_-]{20,300}"),
    # messages
    (
        "slack-bot-token",
        "xoxb-",
        "Slack bot token",
        r"xoxb-(?:\d{10,13}-\d{10,13}[A-Za-z0-9-]{0,64}|\d{8,14}-[A-Za-z0-9]{18,26})",
    ),
    ("slack-user-token", "xoxp- xoxe-", "Slack user token", r"xox[pe]-(?:\d{10,13}-){1,3}[A-Za-z0-9-]{24,64}"),
    ("slack-app-token", "xapp-", "Slack app token", r"(?i:xapp)-\d-[A-Za-z0-9]{1,20}-\d{1,20}-[A-Za-z0-9]{1,80}"),
    ("slack-config-token", "xoxe", "Slack configuration token", r"xoxe(?:\.xox[bp])?-\d-[A-Za-z0-9]{100,250}"),
    ("slack-session-token", "xox", "Slack session token", r"xox[cdoars]-[A-Za-z0-9%-]{10,300}"),
    ("slack-workflow-token", "xwfp-", "Slack workflow token", r"xwfp-[A-Za-z0-9-]{20,200}"),
    (
        "slack-webhook",
        "hooks.slack.com",
        "Slack webhook address",
        r"https://hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/]{40,100}",
    ),
    ("telegram-bot-token", ":", "Telegram bot token", r"(?:bot)?\d{6,16}:[A-Za-z0-9_-]{35}"),
    ("twilio-api-key", "sk", "Twilio API key", r"SK[0-9a-fA-F]{32}"),
    ("sendgrid-token", "sg.", "SendGrid API token", r"SG\.[A-Za-z0-9=_-]{16,32}\.[A-Za-z0-9=_-]{32,64}"),
    # tools
    ("npm-token", "npm_", "npm access token", r"npm_[A-Za-z0-9]{36}"),
    ("pypi-token", "pypi-", "PyPI upload token", r"pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,1000}"),
    ("databricks-token", "dapi", "Databricks API token", r"dapi[a-f0-9]{32}(?:-\d)?"),
    ("terraform-token", "atlasv1", "Terraform API token", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9=_-]{60,70}"),
    ("pulumi-token", "pul-", "Pulumi API token", r"pul-[a-f0-9]{40}"),
    ("postman-token", "pmak-", "Postman API token", r"PMAK-[a-fA-F0-9]{24}-[a-fA-F0-9]{34}"),
    # observability
    ("grafana-api-key", "eyjrijoi", "Grafana API key", r"eyJrIjoi[A-Za-z0-9]{70,400}={0,3}"),
    ("grafana-cloud-token", "glc_", "Grafana cloud API token", r"glc_[A-Za-z0-9+/]{32,400}={0,3}"),
    ("grafana-service-token", "glsa_", "Grafana service account token", r"glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}"),
    ("sentry-user-token", "sntryu_", "Sentry user token", r"sntryu_[a-f0-9]{64}"),
    ("sentry-org-token", "sntrys_", "Sentry organisation token", r"sntrys_eyJ[A-Za-z0-9+/=_]{60,1000}"),
    # commerce
    ("stripe-key", "_test_ _live_ _prod_", "Stripe access key", r"(?:sk|rk)_(?:test|live|prod)_[A-Za-z0-9]{10,99}"),
    ("stripe-webhook-secret", "whsec_", "Stripe webhook secret", r"whsec_[A-Za-z0-9+/]{32,64}={0,2}"),
    ("shopify-access-token", "shpat_ shpca_ shppa_", "Shopify access token", r"shp(?:at|ca|pa)_[a-fA-F0-9]{32}"),
    ("shopify-shared-secret", "shpss_", "Shopify shared secret", r"shpss_[a-fA-F0-9]{32}"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rule:
    finding: Finding
    marks: tuple[str, ...]
    pattern: re.Pattern[str]


_RULES: tuple[_Rule, ...] = (
    *(
        _Rule(
            finding=Finding(rule=rule, label=label),
            marks=tuple(marks.split()),
            pattern=re.compile(f"{_BEFORE}({shape}){_AFTER}", re.ASCII),
        )
        for rule, marks, label, shape in _SHAPES
    ),
    _Rule(
        finding=Finding(rule="private-key", label="private key block"),
        marks=("private key",),
        pattern=re.compile(_PRIVATE_KEY, re.ASCII | re.IGNORECASE),
    ),
)

RULES = tuple(rule.finding.rule for rule in _RULES)
"""The rules by name."""


def scan(text: str) -> tuple[Finding, ...]:
    """Return which kinds of secret occur in the text, each once, in the order of the rules."""
    return tuple(rule.finding for rule in _likely(text) if rule.pattern.search(text))


def redact(text: str) -> str:
    """Return the text with every secret replaced by a mark that names its kind; what surrounds it stays."""
    return cleared(text)[0]


def cleared(text: str, *, known: str = "") -> tuple[str, tuple[str, ...]]:
    """Return the text as `redact` does, and the label of each secret that was taken out, once for each.

    A secret that stands in `known` stays.
    """
    taken: dict[str, str] = {}
    for rule in _likely(text):
        stays = {found[0] for found in rule.pattern.finditer(known)}
        goes = {found[0]: rule.finding.label for found in rule.pattern.finditer(text) if found[0] not in stays}
        text = rule.pattern.sub(partial(_marked, goes), text)
        taken |= goes
    return text, tuple(taken.values())


def secrets_in(name: str, text: str) -> tuple[Finding, ...]:
    """Return which kinds of secret a text holds, or the whole of its name, also as Markdown shows them."""
    whole = f"{name}\n{text}"
    shown = _ESCAPE.sub(r"\1", whole)
    return scan(whole if shown == whole else f"{whole}\n{shown}")


def cleared_as_shown(text: str, *, known: str) -> tuple[str, tuple[str, ...]]:
    """Return what `cleared` does, but without those secrets either that only Markdown shows.

    Between the signs of such a one stand backslashes; its line loses all of these.
    """
    text, left_out = cleared(text, known=known)
    lines, known = text.splitlines(keepends=True), _ESCAPE.sub(r"\1", known)
    for number, line in enumerate(lines):
        shown = _ESCAPE.sub(r"\1", line)
        without, labels = cleared(shown, known=known) if shown != line else (line, ())
        if labels:
            lines[number] = without
            left_out += labels
    return "".join(lines), tuple(dict.fromkeys(left_out))


def _marked(goes: Mapping[str, str], found: re.Match[str]) -> str:
    return f"[{goes[found[0]]} removed]" if found[0] in goes else found[0]


def _likely(text: str) -> list[_Rule]:
    """Leave out the rules whose marks are nowhere: to look for plain text is many times faster than to match."""
    lowered = text.lower()
    return [rule for rule in _RULES if any(mark in lowered for mark in rule.marks)]
