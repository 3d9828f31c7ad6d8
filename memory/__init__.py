"""Memory as plain Markdown: one folder per principal, `MEMORY.md` as its index. Imports nothing of the other packages."""
