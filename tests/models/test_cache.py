"""Reading a text piece by piece gives what reading it at once gives, for every residual."""

from dataclasses import replace

import pytest
import torch
from llama_reference import UNEVEN, make_llama, reference_logits, save_llama, some_ids
from thread_ranks import on_ranks
from torch.testing import assert_close

from ladder_eval.models.cache import KeyValueCache, LayerCache
from ladder_eval.models.checkpoint import load_model, read_config

LAYERS, TOKENS = 4, 24
RESIDUALS = {
    "standard": {},
    "ladder": {"ladder_layers": (0, 1, 2, 3)},
    "hybrid": {"ladder_layers": (2, 3)},
    "parallel": {"topology": "parallel"},
    "desync-2x": {"topology": "desync-2x"},
    "desync-4x": {"topology": "desync-4x"},
    "no-comm": {"topology": "no-comm"},
}
# How many tokens each forward reads.
PIECES = {
    "prompt, then token by token": [17] + [1] * 7,
    "prompt in two chunks": [9, 8] + [1] * 7,
    "token by token": [1] * 24,
    "three chunks": [5, 12, 7],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uneven")
    save_llama(folder, num_hidden_layers=LAYERS, **UNEVEN)
    return folder


def on_each_rank(folder, tp_size, work, **changes):
    config = replace(read_config(folder), **changes)

    def one(tp):
        cpu = torch.device("cpu")
        return work(load_model(folder, config, dtype=torch.float32, device=cpu, tp=tp))

    return on_ranks(tp_size, one)


def piecewise(model, ids, sizes, capacity=TOKENS):
    """Hidden states of forwards that read so many tokens each, [batch, seq, hidden]."""
    cache = model.new_cache(len(ids), capacity)
    return torch.cat([model(piece, cache=cache) for piece in ids.split(sizes, dim=1)], dim=1)


def assert_equal(ours, expected):
    assert_close(ours, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("tp_size", [1, 2])
@pytest.mark.parametrize("residual", RESIDUALS)
def test_a_cache_changes_no_answer(folder, residual, tp_size):
    def work(model):
        whole = model(some_ids())
        assert whole.shape == (2, TOKENS, 72)
        for sizes in PIECES.values():
            hidden = piecewise(model, some_ids(), sizes)
            assert_equal(hidden, whole)
            assert_equal(model.logits(hidden), model.logits(whole))

    on_each_rank(folder, tp_size, work, **RESIDUALS[residual])


@pytest.mark.parametrize("pieces", PIECES)
@pytest.mark.parametrize("ladder_layers", [(), (0, 1, 2, 3), (2, 3)])
def test_with_a_cache_the_equations_hold(folder, ladder_layers, pieces):
    def work(model):
        return model.logits(piecewise(model, some_ids(), PIECES[pieces]))

    ours = torch.cat(on_each_rank(folder, 2, work, ladder_layers=ladder_layers), -1)
    llama = make_llama(num_hidden_layers=LAYERS, **UNEVEN)
    expected = reference_logits(llama, some_ids(), ladder_layers)
    assert_close(ours, expected, rtol=0, atol=2e-5)


def test_the_cache_is_read(folder):
    """The last token's answer depends on the tokens before it."""

    def work(model):
        with_past = piecewise(model, some_ids(), [TOKENS - 1, 1])[:, -1]
        return (with_past - model(some_ids()[:, -1:])[:, 0]).abs().max()

    (distance,) = on_each_rank(folder, 1, work)
    assert distance > 0.1


def test_a_mask_hides_columns_of_the_cache(folder):
    """Two texts of 5 and 3 tokens, the second padded on the left, then three tokens for both."""
    long, more = some_ids(2, 8).split([5, 3], dim=1)
    used = torch.ones(2, 8, dtype=torch.bool)
    used[1, :2] = False
    positions = (used.cumsum(1) - 1).clamp(min=0)
    # Padding looks at itself: a row of a mask that hides all has no softmax.
    mask = used[:, None, None, :] & torch.ones(8, 8, dtype=torch.bool).tril()
    mask = mask | torch.eye(8, dtype=torch.bool)

    def work(model):
        cache = model.new_cache(2, 8)
        model(long, positions=positions[:, :5], mask=mask[:, :, :5, :5], cache=cache)
        last = model(more, positions=positions[:, 5:], mask=mask[:, :, 5:], cache=cache)
        for row, text in enumerate((long[:1], long[1:, 2:])):
            whole = torch.cat((text, more[row : row + 1]), dim=1)
            assert_equal(last[row], model(whole)[0, -3:])

    on_each_rank(folder, 1, work)


def test_length_counts_tokens_in_every_layer(folder):
    def work(model):
        cache = model.new_cache(2, 10)
        lengths = [cache.length]
        for piece in some_ids(2, 10).split([4, 1, 5], dim=1):
            model(piece, cache=cache)
            lengths.append(cache.length)
        assert {layer.length for layer in cache.layers} == {10}
        return lengths, len(cache.layers)

    assert on_each_rank(folder, 1, work) == [([0, 4, 5, 10], LAYERS)]


def test_more_tokens_than_there_is_room_for_are_an_error(folder):
    def work(model):
        cache = model.new_cache(2, 10)
        model(some_ids(2, 8), cache=cache)
        with pytest.raises(ValueError, match=r"^11 tokens exceed the cache of 10$"):
            model(some_ids(2, 3), cache=cache)

    on_each_rank(folder, 1, work)


def test_a_set_length_is_taken_by_all_layers():
    cache = KeyValueCache(3, (1, 2, 6, 4), like=torch.zeros(1))
    cache.length = 5
    assert [layer.length for layer in cache.layers] == [5, 5, 5]
    new = torch.full((1, 2, 1, 4), 9.0)
    keys, values = cache.layers[2].append(new, new)
    assert keys.shape == values.shape == (1, 2, 6, 4)
    # The columns that it pretended to hold were written, but not by a text.
    assert keys[0, 0, :, 0].tolist() == [1, 1, 1, 1, 1, 9]


def test_columns_are_kept_in_order():
    cache = LayerCache(torch.zeros(1, 1, 4, 1), torch.zeros(1, 1, 4, 1))
    cache.append(torch.tensor([[[[1.0], [2.0]]]]), torch.tensor([[[[10.0], [20.0]]]]))
    keys, values = cache.append(torch.tensor([[[[3.0]]]]), torch.tensor([[[[30.0]]]]))
    assert keys.flatten().tolist() == [1, 2, 3]
    assert values.flatten().tolist() == [10, 20, 30]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_rank_keeps_its_own_heads_in_the_dtype_of_the_weights(folder, dtype):
    config = read_config(folder)

    def work(tp):
        model = load_model(folder, config, dtype=dtype, device=torch.device("cpu"), tp=tp)
        cache = model.new_cache(2, 5)
        model(some_ids(2, 4), cache=cache)
        none = torch.zeros(2, 2 - tp.rank, 0, 8, dtype=dtype)
        return [(tuple(each.shape), each.dtype) for each in cache.layers[0].append(none, none)]

    # 3 key-value heads of 8 channels: 2 of them on the first rank, 1 on the second.
    first, second = on_ranks(2, work)
    assert first == [((2, 2, 4, 8), dtype)] * 2
    assert second == [((2, 1, 4, 8), dtype)] * 2
