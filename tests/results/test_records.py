"""Records survive JSON, and a damaged or foreign record is one sentence."""

import json
from dataclasses import replace

import pytest

from ladder_eval.errors import RecordError
from ladder_eval.results.records import (
    SCHEMA_VERSION,
    Comparison,
    ModelRecord,
    Provenance,
    RunResult,
    Score,
    TaskRecord,
    from_json,
    to_json,
)
from ladder_eval.results.speed_records import LinkRecord, SpeedRecord, Workload


@pytest.fixture
def result():
    return RunResult(
        run_id="r1",
        suite="commonsense",
        limit=None,
        seed=0,
        baseline="dense",
        provenance=Provenance(
            versions={"ladder-eval": "0.1.0"},
            commit=None,
            hardware={"cpu": "x", "cores": 2, "ghz": 2.5, "flags": ["a", "b"]},
            command=("ladder-eval", "run"),
            started_at="2025-01-31T12:00:00+00:00",
            seconds=0.1 + 0.2,
            peak_memory_bytes=(2**40 + 1,),
        ),
        models=(
            ModelRecord(
                name="ladder",
                residual="hybrid ladder",
                ladder_layers=(2, 3),
                num_hidden_layers=4,
                parameters=10,
                weights="hub",
                weights_sha256="aa",
                tokenizer_sha256="bb",
                fingerprint="cc",
                adaptation="as trained",
                dtype="float32",
                device="cpu",
                tp_size=1,
                tp_backend="none",
                heads_per_rank=(9,),
                kv_heads_per_rank=(3,),
                weight_bytes_per_rank=(4_000_000,),
                tp_check=None,
                batch_size=8,
                bos="added",
                prompts="as plain text",
                cut_texts=0,
                truncated_requests=0,
                scored_requests=4,
                reused_requests=0,
                scored_tokens=99,
                scoring_seconds=1.5,
            ),
        ),
        tasks=(
            TaskRecord(
                task="arc",
                dataset="allenai/ai2_arc",
                split="test",
                metric="acc",
                num_fewshot=0,
                version="1",
                documents=3,
                documents_in_split=3,
                official_documents=None,
                source="hub",
                data_sha256="dd",
                prompts_sha256="ee",
            ),
        ),
        scores=(
            Score(model="ladder", task="arc", metric="acc", value=1 / 3, n=3, stderr=None),
            Score(
                model="ladder",
                task="wikitext",
                metric="word_perplexity",
                value=18.54,
                n=62,
                stderr=0.5,
                filter="strict",
                part="subject anatomy",
                low=17.5,
                high=19.5,
                method="bootstrap",
            ),
        ),
        comparisons=(
            Comparison(
                candidate="ladder",
                baseline="dense",
                task="arc",
                metric="acc",
                n=3,
                baseline_value=2 / 3,
                candidate_value=1 / 3,
                difference=-1 / 3,
                low=-0.9,
                high=0.5,
                confidence=0.95,
                gains=0,
                losses=1,
                method="exact",
                decided=False,
            ),
            Comparison(
                candidate="ladder",
                baseline="dense",
                task="wikitext",
                metric="word_perplexity",
                n=62,
                baseline_value=18.0,
                candidate_value=18.54,
                difference=0.54,
                low=1.01,
                high=1.05,
                confidence=0.95,
                gains=1,
                losses=61,
                method="bootstrap",
                decided=True,
                ratio=1.03,
            ),
        ),
        average_tasks=("arc", "ifeval"),
        pending_tasks=("ifeval",),
        warnings=("“quoted”",),
    )


def test_round_trip_keeps_every_value_and_type(result):
    again = from_json(to_json(result))
    assert again == result
    assert again.schema_version == SCHEMA_VERSION
    assert again.models[0].ladder_layers == (2, 3)
    assert type(again.provenance.hardware["cores"]) is int
    assert type(again.provenance.hardware["ghz"]) is float
    assert again.provenance.hardware["flags"] == ["a", "b"]
    assert again.scores[0].value.hex() == (1 / 3).hex()


