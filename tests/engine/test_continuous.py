"""Rows that come and go: when each is read, what is read once, and what memory lets be."""

import random
from dataclasses import replace

import pytest
import torch
from thread_ranks import on_ranks
from transformers import LlamaConfig, LlamaForCausalLM

from ladder_eval.distributed.tensor_parallel import ALONE
from ladder_eval.engine import generation, prefixes
from ladder_eval.engine.generation import GenerationRequest, generate
from ladder_eval.engine.memory import OutOfMemoryError, together
from ladder_eval.engine.sampling import Sampling
from ladder_eval.errors import ScoringError
from ladder_eval.models.checkpoint import load_model, read_config
from ladder_eval.models.transformer import Transformer

CPU = torch.device("cpu")
SHAPE = {
    "hidden_size": 72,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "vocab_size": 83,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "initializer_range": 0.4,  # large enough that the best token is clearly the best
    "eos_token_id": None,
}
# Two headers, as of two tasks, a prompt that comes again, and some of their own; the shortest and
# the longest stand side by side. (Own tokens after which header, and tokens to write.)
ASKED = [
    (0, 5, 12),
    (None, 300, 3),
    (1, 1, 7),
    (0, 40, 2),
    (None, 3, 9),
    (1, 90, 12),
    (0, 5, 1),
    (1, 2, 8),
    (None, 1, 11),
    (0, 17, 6),
    (None, 64, 5),
]


def tokens(count, seed):
    return tuple(random.Random(seed).choices(range(83), k=count))


def ask(**settings):
    headers = {None: (), 0: tokens(150, -1), 1: tokens(70, -2)}
    prompts = [headers[header] + tokens(own, seed) for seed, (header, own, _) in enumerate(ASKED)]
    requests = [
        GenerationRequest(prompt, new, **settings)
        for prompt, (_, _, new) in zip(prompts, ASKED, strict=True)
    ]
    return [*requests, replace(requests[0], max_gen_toks=4)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("continuous")
    torch.manual_seed(3)
    LlamaForCausalLM(LlamaConfig(**SHAPE)).save_pretrained(folder)
    return folder


@pytest.fixture
def model(folder):
    return load(folder)


@pytest.fixture(scope="module")
def expected(folder):
    """Each prompt alone in transformers; every best token is clearly the best."""
    theirs = LlamaForCausalLM.from_pretrained(folder).eval()
    texts = []
    for request in ask():
        answer = theirs.generate(
            torch.tensor([request.prompt]),
            attention_mask=torch.ones(1, len(request.prompt)),
            do_sample=False,
            max_new_tokens=request.max_gen_toks,
            pad_token_id=0,
            output_logits=True,
            return_dict_in_generate=True,
        )
        best = torch.cat(answer.logits).topk(2).values
        assert (best[:, 0] - best[:, 1]).min() > 1e-3
        texts.append(answer.sequences[0, len(request.prompt) :].tolist())
    return texts


def load(folder, tp=ALONE, **changes):
    config = replace(read_config(folder), **changes)
    return load_model(folder, config, dtype=torch.float32, device=CPU, tp=tp)


def never(tokens):
    return False


def run(model, requests, batch_size=4, stops=None):
    """All texts in the order of the requests, on rank 0; none on the others."""
    stops = (stops or [never] * len(requests)) if model.tp.rank == 0 else ()
    found = dict(generate(model, requests, stops, batch_size=batch_size))
    if model.tp.rank:
        return found
    return [list(found[i].tokens) for i in range(len(requests))]


def watch(model):
    """How many tokens each forward reads."""
    read = []
    model.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0].shape[1]))
    return read


@pytest.mark.parametrize("batch_size", [1, 2, 3, 8, 20])
def test_texts_are_those_of_transformers_with_any_number_of_slots(model, expected, batch_size):
    assert run(model, ask(), batch_size) == expected


@pytest.mark.parametrize("seed", range(3))
def test_texts_do_not_depend_on_the_order_of_the_requests(model, expected, seed):
    order = list(range(len(expected)))
    random.Random(seed).shuffle(order)
    found = run(model, [ask()[i] for i in order])
    assert found == [expected[i] for i in order]


