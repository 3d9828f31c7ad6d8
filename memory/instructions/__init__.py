"""Instruction files: what the operator, a person or chat, and a project have written for the model to follow."""
