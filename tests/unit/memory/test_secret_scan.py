"""Secrets are told by their shape. The samples are put together here, so that no file holds one whole."""

import time

import pytest

from memory.secret_scan import cleared, redact, scan

A35 = "aB3_-" * 7
SAMPLES = {
    "aws-key-id": "AKIA" + "QWERTYUIOP234567",
    "gcp-api-key": "AIza" + A35,
    "azure-ad-secret": "abc8Q~" + "a" * 34,
    "digitalocean-pat": "dop_v1_" + "0a" * 32,
    "digitalocean-oauth": "doo_v1_" + "0a" * 32,
    "anthropic-api-key": "sk-ant-api03-" + "x" * 93 + "AA",
    "anthropic-admin-key": "sk-ant-admin01-" + "x" * 93 + "AA",
    "anthropic-oauth": "sk-ant-oat01-" + "x" * 95,
    "openai-legacy-key": "sk-" + "a" * 20 + "T3BlbkFJ" + "b" * 20,
    "openai-key": "sk-proj-" + "a" * 74 + "T3BlbkFJ" + "b" * 74,
    "openrouter-key": "sk-or-v1-" + "0a" * 32,
    "groq-key": "gsk_" + "aB3d" * 13,
    "xai-key": "xai-" + "aB3_" * 20,
    "huggingface-token": "hf_" + "aB" * 17,
    "huggingface-org-token": "api_org_" + "aB" * 17,
    "github-pat": "ghp_" + "a1" * 18,
    "github-fine-grained-pat": "github_pat_" + "a" * 82,
    "github-app-token": "ghs_" + "a1" * 18,
    "github-oauth": "gho_" + "a1" * 18,
    "github-refresh-token": "ghr_" + "a1" * 18,
    "gitlab-pat": "glpat-" + "a-_1" * 5,
    "gitlab-runner-token": "glrt-" + "t1_" + "a-_1" * 7 + ".01" + "a1b2c3d",
    "gitlab-deploy-token": "gldt-" + "a-_1" * 5,
    "slack-bot-token": "xoxb-" + "1" * 12 + "-" + "2" * 12 + "-" + "a" * 24,
    "slack-user-token": "xoxp-" + "1" * 12 + "-" + "2" * 12 + "-" + "3" * 12 + "-" + "a" * 32,
    "slack-app-token": "xapp-1-A012345-" + "1" * 13 + "-" + "a" * 64,
    "slack-config-token": "xoxe.xoxp-1-" + "a" * 150,
    "slack-session-token": "xoxc-" + "1" * 12 + "-" + "a" * 20,
    "slack-workflow-token": "xwfp-" + "1" * 12 + "-" + "a" * 20,
    "slack-webhook": "https://hooks.slack.com/" + "services/T" + "0" * 10 + "/B" + "0" * 10 + "/" + "a" * 24,
    "telegram-bot-token": "123456789:" + A35,
    "twilio-api-key": "SK" + "0f" * 16,
    "sendgrid-token": "SG." + "a" * 22 + "." + "b" * 43,
    "npm-token": "npm_" + "a1" * 18,
    "pypi-token": "pypi-" + "AgEIcHlwaS5vcmc" + "a" * 60,
    "databricks-token": "dapi" + "0f" * 16,
    "terraform-token": "a" * 14 + ".atlasv1." + "b" * 64,
    "pulumi-token": "pul-" + "0f" * 20,
    "postman-token": "PMAK-" + "0f" * 12 + "-" + "0f" * 17,
    "grafana-api-key": "eyJrIjoi" + "a" * 80 + "==",
    "grafana-cloud-token": "glc_" + "a" * 60 + "=",
    "grafana-service-token": "glsa_" + "a" * 32 + "_" + "0f" * 4,
    "sentry-user-token": "sntryu_" + "0f" * 32,
    "sentry-org-token": "sntrys_eyJ" + "a" * 100,
    "stripe-key": "sk_live_" + "a1" * 12,
    "stripe-webhook-secret": "whsec_" + "a" * 32,
    "shopify-access-token": "shpat_" + "0f" * 16,
    "shopify-shared-secret": "shpss_" + "0f" * 16,
    "private-key": "-----BEGIN RSA PRIVATE KEY-----\n" + "abcd" * 30 + "\n-----END RSA PRIVATE KEY-----",
}


