"""Tasks whose answers wait for a judge: lm-eval asks for them, and has nothing to say of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from ladder_eval.harness.fewshot import FewShotTask

__all__ = ["JudgedTask"]


class JudgedTask(FewShotTask):
    """An lm-eval task without a metric of its own."""

    def process_results(self, doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
        """Nothing: what the answer is worth, a judge will say."""
        return {}
