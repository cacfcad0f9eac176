"""lm-evaluation-harness: its tasks, our data, and the model that answers their requests."""
