"""The one model client, and a stand-in that speaks the same API."""
