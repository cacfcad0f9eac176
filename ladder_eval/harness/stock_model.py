"""lm-eval's own model for transformers checkpoints, `hf`, as it is: what ours is timed beside."""

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from lm_eval.models.huggingface import HFLM
from torch import Tensor, nn

from ladder_eval.errors import UsageError
from ladder_eval.harness.questions import Answers, Questions, answers_of
from ladder_eval.results.throughput_records import STOCK, ThroughputTrial


class StockModel:
    """lm-eval's `hf` over a checkpoint; nothing of it is changed.

    A hook before its forward counts the tokens that go in, which takes microseconds.

    Args:
        folder: A checkpoint in the format of transformers.
        dtype: Number format of weights and computation.
        device: Where it computes.

    Raises:
        UsageError: if transformers can't read the checkpoint.
    """

    def __init__(self, folder: Path, dtype: str, device: torch.device) -> None:
        try:
            self._lm = HFLM(pretrained=str(folder), dtype=dtype, device=str(device), batch_size=1)
        except Exception as error:  # transformers raises whatever a folder makes it stumble over
            raise UsageError(
                f"lm-eval's hf can't read {folder} ({error}); give a --model that it can."
            ) from None
        self._read = 0
        self._lm.model.register_forward_pre_hook(self._count, with_kwargs=True)

    def timed(self, questions: Questions, batch_size: int) -> tuple[Answers, ThroughputTrial]:
        """What it answers, so many rows at once, and what that took."""
        # What its constructor does with the argument of this name.
        self._lm.batch_size_per_gpu = batch_size
        self._read, start = 0, perf_counter()
        answers = answers_of(self._lm, questions)
        seconds = perf_counter() - start
        return answers, ThroughputTrial(engine=STOCK, seconds=seconds, read_tokens=self._read)

    def linears(self) -> tuple[list[Tensor], Tensor]:
        """The weights of its layers' matrix products in their order, and the head's."""
        head = self._lm.model.get_output_embeddings()
        found = [m for m in self._lm.model.modules() if isinstance(m, nn.Linear) and m is not head]
        return [module.weight for module in found], head.weight

    @torch.inference_mode()
    def gap(self, tokens: Sequence[int]) -> float:
        """By how much the most likely next token's logit is above the second's."""
        ids = torch.tensor([list(tokens)], device=self._lm.device)
        best = self._lm.model(ids).logits[0, -1].float().topk(2).values
        return float(best[0] - best[1])

    def _count(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._read += (args[0] if args else kwargs["input_ids"]).numel()
