"""What requests ask of a model whatever computes them: tokens, each once, and operations.

Requests that begin alike share their beginning. All of them together are a trie, whose nodes are
prefixes: a causal model's state after a prefix depends on nothing else, so that no engine has to
compute a node twice, and none can do without one.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ladder_eval.distributed.shares import shares
from ladder_eval.models.config import ModelConfig
from ladder_eval.results.throughput_records import RequestCounts, RequestWork
from ladder_eval.speed.work import read_flops

TokenRequest = tuple[Sequence[int], Sequence[int]]
"""Token ids that a request gives, and those whose probability it asks for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A task's requests as token ids.

    Attributes:
        documents: Documents that they are about.
        requests: How many they are to lm-eval.
        scored: Context and continuation, windows of whole texts among them.
        written: Prompts, and what was written after each.
    """

    documents: int
    requests: int
    scored: Sequence[TokenRequest]
    written: Sequence[TokenRequest]


@dataclass(frozen=True, kw_only=True, slots=True)
class Trie:
    """The nodes of requests' trie.

    Attributes:
        nodes: Tokens that are read, each once after the same prefix.
        pairs: Keys that these look at: each as many as its prefix is long, itself included.
        predicted: Nodes after which a token is asked for.
    """

    nodes: int
    pairs: int
    predicted: int


def trie_of(requests: Iterable[TokenRequest]) -> Trie:
    """Count the nodes; the last token of a request is predicted, but never read."""
    children: dict[tuple[int, int], int] = {}
    predicted: set[int] = set()
    pairs = 0
    for context, continuation in requests:
        node = 0
        for length, token in enumerate((*context, *continuation[:-1]), start=1):
            if (node, token) not in children:
                children[node, token] = len(children) + 1
                pairs += length
            node = children[node, token]
            if length >= len(context):
                predicted.add(node)
    return Trie(nodes=len(children), pairs=pairs, predicted=len(predicted))


def counts_of(asked: Asked) -> RequestCounts:
    """Requests and tokens. A text's last token is written, but not read."""
    trie, steps = _reading(asked), sum(_steps(text) for _, text in asked.written)
    every = (*asked.scored, *asked.written)
    return RequestCounts(
        documents=asked.documents,
        requests=asked.requests,
        tokens=sum(len(given) + len(wanted) for given, wanted in every),
        unique_tokens=trie.nodes + steps,
        predicted_tokens=trie.predicted + steps,
        written_tokens=sum(len(text) for _, text in asked.written),
    )


def work_of_requests(
    config: ModelConfig, asked: Asked, *, rows: int, dtype_bytes: int
) -> RequestWork:
    """Operations and bytes that answering takes at least.

    Args:
        config: The model.
        asked: The requests.
        rows: Texts that are written together: each step reads all weights once for so many.
        dtype_bytes: Size of a number.
    """
    parts, trie = shares(config.shape, 1), _reading(asked)
    lengths = [(len(prompt), _steps(text)) for prompt, text in asked.written]
    steps = sum(count for _, count in lengths)
    # A text's tokens after its first each look at the prompt, those before them, and themselves.
    pairs = sum(count * prompt + count * (count + 1) / 2 for prompt, count in lengths)
    return RequestWork(
        read_flops=read_flops(
            config, parts, tokens=trie.nodes, pairs=trie.pairs, predicted=trie.predicted
        ),
        write_flops=read_flops(config, parts, tokens=steps, pairs=pairs, predicted=steps),
        write_bytes=dtype_bytes
        * (
            _fewest_steps([count for _, count in lengths], rows) * _weights(config)
            + 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * pairs
        ),
    )


def _reading(asked: Asked) -> Trie:
    """What is read before anything is written; after a prompt one token is predicted."""
    return trie_of([*asked.scored, *((prompt, (0,)) for prompt, _ in asked.written)])


def _steps(text: Sequence[int]) -> int:
    return max(0, len(text) - 1)


def _fewest_steps(counts: Sequence[int], rows: int) -> int:
    """Steps that write so many tokens of each text, a free row being given to the next at once."""
    return max(math.ceil(sum(counts) / rows), max(counts, default=0))


def _weights(config: ModelConfig) -> int:
    """Weights that a step reads: of an embedding that isn't the head as well, only some rows."""
    unread = 0 if config.tie_word_embeddings else config.vocab_size * config.hidden_size
    return config.parameters - unread
