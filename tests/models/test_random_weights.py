"""Made-up weights, and models that share weights in memory."""

from dataclasses import replace

import pytest
import torch
from llama_reference import (
    UNEVEN,
    make_llama,
    parallel_logits,
    product_logits,
    reference_logits,
    save_llama,
    some_ids,
)
from thread_ranks import on_ranks
from torch.testing import assert_close

from ladder_eval.distributed.tensor_parallel import ALONE
from ladder_eval.models.checkpoint import load_model, read_config
from ladder_eval.models.config import config_from_hf
from ladder_eval.models.random_weights import random_model, sharing

CPU = torch.device("cpu")
LAYERS = 4
RESIDUALS = {
    "standard": {},
    "ladder": {"ladder_layers": (0, 1, 2, 3)},
    "hybrid": {"ladder_layers": (2, 3)},
    "parallel": {"topology": "parallel"},
    "desync-2x": {"topology": "desync-2x"},
    "desync-4x": {"topology": "desync-4x"},
    "no-comm": {"topology": "no-comm"},
}


def config_of(**changes):
    return config_from_hf(make_llama(num_hidden_layers=LAYERS, **changes).config.to_dict())


def made(config, dtype=torch.float32, tp=ALONE, seed=0):
    return random_model(config, dtype=dtype, device=CPU, tp=tp, seed=seed)


