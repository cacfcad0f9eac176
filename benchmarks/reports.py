"""How long a report about many large runs takes, and how much memory.

    python benchmarks/reports.py                 # 50 runs of 14,042 documents, as MMLU has them
    python benchmarks/reports.py --runs 1

Makes a run in a temporary folder: a baseline and a candidate with made-up answers to the documents
of 57 subjects, timed in nine rounds, with what lm-eval logs about each request. The others are
copies of it under other names, their logs links. Then builds the report in a process of its own,
and prints its wall time, its peak memory and its sizes.
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ladder_eval.results.files import atomic_write
from ladder_eval.results.records import (
    ModelRecord,
    Provenance,
    RunResult,
    TaskRecord,
    to_json,
)
from ladder_eval.results.samples import SAMPLE_COLUMNS
from ladder_eval.results.speed import TimedArm, speed_rows
from ladder_eval.results.speed_records import LinkRecord, Round, SpeedRecord, Trial, Workload
from ladder_eval.results.store import RunFolder
from ladder_eval.results.summary import comparisons, scores

SUBJECTS = 57
RIGHT = {"baseline": 0.6, "candidate": 0.59}
SECONDS = {"baseline": 1.0, "candidate": 0.8, "no-comm": 0.7, "baseline again": 1.0}


def main() -> None:
    """Make the runs, report on them, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--documents", type=int, default=14_042)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folders = list(made(Path(place) / "runs", asked.runs, asked.documents))
        seconds, cpu_seconds, peak = reported(folders, Path(place) / "report")
        sizes = {p: size(Path(place) / "report" / p) for p in ("index.html", "samples")}
    print(  # noqa: T201
        f"{asked.runs} runs x {asked.documents} documents: {seconds:.1f} s wall time, "
        f"{cpu_seconds:.1f} s CPU time, {peak / 2**20:.0f} MiB peak memory; "
        f"page {sizes['index.html'] / 2**20:.2f} MiB, "
        f"pages with documents {sizes['samples'] / 2**20:.0f} MiB."
    )


def reported(folders: list[Path], out: Path) -> tuple[float, float, int]:
    """Seconds, CPU seconds and peak bytes of a process that reports on runs."""
    code = (
        "import sys; from ladder_eval.__main__ import app\n"
        "from ladder_eval.results.provenance import peak_memory_bytes\n"
        "try: app(sys.argv[1:])\n"
        "except SystemExit as end: failed = end.code\n"
        "print(peak_memory_bytes()); sys.exit(failed)"
    )
    words = [sys.executable, "-c", code, "report", *map(str, folders), "--out", str(out)]
    begin = time.perf_counter()
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_seconds = used.ru_utime + used.ru_stime
    return time.perf_counter() - begin, cpu_seconds, int(done.stdout.split()[-1])


