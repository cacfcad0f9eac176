"""The estimate of a model's pace, with a clock that the test sets."""

import pytest
import torch
from torch import nn

from ladder_eval.engine import estimate
from ladder_eval.engine.estimate import seconds_per_token
from ladder_eval.models.checkpoint import read_config
from ladder_eval.models.transformer import Transformer


def test_best_time_of_a_layer_is_scaled_to_the_model(tiny_checkpoint, monkeypatch):
    config = read_config(tiny_checkpoint)
    times, calls = iter([9.0, 3.0, 2.0, 4.0]), []

    def timed(layer, tokens):
        calls.append((layer, tokens))
        return next(times)

    monkeypatch.setattr(estimate, "_timed", timed)
    pace = seconds_per_token(config, dtype=torch.bfloat16, device=torch.device("cpu"))
    layer, tokens = calls[0]
    assert pace == pytest.approx(4 * 2.0 / len(tokens))
    real = [m for m in Transformer(config).layers[0].modules() if isinstance(m, nn.Linear)]
    assert len(real) == 7
    assert layer.weight.numel() == sum(linear.weight.numel() for linear in real)
    assert layer.weight.dtype == tokens.dtype == torch.bfloat16


def test_pace_is_positive(tiny_checkpoint):
    config = read_config(tiny_checkpoint)
    assert 0 < seconds_per_token(config, dtype=torch.float32, device=torch.device("cpu")) < 1
