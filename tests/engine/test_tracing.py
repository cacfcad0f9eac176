"""The order in which a rank computes, starts and waits, by hand, and that compiling keeps it."""

from dataclasses import replace

import pytest
import torch
from thread_ranks import on_ranks

from ladder_eval.distributed.tensor_parallel import PendingReduce, TensorParallel
from ladder_eval.engine.tracing import (
    DeviceClock,
    HostClock,
    Recorder,
    TracedParallel,
    trace_generation,
)
from ladder_eval.models.config import ModelConfig
from ladder_eval.models.random_weights import random_model, sharing
from ladder_eval.results.speed_records import Workload

CPU = torch.device("cpu")
STANDARD = ModelConfig(
    hidden_size=16,
    intermediate_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=4,
    vocab_size=50,
    max_position_embeddings=64,
    rms_norm_eps=1e-5,
    rope_theta=1e4,
    tie_word_embeddings=True,
)
EMBEDDING = ["start embedding", "wait embedding"]


def config_of(residual, layers=2):
    """A model whose residual is a topology, or the indices of its ladder layers."""
    config = replace(STANDARD, num_hidden_layers=layers)
    if isinstance(residual, tuple):
        return replace(config, ladder_layers=residual)
    return replace(config, topology=residual)


class Late:
    """A sum that is readable once it has been awaited."""

    def __init__(self, result, total):
        self.result, self.total = result, total

    @torch.compiler.disable
    def wait(self):
        self.result.copy_(self.total)


class OtherRankIsEmpty(TensorParallel):
    """Two ranks, of which the other sends zeros; what was sent reads as NaN until it is awaited.

    As of real groups, nothing that compiles can look inside.
    """

    @torch.compiler.disable
    def all_reduce_async(self, partial):
        partial = partial.contiguous()
        total = partial.clone()
        return PendingReduce(partial.fill_(float("nan")), Late(partial, total))

    @torch.compiler.disable
    def all_gather(self, part):
        return torch.stack([part, torch.full_like(part, -1e9)])


class Ticks:
    """A clock that goes on by one whenever somebody looks."""

    def __init__(self):
        self.ticks = 0

    @torch.compiler.disable
    def now(self):
        self.ticks += 1
        return self.ticks


def watched(residual, layers=2):
    """A model, and what is noted of it."""
    recorder, group = Recorder(Ticks().now), OtherRankIsEmpty(0, 2)
    config = config_of(residual, layers)
    weights = random_model(config, dtype=torch.float32, device=CPU, tp=group)
    return sharing(weights, config, TracedParallel(group, recorder)), recorder


def order_of(recorder):
    return list(recorder.trace(0, float).order())


def forward(model):
    with torch.inference_mode():
        return model(torch.arange(10).view(2, 5))


def traced(residual, layers=2):
    model, recorder = watched(residual, layers)
    recorder.watch(model)
    assert not forward(model).isnan().any()
    order = order_of(recorder)
    assert order[:2] == EMBEDDING
    return order[2:]


def test_standard_waits_at_once():
    assert traced("standard") == [
        *("attention 0", "start attention 0", "wait attention 0"),
        *("mlp 0", "start mlp 0", "wait mlp 0"),
        *("attention 1", "start attention 1", "wait attention 1"),
        *("mlp 1", "start mlp 1", "wait mlp 1"),
    ]


def test_a_ladder_computes_one_block_between_start_and_wait():
    assert traced((0, 1)) == [
        *("attention 0", "start attention 0"),
        *("mlp 0", "start mlp 0"),
        # Each block reads the stream without the newest output: that before it has to be there.
        *("wait attention 0", "attention 1", "start attention 1"),
        *("wait mlp 0", "mlp 1", "start mlp 1"),
        # The last norm reads all.
        *("wait attention 1", "wait mlp 1"),
    ]


def between(order, name):
    """What a rank computes while a message is on its way."""
    inside = order[order.index(f"start {name}") + 1 : order.index(f"wait {name}")]
    return [what for what in inside if what.partition(" ")[0] not in ("start", "wait")]


def test_behind_a_ladders_attention_lies_its_mlp_and_nothing_else():
    order = traced((0, 1, 2, 3), layers=4)
    for layer in range(4):
        assert between(order, f"attention {layer}") == [f"mlp {layer}"]
        behind_mlp = [f"attention {layer + 1}"] if layer < 3 else []
        assert between(order, f"mlp {layer}") == behind_mlp


def test_a_ladder_after_a_standard_layer_leaves_that_ones_mlp_on_its_way():
    assert traced((1,)) == [
        *("attention 0", "start attention 0", "wait attention 0"),
        *("mlp 0", "start mlp 0"),
        *("attention 1", "start attention 1"),
        *("wait mlp 0", "mlp 1", "start mlp 1"),
        *("wait attention 1", "wait mlp 1"),
    ]


def test_a_standard_layer_after_a_ladder_receives_all_first():
    assert traced((0,)) == [
        *("attention 0", "start attention 0"),
        *("mlp 0", "start mlp 0"),
        *("wait attention 0", "wait mlp 0"),
        *("attention 1", "start attention 1", "wait attention 1"),
        *("mlp 1", "start mlp 1", "wait mlp 1"),
    ]


def test_parallel_sends_both_blocks_at_once():
    def layer(index):
        # The norm that both read, and attention.
        blocks = [f"attention {index}", f"attention {index}", f"mlp {index}"]
        return [*blocks, f"start attention + mlp {index}", f"wait attention + mlp {index}"]

    assert traced("parallel") == layer(0) + layer(1)


