"""The agent: lay out the request, stream the model, run its tools."""
