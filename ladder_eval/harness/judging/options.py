"""What the command line gave, as a judging or as verdicts to score."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ladder_eval.errors import UsageError, flag
from ladder_eval.harness.judging.costs import Prices
from ladder_eval.harness.judging.difficulties import LengthFiles, read_length_files
from ladder_eval.harness.judging.prompts import OWN_PROMPT, JudgePrompt, read_prompt
from ladder_eval.harness.judging.server import KEY_NAME, Server, api_key, endpoint
from ladder_eval.results.requests import request_key

__all__ = [
    "Judge",
    "Judging",
    "LengthControl",
    "RunJudging",
    "Scoring",
    "judge_at",
    "judge_options",
]

Given = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class LengthControl:
    """Files for the length-controlled win rate.

    Attributes:
        gamed: df_gamed.csv; None to do without length control.
        difficulty: instruction_difficulty.csv, if its values should count.
        by_row_number: Take a row's difficulty by its number, as the leaderboard does.
        because: Why there is no `gamed`, where the user could have given none.
    """

    gamed: Path | None = None
    difficulty: Path | None = None
    by_row_number: bool = False
    because: str = "needs --gamed, AlpacaEval's df_gamed.csv"

    @property
    def why_not(self) -> str | None:
        """Why there is no length-controlled rate; None where there is one."""
        return None if self.gamed else self.because

    def files(self, documents: int) -> LengthFiles | None:
        """Both files' content for a reference of so many documents; None without files."""
        return read_length_files(self.gamed, self.difficulty, documents) if self.gamed else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Judge:
    """A judge, and how it is asked.

    Attributes:
        server: Where it is.
        prompt: What it is asked.
        seed: Seed of the order in which outputs are shown.
        concurrency: Requests at once.
        prices: What tokens cost, if known.
        lengths: Files for length control.
    """

    server: Server
    prompt: JudgePrompt = OWN_PROMPT
    seed: int = 0
    concurrency: int = 8
    prices: Prices | None = None
    lengths: LengthControl = LengthControl()


@dataclass(frozen=True, kw_only=True, slots=True)
class Judging:
    """Outputs to be judged.

    Attributes:
        outputs: File of the model's outputs.
        reference: File of the reference's.
        judge: The judge.
        out: Folder for verdicts, if one was named.
    """

    outputs: Path
    reference: Path
    judge: Judge
    out: Path | None = None

    @property
    def folder(self) -> Path:
        """Where verdicts are kept: unless named, a folder of these files, this judge and prompt.

        What the files hold isn't part of its name: verdicts are kept by what was asked, so that
        of changed outputs only those that changed are asked about again.
        """
        files = [str(path.resolve()) for path in (self.outputs, self.reference)]
        server = self.judge.server
        judge = (server.url, server.model, self.judge.prompt.sha256, self.judge.seed)
        named = f"judge-{self.outputs.stem}-{request_key(*files, *judge)[:8]}"
        return self.out or Path("runs") / named


@dataclass(frozen=True, kw_only=True, slots=True)
class RunJudging:
    """A run whose outputs are to be judged.

    Attributes:
        run: The run's folder.
        judge: The judge.
        data_dir: A folder that may have the files for length control.
    """

    run: Path
    judge: Judge
    data_dir: Path | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Scoring:
    """Verdicts to be scored.

    Attributes:
        annotations: File of verdicts.
        reference: File of the reference's outputs, if given.
        lengths: Files for length control.
    """

    annotations: Path
    reference: Path | None = None
    lengths: LengthControl = LengthControl()


def judge_options(given: Given) -> Judging | RunJudging | Scoring:
    """What the options of `judge` ask for.

    Raises:
        UsageError: If they don't belong together, or one makes no sense.
    """
    outputs, annotations = given["outputs"], given["annotations"]
    if (outputs is None) == (annotations is None):
        raise UsageError(
            "give either OUTPUTS or a RUN to be judged, or --annotations to be scored."
        )
    lengths = _lengths(given)
    if annotations is None:
        return _judging(given, lengths)
    if given["judge_url"] or given["judge_model"]:
        raise UsageError("--annotations are verdicts already; leave --judge-url and -model out.")
    if lengths.gamed and given["reference"] is None:
        raise UsageError(
            "--gamed needs --reference, too: difficulties are in the order of its instructions."
        )
    return Scoring(annotations=annotations, reference=given["reference"], lengths=lengths)


def _judging(given: Given, lengths: LengthControl) -> Judging | RunJudging:
    outputs: Path = given["outputs"]
    is_run = outputs.is_dir()
    if is_run and (given["reference"] or given["out"]):
        raise UsageError("a run has its own reference and folder; leave --reference and --out out.")
    needed = ("judge_url", "judge_model") if is_run else ("reference", "judge_url", "judge_model")
    missing = [flag(name) for name in needed if not given[name]]
    if missing:
        raise UsageError(f"judging outputs needs {', '.join(missing)}, too.")
    if lengths.by_row_number:
        raise UsageError("--official-row-index is about published --annotations alone.")
    judge = Judge(
        server=_server(given),
        prompt=read_prompt(given["prompt"]) if given["prompt"] else OWN_PROMPT,
        seed=given["seed"],
        concurrency=given["concurrency"],
        prices=_prices(given["prompt_price"], given["completion_price"]),
        lengths=lengths,
    )
    if is_run:
        return RunJudging(run=outputs, judge=judge, data_dir=given["data_dir"])
    return Judging(outputs=outputs, reference=given["reference"], judge=judge, out=given["out"])


def judge_at(url: str, model: str) -> Judge:
    """A judge that is asked as `judge` asks it unless told otherwise.

    Raises:
        UsageError: If the address is none, or the key can't be sent.
    """
    endpoint(url)
    return Judge(server=Server(url=url, model=model, key=api_key(KEY_NAME)))


def _server(given: Given) -> Server:
    endpoint(given["judge_url"])  # refused before any file is read
    return Server(
        url=given["judge_url"],
        model=given["judge_model"],
        key=api_key(given["api_key_env"]),
        key_name=given["api_key_env"],
        timeout_s=given["timeout"],
        attempts=given["attempts"],
    )


def _lengths(given: Given) -> LengthControl:
    if (given["difficulty"] or given["official_row_index"]) and not given["gamed"]:
        raise UsageError("--difficulty and --official-row-index need --gamed, too.")
    return LengthControl(
        gamed=given["gamed"],
        difficulty=given["difficulty"],
        by_row_number=given["official_row_index"],
    )


def _prices(prompt: float | None, completion: float | None) -> Prices | None:
    if prompt is None and completion is None:
        return None
    if prompt is None or completion is None:
        raise UsageError("give both --prompt-price and --completion-price, or neither.")
    return Prices(prompt=prompt, completion=completion)
