"""Slack, on slack-bolt and slack-sdk."""
