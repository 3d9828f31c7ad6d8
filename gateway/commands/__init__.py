"""What people can tell the bot with a slash."""
