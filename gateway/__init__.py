"""The gateway: from a stored message to a delivered answer."""
