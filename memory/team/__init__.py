"""Memory that a project shares, kept in step over HTTP."""