@pytest.mark.parametrize("shortest", [1, 64, 10_000])
@pytest.mark.parametrize("piece", [5, 10_000])
def test_neither_on_what_is_shared_nor_on_how_prompts_are_cut(
    model, expected, monkeypatch, shortest, piece
):
    monkeypatch.setattr(prefixes.groups, "__defaults__", (shortest,))
    monkeypatch.setattr(generation, "PROMPT_TOKENS", piece)
    assert run(model, ask()) == expected


@pytest.mark.parametrize("tp_size", [2, 3])
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=1.2, seed=5)], ids=str)
def test_nor_on_tp_size(folder, model, expected, tp_size, sampling):
    alone = run(model, ask(sampling=sampling), 1)
    assert (alone == expected) is sampling.is_greedy
    first, *others = on_ranks(
        tp_size, lambda tp: run(load(folder, tp), ask(sampling=sampling), batch_size=5)
    )
    assert first == alone
    assert others == [{}] * (tp_size - 1)


@pytest.mark.parametrize(
    "changes", [{"ladder_layers": (1, 2)}, {"topology": "parallel"}], ids=["hybrid", "parallel"]
)
def test_other_residuals_write_what_whole_forwards_choose(folder, expected, changes):
    """Without a cache: the text so far is read anew for every token."""
    model = load(folder, **changes)

    @torch.inference_mode()
    def anew(request):
        ids = torch.tensor([request.prompt])
        for _ in range(request.max_gen_toks):
            ids = torch.cat((ids, model.logits(model(ids)[:, -1]).argmax(-1)[:, None]), dim=1)
        return ids[0, len(request.prompt) :].tolist()

    whole = [anew(request) for request in ask()]
    assert whole != expected
    assert run(model, ask()) == whole


def test_a_free_place_is_taken_at_once(model):
    """Two slots, prompts of 2 tokens, texts of 5, 4, 3, 1 and 1 tokens, the longest first.

    forward   1  2  3  4  5  6  7
    slot 0    2  1  1  1  1  2  2   the text of 5, then those of 1
    slot 1    2  1  1  1  2  1  1   the text of 4, then that of 3
    """
    requests = [GenerationRequest(tokens(2, seed), n) for seed, n in enumerate((1, 5, 3, 4, 1))]
    read, ended = watch(model), []
    for index, _ in generate(model, requests, [never] * 5, batch_size=2):
        ended.append((len(read), index))
    assert read == [4, 2, 2, 2, 3, 3, 3]
    assert ended == [(4, 3), (5, 1), (6, 0), (7, 4), (7, 2)]


def test_what_prompts_begin_with_is_read_once(model):
    header = tokens(100, 8)
    requests = [GenerationRequest((*header, *tokens(n, n)), 3) for n in (4, 2, 6, 3)]
    read = watch(model)
    run(model, requests, batch_size=2)
    assert read == [100, 6 + 4, 2, 2, 3 + 2, 2, 2]


def test_a_long_prompt_is_read_piece_by_piece_beside_texts_that_go_on(model, monkeypatch):
    monkeypatch.setattr(generation, "PROMPT_TOKENS", 10)
    requests = [GenerationRequest(tokens(2, 0), 6), GenerationRequest(tokens(25, 1), 6)]
    read = watch(model)
    run(model, requests)
    # The longest stands in slot 0: 10, 10 and 5 of it; then the 2 of the other beside the 5.
    assert read == [10, 10, 5 + 2, 2, 2, 2, 2, 2]


def test_a_text_is_told_before_anything_else_is_computed(model):
    """So that it can be kept, whatever becomes of the others."""
    requests = [GenerationRequest(tokens(3, 0), 2), GenerationRequest(tokens(3, 1), 9)]

    def breaks(tokens):
        if len(tokens) == 4:
            raise KeyboardInterrupt
        return False

    texts = generate(model, requests, [never, breaks], batch_size=2)
    assert next(texts)[0] == 0
    with pytest.raises(KeyboardInterrupt):
        next(texts)


def test_prefixes_are_given_back(model, expected, monkeypatch):
    """With room for none, one is held at a time, and its rows alone are written."""
    monkeypatch.setattr(generation, "PREFIX_BYTES", 0)
    held, caches = [0], []
    new_slots = Transformer.new_slots

    def kept(self, slots, capacity):
        caches.append(new_slots(self, slots, capacity))
        return caches[-1]

    monkeypatch.setattr(Transformer, "new_slots", kept)
    model.register_forward_hook(
        lambda *_: held.extend(len(cache.layers[0].prefixes) for cache in caches)
    )
    assert run(model, ask()) == expected
    assert max(held) == 1
    assert caches[0].layers[-1].prefixes == {}