def size(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    return sum(each.stat().st_size for each in (path, *path.rglob("*")) if each.is_file())


def made(home: Path, runs: int, documents: int) -> Iterator[Path]:
    """Folders of runs."""
    first = home / "run-1"
    samples = made_samples(documents)
    result = made_result(samples, documents)
    with RunFolder.open(first) as folder:
        folder.write_samples(samples)
        folder.write_result(replace(result, run_id=first.name))
        for each in made_rounds():
            folder.append("rounds.jsonl", {"round": asdict(each)})
    for model in RIGHT:
        write_logs(first / "lm_eval" / model, samples[samples["model"] == model])
    yield first
    for number in range(2, runs + 1):
        folder_path = home / f"run-{number}"
        folder_path.mkdir()
        for name in ("samples.parquet", "rounds.jsonl"):
            shutil.copy(first / name, folder_path / name)
        (folder_path / "lm_eval").symlink_to(first / "lm_eval")
        text = to_json(replace(result, run_id=folder_path.name))
        atomic_write(folder_path / "results.json", text)
        yield folder_path


def made_samples(documents: int) -> pd.DataFrame:
    """Answers of both models, right at random."""
    rng = np.random.default_rng(0)
    logprobs = {model: np.sort(rng.normal(-5, 2, (documents, 4)))[:, ::-1] for model in RIGHT}
    right = {model: rng.random(documents) < share for model, share in RIGHT.items()}
    rows = [
        sample_row(model, i, right[model][i], logprobs[model][i].tolist())
        for model in RIGHT
        for i in range(documents)
    ]
    return pd.DataFrame(rows, columns=list(SAMPLE_COLUMNS))


def sample_row(model: str, number: int, right: bool, logprobs: list[float]) -> dict[str, Any]:
    """One model's answer to one document; its most likely choice is the first."""
    target = 0 if right else 1
    document = {
        "question": f"Question {number}: " + "words of a question " * 15,
        "subject": f"subject_{number % SUBJECTS}",
        "choices": [f"{word} of {number}" for word in ("first", "second", "third", "fourth")],
        "answer": 0,
    }
    return {
        "model": model,
        "task": "mmlu",
        "group": f"mmlu_subject_{number % SUBJECTS}",
        "category": "other",
        "filter": "none",
        "is_headline": True,
        "doc_id": number // SUBJECTS,
        "doc_hash": f"{number:064x}",
        "prompt_hash": f"{number:064x}",
        "target_hash": f"{number:064x}",
        "metric": "acc",
        "value": float(right),
        "weight": 1.0,
        "metrics": json.dumps({"acc": float(right)}),
        "target": str(target),
        "answers": json.dumps([[each, False] for each in logprobs]),
        "document": json.dumps(document),
    }


def write_logs(folder: Path, samples: pd.DataFrame) -> None:
    """What lm-eval logs: a file a subject, a line a document, its prompt once a choice."""
    folder.mkdir(parents=True)
    for subject, rows in samples.groupby("group"):
        lines = [log_line(row) for row in rows.to_dict("records")]
        name = f"samples_{subject}_2026-01-31T12-00-00.000000.jsonl"
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def log_line(row: dict[Any, Any]) -> str:
    """One line of it."""
    document = json.loads(row["document"])
    prompt = f"The following are multiple choice questions.\n\n{document['question']}\nAnswer:"
    arguments = {f"gen_args_{i}": {"arg_0": prompt, "arg_1": f" {c}"} for i, c in enumerate("ABCD")}
    return json.dumps(
        {
            "doc_id": row["doc_id"],
            "doc": document,
            "target": row["target"],
            "arguments": arguments,
            "resps": [[[str(logprob), "False"]] for logprob, _ in json.loads(row["answers"])],
            "filter": "none",
            "doc_hash": row["doc_hash"],
            "acc": row["value"],
        }
    )


def made_result(samples: pd.DataFrame, documents: int) -> RunResult:
    """The run's result, with its scores, its comparison and its times."""
    return RunResult(
        run_id="run",
        suite="made-up",
        limit=None,
        seed=0,
        baseline="baseline",
        provenance=Provenance(
            versions={"ladder-eval": "0"},
            commit=None,
            hardware={},
            command=("ladder-eval", "run"),
            started_at="2026-01-31T12:00:00+00:00",
            seconds=1.0,
            peak_memory_bytes=(),
        ),
        models=tuple(map(made_model, RIGHT)),
        tasks=(made_task(documents),),
        scores=scores(samples),
        comparisons=comparisons("baseline", samples),
        speed=(made_speed(),),
    )


def made_task(documents: int) -> TaskRecord:
    """MMLU, as far as its name goes."""
    return TaskRecord(
        task="mmlu",
        dataset="made-up",
        split="test",
        metric="acc",
        num_fewshot=0,
        version="1",
        documents=documents,
        documents_in_split=documents,
        official_documents=documents,
        source="made-up",
        data_sha256="d",
        prompts_sha256="p",
    )


def made_model(name: str) -> ModelRecord:
    """A model that has nothing but a name."""
    return ModelRecord(
        name=name,
        residual="standard" if name == "baseline" else "ladder",
        ladder_layers=(),
        num_hidden_layers=16,
        parameters=1,
        weights="made-up",
        weights_sha256="w",
        tokenizer_sha256="t",
        fingerprint=name,
        adaptation="made-up",
        dtype="float32",
        device="cpu",
        tp_size=1,
        tp_backend="none",
        heads_per_rank=(1,),
        kv_heads_per_rank=(1,),
        weight_bytes_per_rank=(1,),
        tp_check=None,
        batch_size=1,
        prompts="as plain text",
        bos="none",
        cut_texts=0,
        truncated_requests=0,
        scored_requests=0,
        reused_requests=0,
        scored_tokens=0,
        scoring_seconds=0.0,
    )


def made_rounds() -> list[Round]:
    """Nine rounds of all arms, with a spread of a percent."""
    rng = np.random.default_rng(0)
    return [
        Round(
            number=number,
            latency=1e-4,
            prefill_blocks=(),
            decode_blocks=(),
            copied_bytes_per_second=1e9,
            trials=tuple(
                Trial(
                    arm=arm,
                    ttft=0.2 * seconds * float(np.exp(0.01 * rng.normal())),
                    itl=tuple((0.05 * seconds * np.exp(0.01 * rng.normal(size=16))).tolist()),
                    driver_seconds=0.0,
                    prefill_bound=None,
                    decode_bound=None,
                )
                for arm, seconds in SECONDS.items()
            ),
        )
        for number in range(1, 10)
    ]


def made_speed() -> SpeedRecord:
    """What the rounds say."""
    roles = ("baseline", "candidate", "bound", "control")
    arms = [
        TimedArm(name=name, role=role, residual=name)
        for name, role in zip(SECONDS, roles, strict=True)
    ]
    return SpeedRecord(
        model="made-up",
        weights="made-up",
        workload=Workload(batch_size=1, prompt_len=128, output_len=17),
        tp_size=2,
        link=LinkRecord(
            name="virtual link", mode="serial", latency=1e-4, latency_ratio=None, bandwidth=1e11
        ),
        device="cpu",
        dtype="float32",
        threads=1,
        num_hidden_layers=16,
        all_hidden_layers=16,
        vocab_size=1,
        all_vocab_size=1,
        heads_per_rank=(1, 1),
        kv_heads_per_rank=(1, 1),
        weight_bytes_per_rank=(1, 1),
        peak_memory_bytes=(1, 1),
        warm_up=1,
        rounds=9,
        rounds_asked=9,
        attention_seconds=(),
        mlp_seconds=(),
        copied_bytes_per_second=1e9,
        read_bytes_per_second=1e9,
        driver_share=0.0,
        rows=speed_rows(arms, made_rounds(), 1),
    )


if __name__ == "__main__":
    main()