@pytest.mark.parametrize(("rule", "secret"), SAMPLES.items(), ids=SAMPLES)
def test_a_secret_is_told_by_exactly_its_own_rule_and_taken_out_alone(rule: str, secret: str) -> None:
    for before, after in (
        ("", ""),
        ("key: ", "\n"),
        ("`", "`"),
        ('="', '"'),
        ("-", ","),
        ("ключ", "ж"),
        ("_", " "),
    ):
        text = before + secret + after
        (finding,) = scan(text)
        assert finding.rule == rule
        assert redact(text) == f"{before}[{finding.label} removed]{after}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "We never put tokens such as sk-... or ghp_ into notes.",
        "password: hunter2",
        "12:30:aaaaaaaaaaaaaaaaaa",
        "sha256:" + "0f" * 32,
        "xaws" + "AKIA" + "QWERTYUIOP234567",
        "ghp_" + "a" * 20,
        "dapi" + "0f" * 20,
        "-----BEGIN PRIVATE KEY-----\nshort\n-----END PRIVATE KEY-----",
        "-----BEGIN PUBLIC KEY-----\n" + "abcd" * 30 + "\n-----END PUBLIC KEY-----",
        "١" * 9 + ":" + A35,
        "sk-proj-your-own-key-goes-in-here-as-the-manual-says-on-page-10",
        "sk-proj-" + "X" * 80,
        "sk-admin-" + "x" * 80,
        "Sk-or-v1-models, gsk_prefix and xai-org are words of their trade",
        "glrt-runner-notes",
        "xoxb-2026-plan",
        "xai-" + "a" * 30 + " " + "b" * 50,
    ],
)
def test_ordinary_text_and_near_misses_pass(text: str) -> None:
    assert scan(text) == ()
    assert redact(text) == text


def test_each_rule_is_reported_once_and_never_with_the_text() -> None:
    text = f"{SAMPLES['npm-token']} {SAMPLES['npm-token']} {SAMPLES['github-pat']}"
    assert [finding.rule for finding in scan(text)] == ["github-pat", "npm-token"]
    assert "a1a1" not in repr(scan(text))
    assert "a1a1" not in redact(text)


def test_an_armoured_pgp_block_with_headers_is_found_in_any_case() -> None:
    block = (
        "-----begin pgp private key block-----\nVersion: x-1\n" + "abcd" * 30 + "\n-----end pgp private key block-----"
    )
    assert [finding.rule for finding in scan(block)] == ["private-key"]


@pytest.mark.parametrize(
    ("rule", "secret"),
    [
        ("openai-key", "sk-proj-" + "aB3_-" * 30),
        ("openai-key", "sk-svcacct-" + "aB3d" * 12),
        ("slack-bot-token", "xoxb-" + "1" * 12 + "-" + "aB3" * 8),
        ("gitlab-runner-token", "glrt-" + "aB3_-" * 4),
        ("private-key", "-----BEGIN PRIVATE KEY-----\n" + "abcd" * 50_000 + "\n-----END PRIVATE KEY-----"),
    ],
)
def test_the_other_shapes_of_a_kind_are_told_as_well(rule: str, secret: str) -> None:
    assert [finding.rule for finding in scan(f"key: {secret}\n")] == [rule]
    assert redact(f"key: {secret}\n").endswith("removed]\n")


def test_a_secret_that_is_known_stays_and_each_other_is_named_once() -> None:
    known, new = SAMPLES["github-pat"], "ghp_" + "b2" * 18
    text, labels = cleared(f"{known} {new} {new} {SAMPLES['npm-token']}", known=f"by hand: {known}\n")
    mark = "[GitHub personal access token removed]"
    assert text == f"{known} {mark} {mark} [npm access token removed]"
    assert labels == ("GitHub personal access token", "npm access token")


@pytest.mark.parametrize(
    "unit",
    [
        "-----BEGIN PRIVATE KEY-----\n",
        "-----BEGIN ",
        "sk-proj-",
        "eyJrIjoi",
        "a" * 14 + ".",
        "xoxb-1111111111-",
        "1:",
        "A" * 99,
        "-----BEGIN PRIVATE KEY-----" + "a-b" * 100_000,
        "sk-proj-a1",
        "glrt-t1_",
        "xoxb-11111111-a",
    ],
)
def test_a_megabyte_made_to_be_slow_is_scanned_in_time(unit: str) -> None:
    text = (unit * (1024 * 1024 // len(unit)))[: 1024 * 1024]
    started = time.process_time()
    scan(text + "-----END ")
    assert time.process_time() - started < 5
