"""A loaded model on one rank, as what computes answers."""

from ladder_eval.engine.generation import generate
from ladder_eval.engine.scoring import score_batches


class Alone:
    """A model on one rank, as what computes answers."""

    def __init__(self, model):
        self.model = model

    def score(self, batches):
        return score_batches(self.model, batches)

    def generate(self, requests, stops, *, batch_size):
        return generate(self.model, requests, stops, batch_size=batch_size)
