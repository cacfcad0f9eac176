"""This package's engine as `run` uses it, with nothing answered before."""

import tempfile
from pathlib import Path
from time import perf_counter

from ladder_eval.engine.driver import Driver
from ladder_eval.execution import Execution
from ladder_eval.harness.adapter import LadderLM
from ladder_eval.harness.arm import Arm
from ladder_eval.harness.questions import Answers, Questions, TokenRequests, answers_of
from ladder_eval.results.requests import RequestLog
from ladder_eval.results.throughput_records import OURS, ThroughputTrial


class OwnModel:
    """A loaded model that answers through an empty log of requests each time.

    Args:
        arm: The model, which the driver has loaded.
        execution: Where it computes.
        driver: What computes.
        batch_size: As `run` takes it.
        folder: Where the logs are, for as long as they are needed.

    Attributes:
        batches: How many batches the last questions took.
    """

    def __init__(
        self, arm: Arm, execution: Execution, driver: Driver, batch_size: int, folder: Path
    ) -> None:
        self.batches = 0
        self._arm, self._driver, self._batch_size = arm, driver, batch_size
        self._identity, self._folder = arm.identity(execution), folder

    def timed(self, questions: Questions) -> tuple[Answers, ThroughputTrial]:
        """What it answers, each answer on disk, and what that took."""
        with (
            tempfile.TemporaryDirectory(dir=self._folder) as place,
            RequestLog(Path(place) / "requests.jsonl") as log,
            RequestLog(Path(place) / "batches.jsonl") as batches,
        ):
            lm = self._lm(log, batches)
            start = perf_counter()
            answers = answers_of(lm, questions)
            seconds = perf_counter() - start
            self.batches = len(batches)
        read = lm.tally.scored_tokens
        return answers, ThroughputTrial(engine=OURS, seconds=seconds, read_tokens=read)

    def tokens(self, questions: Questions) -> TokenRequests:
        """The questions as token ids."""
        with (
            tempfile.TemporaryDirectory(dir=self._folder) as place,
            RequestLog(Path(place) / "requests.jsonl") as log,
        ):
            lm = self._lm(log, None)
            reader = TokenRequests(lm.tok_encode, lm.prefix_token_id, lm.max_length)
            answers_of(reader, questions)
        return reader

    def _lm(self, log: RequestLog, batches: RequestLog | None) -> LadderLM:
        arm, config = self._arm, self._arm.model.config
        return LadderLM(
            identity=self._identity,
            load=lambda: self._driver,
            tokenizer=arm.tokenizer,
            eos=arm.eos,
            max_length=config.max_position_embeddings,
            vocab_size=config.vocab_size,
            log=log,
            batch_size=self._batch_size,
            progress=_Silent(),
            batches=batches,
        )


class _Silent:
    """Nobody is told how far the computing has come."""

    def start(self, tokens: int, share: float) -> None:
        """As `Progress.start`."""

    def advance(self, tokens: int) -> None:
        """As `Progress.advance`."""
