"""Local servers that speak the Telegram Bot API and the Slack API, strictly, for the demo, the tests and load runs."""
