"""Healthy data and records of a few kilobytes, and the product's own functions that read them."""

import gzip
import json
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Dataset

from ladder_eval.harness.code.problems import read_problems
from ladder_eval.harness.code.samples import read_samples
from ladder_eval.harness.data.contents import content_sha256
from ladder_eval.harness.data.files import read_rows
from ladder_eval.harness.data.releases import release_rows
from ladder_eval.harness.judging.annotations import read_annotations
from ladder_eval.harness.judging.difficulties import read_length_files
from ladder_eval.harness.judging.job import score
from ladder_eval.harness.judging.options import LengthControl, Scoring
from ladder_eval.harness.judging.outputs import pair_up, read_outputs
from ladder_eval.harness.judging.verdicts import UnusableError, preference, spent
from ladder_eval.harness.judging.waiting import read_waiting
from ladder_eval.importing import Import, import_results
from ladder_eval.models.models_file import read_models_file
from ladder_eval.options import run_options
from ladder_eval.report.board_exports import export
from ladder_eval.report.leaderboard import Wanted, read_board
from ladder_eval.report.tables import markdown
from ladder_eval.results.compared import compare_runs
from ladder_eval.results.gate import TimedRounds, speed_axis
from ladder_eval.results.looks import Look, read_looks
from ladder_eval.results.recorded_work import RecordedBatch, ScoredRow, WrittenText
from ladder_eval.results.requests import read_answers
from ladder_eval.results.sides import baseline_side, candidate_side
from ladder_eval.results.speed_records import Round, Trial
from ladder_eval.results.store import read_batches, read_result
from ladder_eval.results.store import read_samples as read_answered
from ladder_eval.results.summary import scores
from ladder_eval.speed.constants import calibrated
from ladder_eval.speed.timing_logs import COLUMNS, read_logs
from ladder_eval.unpacking import unpack

# ----------------------------------------------------------------------- data

QUESTIONS: list[dict[str, Any]] = [
    {
        "id": f"q{i}",
        "question": f"What is {i} + {i}?",
        "choices": {"text": [str(i), str(2 * i)], "label": ["A", "B"]},
        "answerKey": "B",
        "weight": i / 2,
    }
    for i in range(20)
]


def lines(rows: list[Any]) -> str:
    """Rows as JSON lines."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def make_parquet(folder: Path) -> None:
    """Questions as a Parquet file."""
    pq.write_table(pa.Table.from_pylist(QUESTIONS), folder / "test.parquet")


def make_lines(folder: Path) -> None:
    """Questions as JSON lines."""
    (folder / "test.jsonl").write_text(lines(QUESTIONS))


def make_packed_lines(folder: Path) -> None:
    """Questions as JSON lines, packed."""
    (folder / "test.jsonl.gz").write_bytes(gzip.compress(lines(QUESTIONS).encode(), mtime=0))


def make_saved(folder: Path) -> None:
    """Questions as `save_to_disk` writes them."""
    Dataset.from_list(QUESTIONS).save_to_disk(str(folder / "test"))


def read_data(folder: Path) -> None:
    """The rows of the one split in a folder, and their hash."""
    (place,) = folder.glob("test*")
    content_sha256(read_rows([place]))


def make_release(folder: Path) -> None:
    """Two problems as evalplus' release has them."""
    problem = {
        "prompt": "def f(x):\n",
        "entry_point": "f",
        "canonical_solution": "    return x\n",
        "base_input": [[1], [2]],
        "plus_input": [[3]],
        "atol": 0,
    }
    rows = [{"task_id": f"HumanEval/{i}", **problem} for i in range(2)]
    (folder / "release.jsonl.gz").write_bytes(gzip.compress(lines(rows).encode(), mtime=0))
    (folder / "samples.jsonl").write_text(
        lines(
            [{"task_id": row["task_id"], "solution": "def f(x):\n    return x\n"} for row in rows]
        )
    )


