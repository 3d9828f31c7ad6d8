"""The tools of the model, with rights checked when they run."""
