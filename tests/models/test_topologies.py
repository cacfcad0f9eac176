"""Every residual at several tp_sizes, held against its equations in one process."""

from dataclasses import replace

import pytest
import torch
from llama_reference import (
    UNEVEN,
    Part,
    desync_logits,
    make_llama,
    parallel_logits,
    reference_logits,
    save_llama,
    some_ids,
)
from thread_ranks import on_ranks
from torch.testing import assert_close

from ladder_eval.models.checkpoint import load_model, read_config
from ladder_eval.models.config import config_from_hf
from ladder_eval.models.desync import DesyncBlock, SyncBlock
from ladder_eval.models.transformer import Transformer

LAYERS = 6
SHAPES = {"even": {}, "uneven": UNEVEN}
# Dealt by hand: 4 query heads in 2 groups, and 9 in 3; 96 channels.
PARTS = {
    ("even", 1): [(0, 4, 0, 2)],
    ("even", 2): [(0, 2, 0, 1), (2, 4, 1, 2)],
    ("even", 4): [(0, 1, 0, 1), (1, 2, 0, 1), (2, 3, 1, 2), (3, 4, 1, 2)],
    ("uneven", 1): [(0, 9, 0, 3)],
    ("uneven", 2): [(0, 6, 0, 2), (6, 9, 2, 3)],
    ("uneven", 4): [(0, 3, 0, 1), (3, 6, 1, 2), (6, 8, 2, 3), (8, 9, 2, 3)],
}
SYNCED = {"desync-2x": (0, 1, 2, 3, 4, 5), "desync-4x": (1, 3, 5)}


def parts_of(shape, tp_size):
    channels = 96 // tp_size
    return [
        Part(range(q0, q1), range(k0, k1), range(rank * channels, (rank + 1) * channels))
        for rank, (q0, q1, k0, k1) in enumerate(PARTS[shape, tp_size])
    ]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = {name: tmp_path_factory.mktemp(name) for name in SHAPES}
    for name, folder in made.items():
        save_llama(folder, num_hidden_layers=LAYERS, **SHAPES[name])
    return made


@pytest.fixture(scope="module")
def models():
    return {n: make_llama(num_hidden_layers=LAYERS, **changes) for n, changes in SHAPES.items()}


def per_rank(folder, tp_size, **changes):
    """Each rank's logits of its part of the vocabulary, and how often it reduced."""
    config = replace(read_config(folder), **changes)

    def work(tp):
        cpu = torch.device("cpu")
        model = load_model(folder, config, dtype=torch.float32, device=cpu, tp=tp)
        return model.logits(model(some_ids())), tp.reduces

    return on_ranks(tp_size, work)


def logits(folder, tp_size, **changes):
    return torch.cat([own for own, _ in per_rank(folder, tp_size, **changes)], -1)


def assert_equal(ours, expected):
    assert_close(ours, expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("tp_size", [1, 2, 3, 4])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "ladder_layers", [(), (0, 1, 2, 3, 4, 5), (3, 4, 5), (1, 3)], ids=["standard", "ladder", *"ab"]
)
def test_standard_and_ladder_follow_the_equations_at_any_tp_size(
    folders, models, shape, tp_size, ladder_layers
):
    expected = reference_logits(models[shape], some_ids(), ladder_layers)
    assert_equal(logits(folders[shape], tp_size, ladder_layers=ladder_layers), expected)


@pytest.mark.parametrize("tp_size", [1, 2, 3, 4])
@pytest.mark.parametrize("shape", SHAPES)
def test_parallel_follows_the_equations_at_any_tp_size(folders, models, shape, tp_size):
    expected = parallel_logits(models[shape], some_ids())
    assert (expected - reference_logits(models[shape], some_ids())).abs().max() > 0.1
    assert_equal(logits(folders[shape], tp_size, topology="parallel"), expected)


@pytest.mark.parametrize("tp_size", [1, 2, 4])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("topology", SYNCED)
def test_desync_equals_a_simulation_in_one_process(folders, models, topology, shape, tp_size):
    ranks = desync_logits(models[shape], some_ids(), parts_of(shape, tp_size), SYNCED[topology])
    assert all(torch.equal(own, ranks[0]) for own in ranks)
    assert_equal(logits(folders[shape], tp_size, topology=topology), ranks[0])


@pytest.mark.parametrize("topology", [*SYNCED, "no-comm"])
def test_at_tp_size_1_desync_and_no_comm_are_standard(folders, topology):
    assert_equal(logits(folders["uneven"], 1, topology=topology), logits(folders["uneven"], 1))


def test_beyond_tp_size_1_all_of_them_differ(folders):
    kinds = ("standard", "desync-2x", "desync-4x", "no-comm", "parallel")
    answers = [logits(folders["uneven"], size, topology=t) for t in kinds for size in (2, 4)]
    distances = torch.stack([(a - b).abs().max() for a in answers for b in answers]).view(10, 10)
    same = distances < 1e-3
    expected = torch.eye(10, dtype=torch.bool)
    expected[0, 1] = expected[1, 0] = True  # standard at tp_size 2 and 4
    expected[8, 9] = expected[9, 8] = True  # parallel, too
    assert torch.equal(same, expected)


@pytest.mark.parametrize("tp_size", [2, 4])
def test_without_communication_each_rank_goes_its_own_way(folders, models, tp_size):
    simulated = desync_logits(models["uneven"], some_ids(), parts_of("uneven", tp_size), ())
    found = per_rank(folders["uneven"], tp_size, topology="no-comm")
    start = 0
    for rank, (own, _) in enumerate(found):
        stop = start + own.shape[-1]
        assert_equal(own, simulated[rank][..., start:stop])
        start = stop
    assert start == 83


@pytest.mark.parametrize(
    ("changes", "in_blocks"),
    [
        ({}, 2 * LAYERS),
        ({"ladder_layers": (0, 1, 2, 3, 4, 5)}, 2 * LAYERS),
        ({"ladder_layers": (4, 5)}, 2 * LAYERS),
        ({"topology": "parallel"}, LAYERS),
        ({"topology": "desync-2x"}, LAYERS),
        ({"topology": "desync-4x"}, LAYERS // 2),
        ({"topology": "no-comm"}, 0),
    ],
    ids=["standard", "ladder", "hybrid", "parallel", "desync-2x", "desync-4x", "no-comm"],
)
def test_number_of_all_reduces(folders, changes, in_blocks):
    embedding = 1
    counts = [reduces for _, reduces in per_rank(folders["even"], 2, **changes)]
    assert counts == [in_blocks + embedding] * 2


@pytest.mark.parametrize(
    ("num_hidden_layers", "synced"), [(1, [0]), (2, [1]), (5, [1, 3, 4]), (6, [1, 3, 5])]
)
def test_desync_4x_synchronises_every_second_layer_and_the_last(num_hidden_layers, synced):
    llama = make_llama(num_hidden_layers=num_hidden_layers)
    config = replace(config_from_hf(llama.config.to_dict()), topology="desync-4x")
    kinds = [type(layer) for layer in Transformer(config).layers]
    assert [i for i, kind in enumerate(kinds) if kind is SyncBlock] == synced
    assert {kind for i, kind in enumerate(kinds) if i not in synced} <= {DesyncBlock}
