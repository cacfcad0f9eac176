r"""The model `ladder` of lm-eval's own command line and of `simple_evaluate`.

ladder-eval lm-eval run --model ladder --tasks arc_easy \
        --model_args pretrained=my/checkpoint,ladder_layers=16,tp=2
"""

import logging
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from ladder_eval.distributed.shares import shares
from ladder_eval.engine.batching import Batch
from ladder_eval.engine.driver import Driver
from ladder_eval.engine.generation import Generated, GenerationRequest, Stop
from ladder_eval.engine.scoring import LogLikelihood, NotFiniteError
from ladder_eval.errors import UsageError
from ladder_eval.execution import Execution, execution_of
from ladder_eval.harness.adapter import DEFAULT_MAX_GEN_TOKS, LadderLM
from ladder_eval.harness.arm import Arm, arm_of
from ladder_eval.models.choice import ResidualChoice
from ladder_eval.models.selection import select
from ladder_eval.models.weight_sources import WeightSources
from ladder_eval.results.requests import RequestLog

_DTYPES = ("auto", "float32", "bfloat16", "float16")

_log = logging.getLogger(__name__)


class RegisteredLadder(LadderLM):
    """A model from lm-eval's `model_args`; its ranks end with it.

    Args:
        pretrained: What `ladder-eval run --model` takes: a name, folder, GGUF file or Hub id.
        residual: The residual to run a dense checkpoint with.
        ladder_layers: n for the last n layers; a list, or a text such as `3+7`, for those.
        dtype: By default bfloat16 on CUDA, float32 elsewhere.
        device: By default cuda where there is one, else cpu. lm-eval's command line says cuda:0 for
            itself, which means the same here, with one GPU a rank.
        tp: tp_size.
        batch_size: Most texts in one forward.
        max_batch_size: Not used.
        max_length: Longest text in tokens, where it isn't what the model can read.
        max_gen_toks: Most tokens to generate where a task doesn't say.
        think_end_token: What closes a reasoning model's thoughts.
        enable_thinking: Given to the chat template.
        chat_template_args: More arguments of the chat template.
        seed: Seed of what is drawn.
        answers: A file where answers are kept and taken from; by default nothing is kept.
        **unknown: What other models of lm-eval take; it is refused.

    Raises:
        LadderEvalError: if an argument makes no sense, or the model can't be had, read or divided.
    """

    def __init__(
        self,
        pretrained: str = "",
        *,
        residual: str | None = None,
        ladder_layers: int | str | Sequence[int] | None = None,
        dtype: str = "auto",
        device: str | None = None,
        tp: int = 1,
        batch_size: int | str = 1,
        max_batch_size: int | None = None,
        max_length: int | None = None,
        max_gen_toks: int = DEFAULT_MAX_GEN_TOKS,
        think_end_token: str = "",
        enable_thinking: bool | None = None,
        chat_template_args: Mapping[str, Any] | None = None,
        seed: int = 0,
        answers: str | None = None,
        **unknown: Any,
    ) -> None:
        if unknown:
            known = ", ".join(list(signature(RegisteredLadder).parameters)[:-1])
            raise UsageError(f"Unknown model_args {', '.join(unknown)}; known are {known}.")
        whole = {"tp": tp, "max_gen_toks": max_gen_toks, "max_length": max_length, "seed": seed}
        _require_whole({name: value for name, value in whole.items() if value is not None})
        _require("pretrained", pretrained, pretrained and isinstance(pretrained, str), "a model")
        _require("think_end_token", think_end_token, isinstance(think_end_token, str), "a text")
        switch = isinstance(enable_thinking, bool | None)
        _require("enable_thinking", enable_thinking, switch, "True or False")
        table = isinstance(chat_template_args, Mapping | None)
        _require("chat_template_args", chat_template_args, table, "a table of arguments")
        if dtype not in _DTYPES:
            raise UsageError(f"Unknown dtype {dtype!r}; known are {', '.join(_DTYPES)}.")
        execution = execution_of(_device(device, tp), None if dtype == "auto" else dtype, tp)
        choice = ResidualChoice(residual=residual, ladder_layers=_ladder_layers(ladder_layers))
        arm = _arm(pretrained, choice, tp)
        config, thinking = arm.model.config, {"enable_thinking": enable_thinking}
        stack = ExitStack()
        self._end = weakref.finalize(self, stack.close)  # at the latest when Python ends
        super().__init__(
            identity=arm.identity(execution),
            load=partial(_Group, arm, execution, stack),
            tokenizer=arm.tokenizer,
            eos=arm.eos,
            max_length=max_length or config.max_position_embeddings,
            vocab_size=config.vocab_size,
            log=stack.enter_context(RequestLog(_place(answers, stack))),
            batch_size=_batch_size(batch_size),
            progress=_Bar(arm.model.name),
            seed=seed,
            max_gen_toks=max_gen_toks,
            think_end_token=think_end_token,
            chat_template_args={
                **(thinking if enable_thinking is not None else {}),
                **(chat_template_args or {}),
            },
        )
        self.arm = arm

    def close(self) -> None:
        """End the model's ranks, and close the file of answers."""
        self._end()

    def get_model_info(self) -> dict[str, Any]:
        """What lm-eval's result file says about the model."""
        model = self.arm.model
        return {
            "model_num_parameters": model.config.parameters,
            "model_residual": model.config.residual,
            "model_ladder_layers": list(model.config.ladder_layers),
            "model_weights": model.weights,
            "model_adaptation": model.adaptation,
            "model_sha": self.arm.fingerprint,
        }


