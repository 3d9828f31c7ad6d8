"""Markdown in, what each platform shows out."""
