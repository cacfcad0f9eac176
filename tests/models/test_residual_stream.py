import pytest
from torch import tensor

from ladder_eval.distributed.tensor_parallel import ALONE
from ladder_eval.models.residual import ResidualStream


@pytest.fixture
def stream():
    """An embedding of 1, and outputs 10, 100 and 1000 on their way."""
    stream = ResidualStream(tensor(1.0), ALONE)
    for output in (10.0, 100.0, 1000.0):
        stream.add(tensor(output))
    return stream


@pytest.mark.parametrize(("without", "value"), [(0, 1111), (1, 111), (2, 11), (3, 1), (4, 1)])
def test_read_leaves_out_the_newest(stream, without, value):
    assert stream.read(without_newest=without) == value


def test_an_output_left_out_is_added_later_and_once(stream):
    assert stream.read(without_newest=2) == 11
    assert stream.read(without_newest=1) == 111
    assert stream.read() == 1111
    assert stream.read() == 1111


def test_the_first_blocks_of_a_ladder_read_the_embedding():
    stream = ResidualStream(tensor(1.0), ALONE)
    assert stream.read(without_newest=1) == 1
    stream.add(tensor(10.0))
    assert stream.read(without_newest=1) == 1
    stream.add(tensor(100.0))
    assert stream.read(without_newest=1) == 11


def test_the_embedding_is_left_alone():
    embedding = tensor([1.0, 2.0])
    stream = ResidualStream(embedding, ALONE)
    stream.add(tensor([10.0, 10.0]))
    assert stream.read().tolist() == [11, 12]
    assert embedding.tolist() == [1, 2]
