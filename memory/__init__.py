"""Memory as plain Markdown: one folder per principal, `MEMORY.md` as its index; imports none of the others."""
