"""A loaded model on one rank, as what computes answers."""

from ladder_eval.engine.generation import generate_batch
from ladder_eval.engine.scoring import score_batches


class Alone:
    """A model on one rank, as what computes answers."""

    def __init__(self, model):
        self.model = model

    def score(self, batches):
        return score_batches(self.model, batches)

    def generate(self, requests, stops):
        return generate_batch(self.model, requests, stops)
