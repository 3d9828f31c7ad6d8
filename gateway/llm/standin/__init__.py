"""The model stand-in: a local server that speaks the Messages API, with rules instead of a model."""