def out_of_memory_above(rows, rank, monkeypatch):
    """Let a rank run out of memory where it is to hold more rows than that."""
    new_slots = Transformer.new_slots

    def limited(self, slots, capacity):
        if slots > rows and self.tp.rank == rank:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")
        made.append((self.tp.rank, slots))
        return new_slots(self, slots, capacity)

    made = []
    monkeypatch.setattr(Transformer, "new_slots", limited)
    return made


def test_all_ranks_agree_on_as_many_rows_as_the_smallest_can_hold(folder, expected, monkeypatch):
    """lm-eval 1678, 2458; lighteval 353: rank 1 has no memory for more than four rows."""
    made = out_of_memory_above(4, 1, monkeypatch)
    first, second = on_ranks(2, lambda tp: run(load(folder, tp), ask(), batch_size=12))
    assert (first, second) == (expected, {})
    assert sorted(set(made)) == [(0, 3), (0, 6), (0, 12), (1, 3)]


def room_for(slots, kv_heads):
    """Free bytes, half of which just hold so many slots.

    The longest prompt has 300 tokens, of which a prefix has 150 (seeds 1 and -1 are one), and up to
    12 may follow one: 162 columns of 3 layers, in float32 a key and a value of 8 channels a head.
    """
    return 2 * slots * 162 * 3 * kv_heads * 8 * 2 * 4


@pytest.mark.parametrize(("free", "slots"), [(5, 5), (5.9, 5), (1, 1), (0.2, 1), (99, 8)])
def test_slots_are_as_many_as_fit_at_their_longest(model, expected, monkeypatch, free, slots):
    made = out_of_memory_above(99, 0, monkeypatch)
    monkeypatch.setattr(generation, "free_bytes", lambda *_: room_for(free, kv_heads=3))
    assert run(model, ask(), batch_size=8) == expected
    assert made == [(0, slots)]


def test_the_rank_with_the_least_room_says_how_many_slots_there_are(folder, expected, monkeypatch):
    made = out_of_memory_above(99, 0, monkeypatch)
    free = [room_for(2 * slots, kv_heads=2) for slots in (7, 3)]  # of both ranks together
    monkeypatch.setattr(generation, "free_bytes", lambda *_: free.pop())
    first, second = on_ranks(2, lambda tp: run(load(folder, tp), ask(), batch_size=8))
    assert (first, second) == (expected, {})
    assert sorted(made) == [(0, 3), (1, 3)]


def test_a_text_that_does_not_fit_alone_is_named_on_all_ranks(folder, monkeypatch):
    out_of_memory_above(0, 1, monkeypatch)

    def work(tp):
        with pytest.raises(ScoringError) as caught:
            run(load(folder, tp), [GenerationRequest((1,) * 9, 5)] * 3, batch_size=3)
        return str(caught.value)

    first, second = on_ranks(2, work)
    assert first == second
    assert "A prompt of 9 tokens with up to 5 more takes more memory than there is" in first


def test_too_little_memory_in_the_middle_costs_no_token(model, expected, monkeypatch):
    """Alone: the forward that would be the 9th fails, and texts go on from what they have."""
    heard, forwards = [], []

    def tight(_, inputs):
        forwards.append(inputs[0].shape[1])
        if len(forwards) == 9:
            raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")

    model.register_forward_pre_hook(tight)
    stops = [
        lambda tokens, i=i: heard.append((i, len(tokens))) is not None for i in range(len(expected))
    ]
    assert run(model, ask(), 6, stops) == expected
    assert len(heard) == len(set(heard)) == sum(map(len, expected))
    assert max(forwards[20:]) <= 300 + 3  # three rows now


def test_other_errors_are_no_lack_of_memory(model):
    def breaks(*_):
        raise RuntimeError("shapes differ")

    model.register_forward_pre_hook(breaks)
    with pytest.raises(RuntimeError, match="shapes differ"):
        run(model, ask())


def test_what_one_rank_has_no_memory_for_no_rank_does():
    def work(tp):
        def attempt():
            if tp.rank == 1:
                raise MemoryError
            return "done"

        with pytest.raises(OutOfMemoryError):
            together(tp, CPU, attempt)
        return together(tp, CPU, lambda: tp.rank)

    assert on_ranks(3, work) == [0, 1, 2]
