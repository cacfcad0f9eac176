"""A worker that writes down in the folder SEEN what it scores and continues."""

import json
import os
import sys
from pathlib import Path

from ladder_eval.engine import ranks


def write_down():
    """Let this process's rank write what it computes: requests by index, prompts."""
    real_score, real_generate = ranks.BatchScorer.score, ranks.generate

    def seen(what):
        with Path(os.environ["SEEN"], os.environ.get("RANK", "0")).open("a") as lines:
            lines.write(f"{json.dumps(what)}\n")

    def score(scorer, batch):
        is_sound = scorer._model.config.tie_word_embeddings
        seen(["score" if is_sound else "broken", sorted(batch.requests)])
        return real_score(scorer, batch)

    def generate(model, requests, stops, *, batch_size):
        seen(["generate", [request.prompt for request in requests], len(stops)])
        return real_generate(model, requests, stops, batch_size=batch_size)

    ranks.BatchScorer.score, ranks.generate = score, generate


if __name__ == "__main__":
    from ladder_eval.engine import worker

    write_down()
    worker.main(sys.argv[1])