def test_desync_sends_after_an_mlp():
    assert traced("desync-2x") == [
        *("attention 0", "mlp 0", "start attention + mlp 0", "wait attention + mlp 0"),
        *("attention 1", "mlp 1", "start attention + mlp 1", "wait attention + mlp 1"),
    ]
    assert traced("desync-4x", layers=3) == [
        *("attention 0", "mlp 0"),
        *("attention 1", "mlp 1", "start attention + mlp 1", "wait attention + mlp 1"),
        *("attention 2", "mlp 2", "start attention + mlp 2", "wait attention + mlp 2"),
    ]


def test_no_comm_sends_nothing_of_its_layers():
    assert traced("no-comm") == ["attention 0", "mlp 0", "attention 1", "mlp 1"]


RESIDUALS = ["standard", (0, 1), (1,), (0,), "parallel", "desync-2x", "no-comm"]


def compiled_blocks(model):
    """Compile what a layer computes, and leave what joins it to the stream as it is."""
    for layer in model.layers:
        for block in (layer.self_attn, layer.mlp):
            block.forward = torch.compile(block.forward, backend="aot_eager", fullgraph=True)


@pytest.fixture
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("residual", RESIDUALS)
def test_compiled_blocks_start_and_wait_in_the_same_order(residual):
    model, recorder = watched(residual)
    expected = forward(model)
    compiled_blocks(model)
    recorder.watch(model)
    recorder.messages.clear()
    torch.testing.assert_close(forward(model), expected)
    assert order_of(recorder)[2:] == traced(residual)


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("residual", [(0, 1), (1,), "parallel"])
def test_a_whole_compiled_model_starts_and_waits_in_the_same_order(residual):
    model, recorder = watched(residual)
    expected = forward(model)
    recorder.watch(model)
    recorder.messages.clear()
    torch.testing.assert_close(forward(torch.compile(model, backend="eager")), expected)
    assert order_of(recorder)[2:] == traced(residual)


def test_a_generation_of_two_ranks_is_traced_by_forward():
    config = config_of((0, 1))
    workload = Workload(batch_size=2, prompt_len=3, output_len=3)

    def one(tp):
        model = random_model(config, dtype=torch.float32, device=CPU, tp=tp)
        return trace_generation(model, config, tp, workload)

    for rank, found in enumerate(on_ranks(2, one)):
        assert (found.rank, found.forwards()) == (rank, 3)
        for number in range(3):
            spans = [(s.kind, s.layer) for s in found.spans if s.forward == number]
            assert spans == [("attention", 0), ("mlp", 0), ("attention", 1), ("mlp", 1)]
            names = [m.name for m in found.messages if m.forward == number]
            blocks = ["attention 0", "mlp 0", "attention 1", "mlp 1"]
            # The meeting of the ranks before the first forward isn't of it.
            assert names == ["embedding", *blocks, "token"]
        for span in found.spans:
            assert span.begin < span.end
        for message in found.messages:
            assert message.start <= message.started <= message.wait <= message.waited
            # Threads don't know when a sum arrived.
            assert (message.sent, message.arrival, message.parts()) == (None, None, None)
        for layer in (0, 1):
            message = next(m for m in found.messages if m.name == f"attention {layer}")
            inside = [
                (span.kind, span.layer)
                for span in found.spans
                if message.start < span.begin and span.end < message.wait and not span.forward
            ]
            assert inside == [("mlp", layer)]


def test_one_rank_sends_nothing():
    model = random_model(STANDARD, dtype=torch.float32, device=CPU)
    workload = Workload(batch_size=1, prompt_len=2, output_len=1)
    found = trace_generation(model, STANDARD, model.tp, workload)
    assert found.messages == ()
    assert len(found.spans) == 4


def test_a_host_clock_is_the_one_that_processes_share(monkeypatch):
    monkeypatch.setattr("ladder_eval.engine.tracing.perf_counter", lambda: 12.5)
    assert HostClock().seconds(HostClock().now()) == 12.5


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_on_a_gpu_a_ladder_computes_between_start_and_wait():
    device = torch.device("cuda")
    clock = DeviceClock(device)
    recorder, group = Recorder(clock.now), OnAnotherStream(0, 2)
    config = config_of((0, 1))
    weights = random_model(config, dtype=torch.float32, device=device, tp=group)
    model = sharing(weights, config, TracedParallel(group, recorder))
    recorder.watch(model)
    with torch.inference_mode():
        hidden = model(torch.arange(10, device=device).view(2, 5))
    assert not hidden.isnan().any()
    trace = recorder.trace(0, clock.seconds)
    for layer in (0, 1):
        message = next(m for m in trace.messages if m.name == f"attention {layer}")
        mlp = next(s for s in trace.spans if (s.kind, s.layer) == ("mlp", layer))
        assert message.started <= mlp.begin <= mlp.end <= message.wait <= message.waited


class OnAnotherStream(TensorParallel):
    """As NCCL's: a stream beside that of the computing, which waits for it without the host."""

    def __init__(self, rank, size):
        super().__init__(rank, size)
        self.stream = torch.cuda.Stream()

    def all_reduce_async(self, partial):
        self.stream.wait_stream(torch.cuda.current_stream())
        total = partial.contiguous()
        with torch.cuda.stream(self.stream):
            torch.cuda._sleep(10**6)
            total = total.clone()
        return PendingReduce(total, Awaited(self.stream))


class Awaited:
    def __init__(self, stream):
        self.event = stream.record_event()

    def wait(self):
        torch.cuda.current_stream().wait_event(self.event)