def change(result, path, value):
    """The JSON of a result with one value replaced, added, or (by ...) removed."""
    data = json.loads(to_json(result))
    *parents, last = path
    target = data
    for step in parents:
        target = target[step]
    if value is ...:
        del target[last]
    else:
        target[last] = value
    return json.dumps(data)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["schema_version"], 8, "schema version 8, but this ladder-eval reads 7; use"),
        (["schema_version"], 3, "schema version 3, but this ladder-eval reads 7; use"),
        (["schema_version"], True, "schema version True"),
        (["schema_version"], ..., "no schema_version"),
        (["seed"], ..., "result lacks seed"),
        (["colour"], 1, "result has the unknown colour"),
        (["seed"], "0", r"result.seed should be int, but is '0'"),
        (["seed"], True, r"result.seed should be int, but is True"),
        (["limit"], 1.5, r"result.limit should be int or null, but is 1.5"),
        (["models"], {}, r"result.models should be tuple"),
        (["models", 0, "ladder_layers"], [1, "2"], r"result.models\[0\].ladder_layers\[1\]"),
        (["scores", 0, "n"], None, r"result.scores\[0\].n should be int"),
        (["provenance", "versions"], {"a": 1}, r"result.provenance.versions.a should be str"),
        (["provenance", "seconds"], 10**400, "result.provenance.seconds should be float"),
        (["seed"], 2**63, "result.seed should be int, but is 9223372036854775808"),
        (["suite"], "\ud800", "surrogates not allowed"),
        (["provenance", "hardware"], {"\udfff": 1}, "surrogates not allowed"),
        (["x" * 10**5], 1, "result has the unknown x{300}…; restore"),
        (["provenance", "started_at"], "yesterday", "started_at='yesterday' isn't a time"),
        (["provenance", "started_at"], "2025-01-31T12:00:00", "offset from UTC"),
    ],
)
def test_other_fields_are_refused_in_one_sentence(result, path, value, message):
    with pytest.raises(RecordError, match=message):
        from_json(change(result, path, value))


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "[]", "3"])
def test_no_json_and_no_result_are_refused(text):
    with pytest.raises(RecordError):
        from_json(text)


def test_whole_number_may_stand_for_a_float(result):
    again = from_json(change(result, ["provenance", "seconds"], 3))
    assert type(again.provenance.seconds) is float


def test_nan_is_refused(result):
    bad = replace(result, scores=(replace(result.scores[0], value=float("nan")),))
    with pytest.raises(RecordError, match="NaN"):
        to_json(bad)


def test_version_4_had_no_emulated_speed(result):
    record = SpeedRecord(
        model="m",
        weights="random",
        workload=Workload(batch_size=1, prompt_len=2, output_len=3),
        tp_size=2,
        link=LinkRecord(name="gloo", mode=None, latency=None, latency_ratio=None, bandwidth=None),
        device="cpu",
        dtype="float32",
        threads=1,
        num_hidden_layers=4,
        all_hidden_layers=4,
        vocab_size=8,
        all_vocab_size=8,
        heads_per_rank=(1, 1),
        kv_heads_per_rank=(1, 1),
        weight_bytes_per_rank=(1, 1),
        peak_memory_bytes=(1, 1),
        warm_up=1,
        rounds=1,
        rounds_asked=1,
        attention_seconds=(),
        mlp_seconds=(),
        copied_bytes_per_second=1.0,
        read_bytes_per_second=None,
        driver_share=0.0,
        rows=(),
    )
    data = json.loads(to_json(replace(result, speed=(record,))))
    data["schema_version"] = 4
    for name in ("kind", "emulation"):
        del data["speed"][0][name]
    old = from_json(json.dumps(data))
    assert (old.schema_version, old.speed) == (4, (record,))
    assert (record.kind, record.emulation) == ("measured", None)


def test_a_result_from_before_there_were_replicas_has_one(result):
    data = json.loads(to_json(result))
    data["schema_version"] = 5
    del data["models"][0]["dp_size"]
    (model,) = from_json(json.dumps(data)).models
    assert model.dp_size == 1


def test_a_result_from_before_batches_were_recorded_does_not_know_their_tokens(result):
    data = json.loads(to_json(result))
    data["schema_version"] = 6
    del data["models"][0]["batch_tokens"]
    (model,) = from_json(json.dumps(data)).models
    assert model.batch_tokens == ()
