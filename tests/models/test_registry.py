from dataclasses import replace

import pytest
from transformers import LlamaConfig, LlamaForCausalLM

from ladder_eval.errors import UsageError
from ladder_eval.models.config import config_to_hf
from ladder_eval.models.registry import (
    DEFAULT_MODEL,
    MODEL_HEADINGS,
    MODELS,
    WEIGHTS_HEADINGS,
    model_rows,
    unknown_model,
    weights_rows,
)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_a_baseline_is_dense_and_shares_all_but_the_residual(model):
    if model.baseline is None:
        assert model.config.residual == "standard"
        return
    baseline = MODELS[model.baseline]
    assert baseline.config.residual == "standard"
    assert baseline.baseline is None
    assert baseline.weights == model.weights
    assert baseline.config == replace(model.config, ladder_layers=(), topology="standard")


def test_names_are_the_keys_and_match_the_layers():
    with_weights = {name: model for name, model in MODELS.items() if model.weights}
    residuals = {name: model.config.ladder_layers for name, model in with_weights.items()}
    assert residuals == {
        "smollm2_135m": (),
        "hybrid_ladder_smollm2_135m_5l": tuple(range(25, 30)),
        "hybrid_ladder_smollm2_135m_10l": tuple(range(20, 30)),
        "hybrid_ladder_smollm2_135m_20l": tuple(range(10, 30)),
        "ladder_smollm2_135m": tuple(range(30)),
    }
    assert [model.name for model in MODELS.values()] == list(MODELS)
    assert list(MODELS)[:5] == list(with_weights)
    assert len(MODELS) == 5 + 9 * 3 + 2


def test_smollm2_has_the_published_number_of_parameters():
    config = MODELS["smollm2_135m"].config
    assert config.parameters == 134_515_008
    import torch

    with torch.device("meta"):
        theirs = LlamaForCausalLM(LlamaConfig(**config_to_hf(config)))
    assert theirs.num_parameters() == 134_515_008


def test_an_unknown_name_is_answered_with_the_closest():
    error = unknown_model("ladder_70")
    assert isinstance(error, UsageError)
    message = str(error)
    assert message.startswith("Unknown model 'ladder_70': it is neither a named model (closest are")
    assert "ladder_70b" in message
    assert "`ladder-eval models`" in message
    assert len(message) < 250
    assert "standard_1.55b" not in message


def test_a_name_like_no_other_is_answered_without_any():
    message = str(unknown_model("?"))
    assert "(`ladder-eval models` lists them)" in message
    assert "closest are my_model; " in str(unknown_model("my_modle", ["my_model"]))


def test_the_default_model_is_a_hybrid():
    assert MODELS[DEFAULT_MODEL].config.residual == "hybrid ladder"


def test_rows_fit_their_headings():
    rows = list(model_rows())
    assert [row[0] for row in rows] == list(MODELS)
    assert {len(row) for row in rows} == {len(MODEL_HEADINGS)}
    assert rows[0][1] == 134_515_008
    cells = {row[0]: row[-1] for row in rows}
    assert cells["ladder_smollm2_135m"] == "SmolLM2-135M-Instruct, converted without retraining"
    assert cells["ladder_405b"] == "shape timed in the paper; none known, give --checkpoint"
    (weights,) = weights_rows()
    assert len(weights) == len(WEIGHTS_HEADINGS)
    assert weights[0] == "SmolLM2-135M-Instruct"
