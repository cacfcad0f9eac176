"""How much memory scoring needs beside the weights, with a large vocabulary.

    python benchmarks/memory.py     # some minutes on two cores, 4 GiB

Eight contexts of 2,048 tokens are scored together by a model with random weights and 128,256
tokens in its vocabulary, of which a float32 logit of every token would be 8.4 GB: once with the
whole texts as continuations, so that every token's logits are needed, and once with four short
continuations each, as a multiple-choice question has them. Each is measured in a process of its
own, as the growth of its largest resident size; the exit code is 1 if one is above the limit.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch

from ladder_eval.distributed.team import alone
from ladder_eval.engine.driver import Driver
from ladder_eval.engine.timing import forget_peak_memory
from ladder_eval.harness.adapter import LadderLM
from ladder_eval.models.config import ModelConfig
from ladder_eval.results.requests import RequestLog

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

LIMIT = 2 * 2**30
ROWS, TOKENS, CHOICES, CHOICE_TOKENS = 8, 2048, 4, 3
CONFIG = ModelConfig(
    hidden_size=128,
    intermediate_size=352,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=32,
    vocab_size=128_256,
    max_position_embeddings=TOKENS,
    rms_norm_eps=1e-5,
    rope_theta=1e4,
    tie_word_embeddings=True,
)
KINDS = ("whole texts", "choices")

TokenRequest = tuple[tuple[str, str], list[int], list[int]]


class NoTokenizer:
    """Requests are token ids already."""

    bos_token_id = 0

    def encode(self, _: str) -> list[int]:
        """Any token ids."""
        return [1]


class Silent:
    """Nobody is told how far the computing has come."""

    def start(self, tokens: int, share: float) -> None:
        """As `Progress.start`."""

    def advance(self, tokens: int) -> None:
        """As `Progress.advance`."""


def requests(kind: str) -> Iterator[TokenRequest]:
    """Requests that read 2,048 tokens a context, which differ from their first token on."""
    for row in range(ROWS):
        tokens = [1 + (row * 7919 + place * 31) % 100_000 for place in range(TOKENS + 1)]
        if kind == "whole texts":
            yield ("", ""), tokens[:1], tokens[1:]
            continue
        context = tokens[: TOKENS - CHOICES * (CHOICE_TOKENS - 1)]
        for choice in range(CHOICES):
            yield ("", ""), context, [choice + 1] * CHOICE_TOKENS


def growth(kind: str) -> int:
    """Bytes by which the process grows while it scores."""
    cpu = torch.device("cpu")
    with (
        alone(cpu) as team,
        tempfile.TemporaryDirectory() as place,
        RequestLog(Path(place) / "requests.jsonl") as log,
    ):
        driver = Driver(team)
        driver.load_random(CONFIG, torch.float32)
        lm = LadderLM(
            identity=("random",),
            load=lambda: driver,
            tokenizer=cast("PreTrainedTokenizerBase", NoTokenizer()),
            eos=(0,),
            max_length=TOKENS,
            vocab_size=CONFIG.vocab_size,
            log=log,
            batch_size=ROWS,
            progress=Silent(),
        )
        asked: Any = list(requests(kind))
        forget_peak_memory(cpu)
        before = resident("VmRSS")
        lm._loglikelihood_tokens(asked)
        return resident("VmHWM") - before


def resident(name: str) -> int:
    """A size of this process in bytes, by its name in Linux' /proc/self/status."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    found = re.search(rf"{name}:\s+(\d+) kB", status)
    if found is None:
        sys.exit("The size of a process can be read on Linux only.")
    return 1024 * int(found[1])


def main() -> None:
    """Measure both kinds, and print a line each."""
    sizes = []
    for kind in KINDS:
        words = [sys.executable, __file__, kind]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        sizes.append(int(done.stdout))
        sys.stdout.write(f"{kind}: {sizes[-1] / 2**30:.2f} GiB beside the weights\n")
    sys.exit(any(size >= LIMIT for size in sizes))


if __name__ == "__main__":
    if len(sys.argv) == 2:
        sys.stdout.write(f"{growth(sys.argv[1])}\n")
    else:
        main()
