"""A loaded model on one rank, as what computes answers."""

from ladder_eval.engine.generation import generate_batch
from ladder_eval.engine.scoring import BatchScorer


class Alone:
    """A model on one rank, as what computes answers."""

    def __init__(self, model):
        self.model = model
        self.score = BatchScorer(model).score

    def batch_tokens(self):
        return 512

    def generate(self, requests, stops):
        return generate_batch(self.model, requests, stops)
