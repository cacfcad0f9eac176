"""What scoring needs beside the weights, measured in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ladder_eval

HERE = os.environ | {"PYTHONPATH": str(Path(ladder_eval.__file__).parents[1])}
STATUS = Path("/proc/self/status")

# 8 rows of 2048 tokens, 600 of which are predicted: their logits alone are 2.5 GB, those of
# all tokens 8.4 GB. VmHWM is the peak of this process image; ru_maxrss would be its parent's, too.
SCRIPT = """
import re
from pathlib import Path
from ladder_eval.engine.batching import ScoringRequest
from ladder_eval.engine.planning import BatchLimits, plan
from ladder_eval.engine.scoring import BatchScorer
from ladder_eval.models.config import ModelConfig
from ladder_eval.models.transformer import Transformer

def peak():
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

model = Transformer(ModelConfig(
    hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
    num_key_value_heads=2, head_dim=16, vocab_size=128256, max_position_embeddings=2048,
    rms_norm_eps=1e-5, rope_theta=1e4, tie_word_embeddings=True,
))
requests = [ScoringRequest((row,) * 1449, (7,) * 600) for row in range(8)]
(batch,) = plan(requests, BatchLimits(tokens=8 * 2048, rows=8))
before = peak()
BatchScorer(model).score(batch)
print(batch.tokens, peak() - before)
"""


@pytest.mark.skipif(
    not STATUS.is_file() or "VmHWM" not in STATUS.read_text(), reason="no peak memory to read here"
)
def test_logits_of_a_large_vocabulary_are_never_whole():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env=HERE,
    )
    tokens, growth = map(int, done.stdout.split())
    assert tokens == 8 * 2048
    assert growth < 2 * 2**30
