"""What is fuzzed: each kind of file, how it may be spoiled, and what reads it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import fuzz_checkpoints as checkpoints
import fuzz_mutations as mutations
import fuzz_packed as packed
import fuzz_records as records


@dataclass(frozen=True, slots=True)
class Target:
    """A kind of file.

    Attributes:
        name: What the table calls it.
        file: Its place in a folder, a glob pattern.
        make: Writes the folder, healthy.
        read: Reads the folder as the product does.
        mutations: What may happen to the file; one is drawn.
    """

    name: str
    file: str
    make: Callable[[Path], None]
    read: Callable[[Path], None]
    mutations: tuple[mutations.Mutation, ...]


def _gguf(folder: Path) -> None:
    checkpoints.read_checkpoint(folder / "model.gguf")


_JSON, _LINES = mutations.JSON, mutations.json_lines()
_SEALED = mutations.sealed_lines()
_FOLDER = (checkpoints.make_checkpoint, checkpoints.read_checkpoint)
_SHARDS = (checkpoints.make_shards, checkpoints.read_checkpoint)
_RUNS = "runs/ladder/"

TARGETS = (
    Target("GGUF", "model.gguf", checkpoints.make_gguf, _gguf, packed.GGUF),
    Target("safetensors", "model.safetensors", *_FOLDER, packed.SAFETENSORS),
    Target("safetensors shard", "model-00002*", *_SHARDS, packed.SAFETENSORS),
    Target("safetensors index", "*.index.json", *_SHARDS, _JSON),
    Target("config.json", "config.json", *_FOLDER, _JSON),
    Target("generation_config.json", "generation_config.json", *_FOLDER, _JSON),
    Target("tokenizer.json", "tokenizer.json", *_FOLDER, _JSON),
    Target("tokenizer_config.json", "tokenizer_config.json", *_FOLDER, _JSON),
    *(
        Target(f"data, {name}", file, make, records.read_data, kinds)
        for name, file, make, kinds in (
            ("Parquet", "test.parquet", records.make_parquet, packed.PARQUET),
            ("JSON lines", "test.jsonl", records.make_lines, _LINES),
            ("gzip", "test.jsonl.gz", records.make_packed_lines, packed.gzipped(_LINES)),
            ("Arrow", "test/data*.arrow", records.make_saved, mutations.BYTES),
            ("Arrow's dataset_info.json", "test/dataset_info.json", records.make_saved, _JSON),
            ("Arrow's state.json", "test/state.json", records.make_saved, _JSON),
        )
    ),
    Target(
        "evalplus' release",
        "release.jsonl.gz",
        records.make_release,
        records.read_release,
        packed.gzipped(_LINES),
    ),
    Target("programs", "samples.jsonl", records.make_release, records.read_release, _LINES),
    Target("wheel", "data.whl", records.make_wheel, records.read_wheel, packed.ARCHIVES),
    *(
        Target(name, file, records.make_outputs, records.read_judged, kinds)
        for name, file, kinds in (
            ("outputs, JSON", "outputs.json", _JSON),
            ("outputs, Parquet", "outputs.parquet", packed.PARQUET),
            ("annotations", "annotations.json", _JSON),
            ("gamed baselines", "gamed.csv", mutations.CSV),
        )
    ),
    Target("a judge's answer", "response.json", records.make_outputs, records.read_response, _JSON),
    Target(
        "lm-eval's results", "results_*.json", records.make_imported, records.read_imported, _JSON
    ),
    Target(
        "lm-eval's samples",
        "samples_arc_easy*",
        records.make_imported,
        records.read_imported,
        _LINES,
    ),
    Target("results.json", f"{_RUNS}results.json", records.make_runs, records.read_run, _JSON),
    Target(
        "samples.parquet",
        f"{_RUNS}samples.parquet",
        records.make_runs,
        records.read_compared,
        packed.PARQUET,
    ),
    Target("rounds.jsonl", f"{_RUNS}rounds.jsonl", records.make_runs, records.read_rounds, _SEALED),
    *(
        Target(name, file, records.make_runs, records.read_logs_of_run, kinds)
        for name, file, kinds in (
            ("batches", f"{_RUNS}batches/ladder.jsonl", _SEALED),
            ("answers", f"{_RUNS}requests/ladder.jsonl", _SEALED),
            ("looks", "runs/claims.jsonl", _SEALED),
            ("a task that waits", f"{_RUNS}judge/arc_easy/task.json", _JSON),
            ("outputs that wait", f"{_RUNS}judge/arc_easy/ladder/outputs.json", _JSON),
        )
    ),
    *(
        Target(name, file, records.make_settings, records.read_settings, kinds)
        for name, file, kinds in (
            ("models file", "models.yaml", mutations.YAML),
            ("options file", "options.yaml", mutations.YAML),
            ("timing log", "timings.csv", mutations.CSV),
            ("measured machine", "machine.json", _JSON),
        )
    ),
)
