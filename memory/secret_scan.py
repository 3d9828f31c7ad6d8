"""Credentials in text, told by the published shapes of their tokens; no rule goes by a keyword alone.

Every rule is bounded in length and anchored at both ends, so that a scan takes time in proportion to the
text. Each has one capture group, the secret itself. A finding carries a rule and a label, never the text.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A kind of secret that occurs in a text, once for each kind."""

    rule: str
    label: str


_BEFORE = r"(?<![A-Za-z0-9])"
_AFTER = r"(?![A-Za-z0-9])"
_MARKER = r"[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----"
_BODY = r"(?:[^-]|-(?!----)){64,20000}?"
_PRIVATE_KEY = f"(-----BEGIN{_MARKER}{_BODY}-----END{_MARKER})"

_SHAPES: tuple[tuple[str, str, str], ...] = (
    # cloud
    ("aws-key-id", "AWS access key id", r"(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}"),
    ("gcp-api-key", "Google API key", r"AIza[A-Za-z0-9_-]{35}"),
    ("azure-ad-secret", "Azure AD client secret", r"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}"),
    ("digitalocean-pat", "DigitalOcean access token", r"dop_v1_[a-f0-9]{64}"),
    ("digitalocean-oauth", "DigitalOcean OAuth token", r"do[or]_v1_[a-f0-9]{64}"),
    # models
    ("anthropic-api-key", "Anthropic API key", r"sk-ant-api\d{2}-[A-Za-z0-9_-]{80,120}"),
    ("anthropic-admin-key", "Anthropic admin key", r"sk-ant-admin\d{2}-[A-Za-z0-9_-]{80,120}"),
    ("anthropic-oauth", "Anthropic OAuth token", r"sk-ant-o[ar]t\d{2}-[A-Za-z0-9_-]{80,120}"),
    ("openai-legacy-key", "OpenAI API key", r"sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}"),
    (
        "openai-key",
        "OpenAI API key",
        r"sk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,100}T3BlbkFJ[A-Za-z0-9_-]{20,100}",
    ),
    ("huggingface-token", "Hugging Face access token", r"hf_[A-Za-z]{34}"),
    ("huggingface-org-token", "Hugging Face organisation token", r"api_org_[A-Za-z]{34}"),
    # source code
    ("github-pat", "GitHub personal access token", r"ghp_[A-Za-z0-9]{36,255}"),
    ("github-fine-grained-pat", "GitHub fine-grained token", r"github_pat_[A-Za-z0-9_]{82,255}"),
    ("github-app-token", "GitHub app token", r"gh[us]_[A-Za-z0-9]{36,255}"),
    ("github-oauth", "GitHub OAuth token", r"gho_[A-Za-z0-9]{36,255}"),
    ("github-refresh-token", "GitHub refresh token", r"ghr_[A-Za-z0-9]{36,255}"),
    (
        "gitlab-pat",
        "GitLab personal access token",
        r"glpat-[A-Za-z0-9_-]{20,300}(?:\.[a-z0-9]{2}\.[a-z0-9]{9})?",
    ),
    ("gitlab-deploy-token", "GitLab deploy token", r"gldt-[A-Za-z0-9_-]{20,300}"),
    # messages
    ("slack-bot-token", "Slack bot token", r"xoxb-\d{10,13}-\d{10,13}[A-Za-z0-9-]{0,64}"),
    ("slack-user-token", "Slack user token", r"xox[pe]-(?:\d{10,13}-){1,3}[A-Za-z0-9-]{24,64}"),
    ("slack-app-token", "Slack app token", r"(?i:xapp)-\d-[A-Za-z0-9]{1,20}-\d{1,20}-[A-Za-z0-9]{1,80}"),
    ("slack-config-token", "Slack configuration token", r"xoxe(?:\.xox[bp])?-\d-[A-Za-z0-9]{100,250}"),
    ("slack-session-token", "Slack session token", r"xox[cdoars]-[A-Za-z0-9%-]{10,300}"),
    ("slack-workflow-token", "Slack workflow token", r"xwfp-[A-Za-z0-9-]{20,200}"),
    (
        "slack-webhook",
        "Slack webhook address",
        r"https://hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/]{40,100}",
    ),
    ("telegram-bot-token", "Telegram bot token", r"(?:bot)?\d{6,16}:[A-Za-z0-9_-]{35}"),
    ("twilio-api-key", "Twilio API key", r"SK[0-9a-fA-F]{32}"),
    ("sendgrid-token", "SendGrid API token", r"SG\.[A-Za-z0-9=_-]{16,32}\.[A-Za-z0-9=_-]{32,64}"),
    # tools
    ("npm-token", "npm access token", r"npm_[A-Za-z0-9]{36}"),
    ("pypi-token", "PyPI upload token", r"pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,1000}"),
    ("databricks-token", "Databricks API token", r"dapi[a-f0-9]{32}(?:-\d)?"),
    ("terraform-token", "Terraform API token", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9=_-]{60,70}"),
    ("pulumi-token", "Pulumi API token", r"pul-[a-f0-9]{40}"),
    ("postman-token", "Postman API token", r"PMAK-[a-fA-F0-9]{24}-[a-fA-F0-9]{34}"),
    # observability
    ("grafana-api-key", "Grafana API key", r"eyJrIjoi[A-Za-z0-9]{70,400}={0,3}"),
    ("grafana-cloud-token", "Grafana cloud API token", r"glc_[A-Za-z0-9+/]{32,400}={0,3}"),
    ("grafana-service-token", "Grafana service account token", r"glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}"),
    ("sentry-user-token", "Sentry user token", r"sntryu_[a-f0-9]{64}"),
    ("sentry-org-token", "Sentry organisation token", r"sntrys_eyJ[A-Za-z0-9+/=_]{60,1000}"),
    # commerce
    ("stripe-key", "Stripe access key", r"(?:sk|rk)_(?:test|live|prod)_[A-Za-z0-9]{10,99}"),
    ("stripe-webhook-secret", "Stripe webhook secret", r"whsec_[A-Za-z0-9+/]{32,64}={0,2}"),
    ("shopify-access-token", "Shopify access token", r"shp(?:at|ca|pa)_[a-fA-F0-9]{32}"),
    ("shopify-shared-secret", "Shopify shared secret", r"shpss_[a-fA-F0-9]{32}"),
)

_RULES: tuple[tuple[Finding, re.Pattern[str]], ...] = (
    *(
        (Finding(rule=rule, label=label), re.compile(f"{_BEFORE}({shape}){_AFTER}", re.ASCII))
        for rule, label, shape in _SHAPES
    ),
    (
        Finding(rule="private-key", label="private key block"),
        re.compile(_PRIVATE_KEY, re.ASCII | re.IGNORECASE),
    ),
)


def scan(text: str) -> tuple[Finding, ...]:
    """Return which kinds of secret occur in the text, each once, in the order of the rules."""
    return tuple(finding for finding, pattern in _RULES if pattern.search(text))


def redact(text: str) -> str:
    """Return the text with every secret replaced by a mark that names its kind; what surrounds it stays."""
    for finding, pattern in _RULES:
        text = pattern.sub(f"[{finding.label} removed]", text)
    return text