@pytest.fixture(scope="module", params=["tied", "untied"])
def folder(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    save_llama(folder, num_hidden_layers=LAYERS, **(UNEVEN if request.param == "untied" else {}))
    return folder


def load(folder, tp=ALONE, **changes):
    config = replace(read_config(folder), **changes)
    return load_model(folder, config, dtype=torch.float32, device=CPU, tp=tp)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("changes", [{}, UNEVEN], ids=["tied", "untied"])
def test_matrices_are_written_and_norms_are_one(changes, dtype):
    model = made(config_of(**changes), dtype)
    weights = dict(model.named_parameters())
    assert {weight.dtype for weight in weights.values()} == {dtype}
    assert {weight.device for weight in weights.values()} == {CPU}
    norms = [weight for name, weight in weights.items() if "norm" in name]
    matrices = [weight.float() for name, weight in weights.items() if "norm" not in name]
    assert len(norms) == 2 * LAYERS + 1
    assert len(matrices) == 7 * LAYERS + (2 if changes else 1)
    assert all(torch.equal(norm, torch.ones_like(norm)) for norm in norms)
    for matrix in matrices:
        # Of n normal numbers the deviation is off by 1/sqrt(2n), the mean by 0.02/sqrt(n);
        # the smallest matrix has 1728.
        assert matrix.std().item() == pytest.approx(0.02, rel=0.1)
        assert abs(matrix.mean().item()) < 0.002
        assert (matrix != 0).all()


def test_a_tied_head_is_the_embedding_and_another_is_not():
    tied, untied = made(config_of()), made(config_of(**UNEVEN))
    assert tied.lm_head.weight is tied.embed_tokens.weight
    assert untied.lm_head.weight.data_ptr() != untied.embed_tokens.weight.data_ptr()
    assert not torch.equal(untied.lm_head.weight, untied.embed_tokens.weight)


def test_the_model_is_for_inference_alone():
    model = made(config_of())
    assert not model.training
    assert not any(weight.requires_grad for weight in model.parameters())
    assert product_logits(model, some_ids()).isfinite().all()


def test_seed_and_rank_decide_the_weights():
    config = config_of(**UNEVEN)
    one, again, other = (made(config, seed=seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[name], again[name]) for name in one)
    name = "layers.0.mlp.up_proj.weight"
    assert not torch.equal(one[name], other[name])
    # Heads, channels and tokens that are halved: both ranks draw as many numbers.
    first, second = on_ranks(2, lambda tp: made(config_of(), tp=tp).state_dict()[name])
    assert first.shape == second.shape
    assert not torch.equal(first, second)


def test_each_rank_makes_its_own_share():
    # 9 query heads in 3 groups, 8 channels a head: 6 and 3 heads, 2 groups and 1; 96 channels in
    # halves; 83 tokens as 42 and 41.
    def shapes(query, kv, tokens):
        return {
            "embed_tokens.weight": (tokens, 72),
            "layers.3.self_attn.q_proj.weight": (query, 72),
            "layers.3.self_attn.k_proj.weight": (kv, 72),
            "layers.3.self_attn.v_proj.weight": (kv, 72),
            "layers.3.self_attn.o_proj.weight": (72, query),
            "layers.3.mlp.gate_proj.weight": (48, 72),
            "layers.3.mlp.up_proj.weight": (48, 72),
            "layers.3.mlp.down_proj.weight": (72, 48),
            "layers.3.input_layernorm.weight": (72,),
            "layers.3.post_attention_layernorm.weight": (72,),
            "norm.weight": (72,),
            "lm_head.weight": (tokens, 72),
        }

    def work(tp):
        weights = made(config_of(**UNEVEN), tp=tp).named_parameters()
        return {
            name: tuple(weight.shape)
            for name, weight in weights
            if "layers." not in name or "layers.3." in name
        }

    assert on_ranks(2, work) == [shapes(48, 16, 42), shapes(24, 8, 41)]


@pytest.mark.parametrize("tp_size", [1, 2])
@pytest.mark.parametrize("residual", RESIDUALS)
def test_a_twin_answers_as_the_same_weights_loaded_with_its_residual(folder, residual, tp_size):
    changes = RESIDUALS[residual]

    def work(tp):
        model = load(folder, tp)
        before = product_logits(model, some_ids())
        twin = sharing(model, replace(model.config, **changes), tp)
        answer = product_logits(twin, some_ids())
        assert torch.equal(answer, product_logits(load(folder, tp, **changes), some_ids()))
        # Its own answers stay what they were.
        assert torch.equal(product_logits(model, some_ids()), before)
        return twin.config.residual

    expected = {"hybrid": "hybrid ladder"}.get(residual, residual)
    assert on_ranks(tp_size, work) == [expected] * tp_size


def test_a_twin_follows_the_equations():
    llama = make_llama(num_hidden_layers=LAYERS)
    config = config_from_hf(llama.config.to_dict())
    model = made(config)
    state = {name.removeprefix("model."): value for name, value in llama.state_dict().items()}
    model.load_state_dict(state)
    ladder = sharing(model, config.with_ladder(LAYERS), ALONE)
    parallel = sharing(model, replace(config, topology="parallel"), ALONE)
    ids = some_ids()
    expected = reference_logits(llama, ids, range(LAYERS))
    assert_close(product_logits(ladder, ids), expected, rtol=0, atol=2e-5)
    assert_close(product_logits(parallel, ids), parallel_logits(llama, ids), rtol=0, atol=2e-5)


@pytest.mark.parametrize("changes", [{}, UNEVEN], ids=["tied", "untied"])
def test_a_twin_has_no_weights_of_its_own(changes):
    config = config_of(**changes)
    model = made(config)
    twin = sharing(sharing(model, replace(config, topology="parallel"), ALONE), config, ALONE)
    assert twin is not model
    own = {name: weight.data_ptr() for name, weight in model.state_dict().items()}
    assert {name: weight.data_ptr() for name, weight in twin.state_dict().items()} == own
    assert not twin.training
    assert not any(weight.requires_grad for weight in twin.parameters())


def test_a_twin_takes_its_own_way_between_ranks():
    """The all-reduces of a twin are those of the group that it was given."""

    def work(tp):
        model = random_model(config_of(), dtype=torch.float32, device=CPU, tp=tp)
        other = type(tp)(tp.rank, tp.size, tp._barrier, tp._slots)
        twin = sharing(model, replace(model.config, topology="parallel"), other)
        product_logits(twin, some_ids())
        return tp.reduces, other.reduces

    # The embedding, and one for each layer.
    assert on_ranks(2, work) == [(0, 1 + LAYERS)] * 2


@pytest.mark.parametrize(
    "changes",
    [
        {"vocab_size": 81},
        {"num_hidden_layers": 3},
        {"intermediate_size": 192},
        {"tie_word_embeddings": False},
        {"rope_theta": 500.0},  # not a shape, but another function on top of the residual
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_models_of_different_shapes_share_nothing(changes):
    model = made(config_of())
    with pytest.raises(ValueError, match="different shapes can't share their weights"):
        sharing(model, replace(model.config, **changes), ALONE)
