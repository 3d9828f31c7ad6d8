"""The part that works while nobody chats: a clock, a table of jobs, and a row for every run."""