def read_release(folder: Path) -> None:
    """The problems, and samples that answer them."""
    release_rows(folder / "release.jsonl.gz")
    read_samples(folder / "samples.jsonl", read_problems("humaneval", folder / "release.jsonl.gz"))


def make_wheel(folder: Path) -> None:
    """A wheel with two members that are wanted."""
    with zipfile.ZipFile(folder / "data.whl", "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("data/rows.json", json.dumps(QUESTIONS))
        opened.writestr("data/more.txt", "more")
        opened.writestr("data-1.dist-info/METADATA", "Name: data\n")


def read_wheel(folder: Path) -> None:
    """The members that are wanted."""
    unpack(folder / "data.whl", folder / "unpacked", ("data/*",), "data 1.0")
    outside = [file for file in folder.parent.rglob("evil") if file.exists()]
    if outside or Path("/tmp/evil").exists():
        raise AssertionError("a member was written outside of its folder")


# ---------------------------------------------------------------------- judging


def make_outputs(folder: Path) -> None:
    """A model's outputs, the reference's, and annotations."""
    told = [f"say {i}" for i in range(6)]
    model = [{"instruction": t, "output": t * 2, "generator": "model"} for t in told]
    reference = [{"instruction": t, "output": t, "generator": "reference"} for t in told]
    pq.write_table(pa.Table.from_pylist(model), folder / "outputs.parquet")
    (folder / "outputs.json").write_text(json.dumps(model))
    (folder / "reference.json").write_text(json.dumps(reference))
    rows = [
        {
            "instruction": t,
            "output_1": t,
            "generator_1": "reference",
            "output_2": t * 2,
            "generator_2": "model",
            "preference": 1 + i / 6,
            "annotator": "judge",
        }
        for i, t in enumerate(told)
    ]
    (folder / "annotations.json").write_text(json.dumps(rows))
    gamed = [f"{i},{i / 6},{(-1) ** i},{i - 2.5}" for i in range(6)]
    head = "index,preference,std_delta_len,instruction_difficulty"
    (folder / "gamed.csv").write_text("\n".join([head, *gamed]) + "\n")
    answer = {"top_logprobs": [{"token": "m", "logprob": -0.1}, {"token": "M", "logprob": -3}]}
    response = {"choices": [{"logprobs": {"content": [answer]}}]}
    response["usage"] = {"prompt_tokens": 10, "completion_tokens": 1}  # type: ignore[assignment]
    (folder / "response.json").write_text(json.dumps(response))


def read_judged(folder: Path) -> None:
    """Outputs, annotations and what length control needs, up to the rates."""
    reference = read_outputs(folder / "reference.json")
    for name in ("outputs.json", "outputs.parquet"):
        pair_up(read_outputs(folder / name), reference)
    read_annotations(folder / "annotations.json", None)
    read_length_files(folder / "gamed.csv", None, 6)
    score(
        Scoring(
            annotations=folder / "annotations.json",
            reference=folder / "reference.json",
            lengths=LengthControl(),
        )
    )


def read_response(folder: Path) -> None:
    """What a judge's server sent."""
    try:
        response = json.loads((folder / "response.json").read_bytes())
    except (ValueError, RecursionError):
        return  # as the client takes it, which has a body and no file
    spent(response)
    try:
        preference(response, model_first=True)
    except UnusableError:
        return


# ------------------------------------------------------------------------ runs


def make_imported(folder: Path) -> None:
    """What lm-eval writes of a model: results and samples of two tasks."""
    dated = "2025-01-31T12-00-00.000000"
    tasks = ("arc_easy", "piqa")
    metrics = {"acc,none": 0.5, "acc_stderr,none": 0.1, "acc_norm,none": 0.5}
    results = {
        "results": {task: {"alias": task} | metrics for task in tasks},
        "configs": {task: {"task": task, "num_fewshot": 0} for task in tasks},
        "versions": dict.fromkeys(tasks, 1.0),
        "n-shot": dict.fromkeys(tasks, 0),
        "n-samples": {task: {"original": 2000, "effective": 10} for task in tasks},
        "config": {"model": "hf", "model_args": "pretrained=x", "batch_size": "1", "limit": 10.0},
        "date": 1.7e9,
        "model_name": "x",
        "lm_eval_version": "0.4.13",
        "total_evaluation_time_seconds": "12.5",
    }
    (folder / f"results_{dated}.json").write_text(json.dumps(results))
    for task in tasks:
        rows = [_sample(i) for i in range(10)]
        (folder / f"samples_{task}_{dated}.jsonl").write_text(lines(rows))


def _sample(number: int) -> dict[str, Any]:
    right = float(number % 2)
    asked = {"arg_0": f"Question {number}", "arg_1": " yes"}
    return {
        "doc_id": number,
        "doc": {"query": f"Question {number}"},
        "target": "0",
        "arguments": {"gen_args_0": asked, "gen_args_1": asked},
        "resps": [[["-1.0", "True"]], [["-2.0", "False"]]],
        "filtered_resps": [["-1.0", "True"], ["-2.0", "False"]],
        "filter": "none",
        "metrics": ["acc", "acc_norm"],
        "doc_hash": f"d{number}",
        "prompt_hash": f"p{number}",
        "target_hash": "t",
        "acc": right,
        "acc_norm": right,
    }


def read_imported(folder: Path) -> None:
    """A run made of them."""
    import_results(Import(results=folder, tasks=("arc_easy", "piqa"), output_dir=folder / "runs"))


def make_runs(folder: Path) -> None:
    """Two finished runs with answers, timed rounds, batches, looks and outputs that wait."""
    (folder / "lm_eval").mkdir()
    make_imported(folder / "lm_eval")
    for name in ("dense", "ladder"):
        wanted = Import(
            results=folder / "lm_eval",
            tasks=("arc_easy", "piqa"),
            name=name,
            output_dir=folder / "made",
        )
        _, made = import_results(wanted)
        (folder / "runs").mkdir(exist_ok=True)
        made.rename(folder / "runs" / name)
    run = folder / "runs" / "ladder"
    (run / "rounds.jsonl").write_text(lines([_round(i) for i in range(1, 8)]))
    batches = [
        RecordedBatch(scored=(ScoredRow(6, 2, 3, 2), ScoredRow(9, 3, 3, 1))),
        RecordedBatch(written=(WrittenText(5, 9),)),
    ]
    for name in ("batches", "requests"):
        (run / name).mkdir()
    rows = [{"key": f"k{i}", "answer": each.as_answer()} for i, each in enumerate(batches)]
    (run / "batches" / "ladder.jsonl").write_text(lines(rows))
    answers = [{"key": f"{i:064x}", "answer": [-1.5, True]} for i in range(10)]
    (run / "requests" / "ladder.jsonl").write_text(lines(answers))
    look = Look(
        claim="c",
        documents_sha256="d",
        documents=20,
        level=0.04,
        margin=0.01,
        verdict="PASS",
        looked_at="2025-01-31T12:00:00+00:00",
    )
    (folder / "runs" / "claims.jsonl").write_text(lines([asdict(look)] * 2))
    waiting = run / "judge" / "arc_easy"
    (waiting / "ladder").mkdir(parents=True)
    task = json.loads((run / "results.json").read_text())["tasks"][0]
    (waiting / "task.json").write_text(json.dumps(task))
    output = {"instruction": "say", "output": "said", "generator": "ladder", "sample": {}}
    (waiting / "ladder" / "outputs.json").write_text(json.dumps([output]))


def _round(number: int) -> dict[str, Any]:
    trials = tuple(
        Trial(
            arm=arm,
            ttft=0.1 * seconds,
            itl=(seconds, seconds + 0.001 * number),
            driver_seconds=0.0,
            prefill_bound=None,
            decode_bound=0.5,
        )
        for arm, seconds in (("dense", 1.0), ("ladder", 0.8), ("dense again", 1.01))
    )
    made = Round(
        number=number,
        latency=None,
        prefill_blocks=((0.1, 0.2),),
        decode_blocks=(),
        copied_bytes_per_second=1e9,
        trials=trials,
    )
    workload = {"batch_size": 1, "prompt_len": 8, "output_len": 3}
    return {"model": "ladder", "tp_size": 2, "workload": workload, "round": asdict(made)}


def read_run(folder: Path) -> None:
    """A run's report, and the leaderboard of a folder of runs in every format."""
    markdown(read_result(folder / "runs" / "ladder"))
    board = read_board(folder / "runs", Wanted())
    for kind in ("csv", "md", "json", "html"):
        export(board, kind, by_task=False)


def read_compared(folder: Path) -> None:
    """The comparison of two runs, their scores, and the gate."""
    scores(read_answered(folder / "runs" / "ladder"))
    sides = (
        candidate_side(str(folder / "runs" / "ladder")),
        baseline_side(str(folder / "runs" / "dense")),
    )
    compare_runs(*sides, margin=0.01)


def read_rounds(folder: Path) -> None:
    """The timed rounds, up to a speed-up."""
    timed = TimedRounds.read(folder / "runs" / "ladder", "ladder", "dense")
    speed_axis(timed, "ladder", "dense", 1.0)


def read_logs_of_run(folder: Path) -> None:
    """Batches, answers, looks, and outputs that wait for a judge."""
    run = folder / "runs" / "ladder"
    for batch in read_batches(run, "ladder"):
        sum(given + made for given, made in batch.lengths)
    read_answers(run / "requests" / "ladder.jsonl")
    read_looks(folder / "runs" / "claims.jsonl")
    for waiting in read_waiting(run):
        waiting.rows("ladder")
        read_outputs(waiting.outputs("ladder"))


# ------------------------------------------------------------------- settings


def make_settings(folder: Path) -> None:
    """What a user writes by hand: models, options, timing logs, and a measured machine."""
    (folder / "models.yaml").write_text(
        "mine: {checkpoint: here}\nother:\n  checkpoint: here\n  residual: ladder\n"
        "  ladder_layers: [1, 2]\n  baseline: mine\n"
    )
    (folder / "here").mkdir()
    (folder / "options.yaml").write_text(
        "model: [ladder_smollm2_135m]\nlimit: 10\nseed: 1\nladder_layers: '3,7'\n"
        "tasks: arc_easy,piqa\ndtype: float32\nno_speed: true\noutput_dir: runs\n"
    )
    row = "standard,standard_8b,8,4,on,eager,0.1,1.5"
    (folder / "timings.csv").write_text("\n".join([",".join(COLUMNS), row, row]) + "\n")
    link = {"title": "L", "bandwidth": 1e11, "nccl_hop": 1e-6, "reduces": False}
    machine = {
        "name": "mine",
        "title": "Mine",
        "flops": {"bfloat16": 1e14},
        "memory_bandwidth": 1e12,
        "memory_bytes": 8e10,
        "ranks_per_node": 8,
        "links": {"p2p": link, "host": link},
        "sources": ["measured"],
    }
    constants = {
        "memory_efficiency": 0.8,
        "matmul_efficiency": 0.7,
        "kernel_seconds": 3e-6,
        "p2p_hop": 1e-6,
        "host_hop": 2e-6,
        "p2p_efficiency": 0.7,
        "host_efficiency": 0.6,
        "contention": 0.1,
    }
    values = {"machine": "mine", "source": "here", "command": "measure", "constants": constants}
    (folder / "machine.json").write_text(json.dumps(values | {"description": machine}))


def read_settings(folder: Path) -> None:
    """All of them."""
    read_models_file(folder / "models.yaml")
    run_options({}, folder / "options.yaml")
    read_logs(folder / "timings.csv", 8, 8)
    made = calibrated(str(folder / "machine.json"))
    made.hop("p2p"), made.link_bandwidth("host"), made.machine.peak("bfloat16")