def _require_whole(values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        least = 0 if name == "seed" else 1
        fits = type(value) is int and value >= least  # lm-eval reads `True` as a bool
        _require(name, value, fits, f"a whole number, {least} or more")


def _require(name: str, value: object, fits: object, what: str) -> None:
    if not fits:
        raise UsageError(f"{name}={value!r} must be {what}.")


def _arm(pretrained: str, choice: ResidualChoice, tp_size: int) -> Arm:
    model = select(pretrained, choice=choice, sources=WeightSources(notify=_log.info))
    if model.folder is None:
        raise UsageError(f"No checkpoint of {pretrained} is known; give its folder.")
    if model.config.topology == "no-comm":
        raise UsageError("no-comm is a bound on speed; its outputs mean nothing to be scored.")
    shares(model.config.shape, tp_size)
    return arm_of(model, model.folder, tp_size)


class _Group:
    """A model on its ranks, which end with the first error that not all of them have met.

    Without this they would wait for each other when the model is closed.

    Raises:
        UsageError: if another model has ranks in this process.
        WorkerError: from all methods, if another rank has died.
    """

    def __init__(self, arm: Arm, execution: Execution, stack: ExitStack) -> None:
        if execution.tp_size > 1 and torch.distributed.is_initialized():
            raise UsageError("Another model with tp is open; close() it first.")
        self._stack = stack.enter_context(ExitStack())
        with self._all_or_none():
            self._driver = Driver(self._stack.enter_context(execution.team()))
            self._driver.load(arm.folder, arm.model.config, execution.torch_dtype)

    def score(self, batches: Sequence[Batch]) -> Iterator[tuple[Batch, dict[int, LogLikelihood]]]:
        """As `Driver.score`."""
        with self._all_or_none():
            yield from self._driver.score(batches)

    def batch_tokens(self) -> int:
        """As `Driver.batch_tokens`."""
        with self._all_or_none():
            return self._driver.batch_tokens()

    def generate(
        self, requests: Sequence[GenerationRequest], stops: Sequence[Stop], *, batch_size: int
    ) -> Iterator[tuple[int, Generated]]:
        """As `Driver.generate`."""
        with self._all_or_none():
            yield from self._driver.generate(requests, stops, batch_size=batch_size)

    @contextmanager
    def _all_or_none(self) -> Iterator[None]:
        try:
            yield
        except NotFiniteError:  # met by all alike
            raise
        except BaseException as error:
            self._stack.__exit__(type(error), error, error.__traceback__)
            raise


def _device(name: str | None, tp_size: int) -> str | None:
    if name != "cuda:0" or (torch.cuda.is_available() and tp_size == 1):
        return name
    return "cuda" if torch.cuda.is_available() else None


def _ladder_layers(value: int | str | Sequence[int] | None) -> int | tuple[int, ...] | None:
    if value is None or isinstance(value, int):
        return value
    parts = value.split("+") if isinstance(value, str) else value
    try:
        return tuple(int(part) for part in parts)
    except (TypeError, ValueError):
        raise UsageError(
            f"ladder_layers={value!r} must be a number of last layers, or layers such as 3+7."
        ) from None


def _batch_size(value: int | str) -> int:
    try:
        return max(1, int(value))
    except (TypeError, ValueError):
        raise UsageError(f"batch_size {value!r} isn't offered; give a number.") from None


def _place(answers: str | None, stack: ExitStack) -> Path:
    if answers is not None:
        return Path(answers)
    return Path(stack.enter_context(tempfile.TemporaryDirectory())) / "answers.jsonl"


class _Bar:
    """A bar of tokens, as lm-eval draws its own."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._bar: Any = None

    def start(self, tokens: int, share: float) -> None:
        """As `Progress.start`."""
        self._bar = tqdm(total=tokens, desc=self._name, unit=" tokens", unit_scale=True)

    def advance(self, tokens: int) -> None:
        """As `Progress.advance`."""
        self._bar.update(tokens)
        if self._bar.n >= self._bar.total:
            self._bar.close()
