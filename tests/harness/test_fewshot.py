"""Few-shot examples: each document's own, or those of lm-eval's tasks, prompt by prompt."""

import collections
import itertools
from pathlib import Path
from random import Random

import lm_eval
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset
from lm_eval.api.task import ConfigurableTask
from lm_eval.tasks._yaml_loader import load_yaml

from ladder_eval.errors import DataError
from ladder_eval.harness.catalogue import DataSources
from ladder_eval.harness.data.resources import PUNKT_TAB, at_hand
from ladder_eval.harness.evaluation import estimate_tokens, prepare, run_suite
from ladder_eval.harness.fewshot import PerDocumentSampler, shuffled
from ladder_eval.harness.samples import prompt_hash
from ladder_eval.harness.suites import Suite, load_suite

STOCK = Path(lm_eval.__file__).parent / "tasks"
WORDS = ["stone", "river", "cloud", "lamp", "wheel", "paper", "garden", "bridge", "window"]


def arc(count, kind):
    return [
        {
            "id": f"{kind}{i}",
            "question": f"Which {WORDS[i % 9]} of the {kind} is number {i}?",
            "choices": {
                "text": [f"{WORDS[(i + k) % 9]} {k * i}" for k in range(4)],
                "label": list("ABCD"),
            },
            "answerKey": "ABCD"[i % 4],
        }
        for i in range(count)
    ]


def hellaswag(count, kind):
    return [
        {
            "activity_label": f"{kind} {i}",
            "ctx_a": f"A {WORDS[i % 9]} stands there.",
            "ctx_b": "someone",
            "endings": [f"takes {k} of {i}." for k in range(4)],
            "label": str(i % 4),
        }
        for i in range(count)
    ]


def winogrande(count, kind):
    return [
        {
            "sentence": f"In the {kind}, stone {i} hit the lamp because the _ was loose.",
            "option1": "stone",
            "option2": "lamp",
            "answer": str(1 + i % 2),
        }
        for i in range(count)
    ]


def gsm8k(count, kind):
    return [
        {"question": f"{kind} {i} and {i}?", "answer": f"It is\n#### {2 * i}"} for i in range(count)
    ]


def mmlu(count, kind):
    return [
        {
            "question": f"{kind} {i}?",
            "choices": [f"{word} {i}" for word in WORDS[:4]],
            "answer": i % 4,
        }
        for i in range(count)
    ]


def truthful(count, kind):
    targets = {"choices": ["yes", "no", "maybe"], "labels": [1, 0, 0]}
    return [
        {"question": f"{kind} {i}?", "mc1_targets": targets, "mc2_targets": targets}
        for i in range(count)
    ]


def ifeval(count, kind):
    row = {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{"n": None}]}
    return [{"key": i, "prompt": f"{kind}: write {i} words.", **row} for i in range(count)]


def wikitext(count, kind):
    return [{"page": f" = {kind} {i} = \n Some text , of {i} words . \n"} for i in range(count)]


SPLITS = {
    "ai2_arc/ARC-Challenge": (arc, "train", "test"),
    "hellaswag/default": (hellaswag, "train", "validation"),
    "winogrande/winogrande_xl": (winogrande, "train", "validation"),
    "gsm8k/main": (gsm8k, "train", "test"),
    "truthful_qa/multiple_choice": (truthful, "validation"),
    "IFEval/default": (ifeval, "train"),
    "wikitext_document_level/wikitext-2-raw-v1": (wikitext, "test"),
    "openbookqa/main": (None, "train", "test"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """40 rows of each split that the tasks below read."""
    root = tmp_path_factory.mktemp("fewshot")
    for place, (make, *splits) in SPLITS.items():
        for split in splits if make else ():
            write(root / place / f"{split}.parquet", make(40, split))
    for part in task_of("paper-adapted", "mmlu").tasks[0].parts:
        for split in ("dev", "test"):
            write(root / "mmlu" / part.evaluated.config / f"{split}.parquet", mmlu(6, split))
    return root


def write(file, rows):
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), file)


def task_of(suite, name):
    return Suite(name="one", tasks=tuple(t for t in load_suite(suite).tasks if t.name == name))


def prepared(suite, name, folder, *, limit=None, seed=0, fewshot="per-document"):
    sources = DataSources(data_dir=folder, notify=print)
    (task,) = prepare(
        task_of(suite, name), limit=limit, seed=seed, sources=sources, fewshot=fewshot
    )
    return task


def requests(lm_task):
    """What is asked about each document, by its row."""
    grouped = itertools.groupby(lm_task.instances, key=lambda instance: instance.doc_id)
    return [[instance.args for instance in group] for _, group in grouped]


def built(task, part, rows=None):
    lm_task = task.lm_tasks[part]
    lm_task.restart()
    lm_task.build_all_requests(samples=rows or task.chosen[part])
    return requests(lm_task)


def stock(file, shots, folder, place, limit):
    """lm-eval's own task on the same rows, as its evaluator runs it."""
    config = load_yaml(STOCK / f"{file}.yaml")
    config.pop("dataset_kwargs", None)
    rows = {each.stem: Dataset(pq.read_table(each)) for each in (folder / place).glob("*.parquet")}
    for name in ("training_split", "validation_split"):  # made only where an example needs it
        if config.get(name) not in rows:
            config[name] = None
    own = {"custom_dataset": lambda **_: rows, "num_fewshot": config.get("num_fewshot", shots)}
    task = ConfigurableTask(config={**config, **own})
    task.set_fewshot_seed(1234)
    task.build_all_requests(limit=limit)
    return requests(task)


@pytest.mark.parametrize("limit", [None, 7])
@pytest.mark.parametrize(
    ("suite", "name", "file", "place"),
    [
        ("paper-adapted", "arc_challenge", "arc/arc_challenge", "ai2_arc/ARC-Challenge"),
        ("paper-adapted", "hellaswag", "hellaswag/hellaswag", "hellaswag/default"),
        ("open-llm-leaderboard-v1", "winogrande", "winogrande/default", "winogrande/winogrande_xl"),
        ("open-llm-leaderboard-v1", "gsm8k", "gsm8k/gsm8k", "gsm8k/main"),
        ("paper-adapted", "gsm8k_cot", "gsm8k/gsm8k-cot", "gsm8k/main"),
        ("llama-3.1", "gsm8k_llama", "llama3/instruct/gsm8k/gsm8k", "gsm8k/main"),
        ("paper-adapted", "mmlu", "mmlu/default/mmlu_anatomy", "mmlu/anatomy"),
        ("llama-3.1", "mmlu_llama", "llama3/instruct/mmlu/mmlu_anatomy", "mmlu/anatomy"),
        (
            "llama-3.1",
            "arc_challenge_llama",
            "llama3/instruct/arc_challenge/arc_challenge_llama",
            "ai2_arc/ARC-Challenge",
        ),
        (
            "paper-adapted",
            "truthfulqa_mc1",
            "truthfulqa/truthfulqa_mc1",
            "truthful_qa/multiple_choice",
        ),
        ("paper-adapted", "ifeval", "ifeval/ifeval", "IFEval/default"),
        (
            "paper-pretrained",
            "wikitext",
            "wikitext/wikitext",
            "wikitext_document_level/wikitext-2-raw-v1",
        ),
    ],
)
def test_stock_prompts_are_lm_evals_own(suite, name, file, place, limit, folder):
    if name == "ifeval":
        pytest.importorskip("immutabledict")
        if at_hand(PUNKT_TAB, DataSources(notify=print)) is None:
            pytest.skip("nltk's punkt_tab isn't here; `ladder-eval data fetch` gets it")
    task = prepared(suite, name, folder, limit=limit, fewshot="stock")
    part = f"{name}_anatomy" if "mmlu" in name else name
    estimate_tokens([task])  # which takes from the sequence
    theirs = stock(file, task.task.num_fewshot, folder, place, limit)
    assert [prompt_hash(each) for each in built(task, part)] == [
        prompt_hash(each) for each in theirs
    ]
    assert len(theirs) == min(limit or 40, 6 if "mmlu" in name else 40)


@pytest.mark.parametrize(
    ("suite", "name"),
    [
        ("paper-adapted", "arc_challenge"),
        ("paper-adapted", "hellaswag"),
        ("open-llm-leaderboard-v1", "winogrande"),
        ("open-llm-leaderboard-v1", "gsm8k"),
    ],
)
def test_examples_do_not_depend_on_the_other_documents(suite, name, folder):
    whole, again = prepared(suite, name, folder), prepared(suite, name, folder, limit=9)
    everything = dict(enumerate(built(whole, name)))
    rows = again.chosen[name]
    assert len(rows) == 9
    assert built(again, name) == [everything[row] for row in rows]
    assert built(whole, name, [31]) == [everything[31]]
    other = built(prepared(suite, name, folder, seed=1), name)
    assert sum(a == b for a, b in zip(other, everything.values(), strict=True)) < 4
    sequence = built(prepared(suite, name, folder, fewshot="stock"), name)
    assert sum(a == b for a, b in zip(sequence, everything.values(), strict=True)) < 4


def test_each_model_gets_the_same_stock_sequence(folder, make_lm):
    task = prepared("open-llm-leaderboard-v1", "winogrande", folder, limit=4, fewshot="stock")
    first, second = (run_suite(make_lm(answers=name), [task])["samples"] for name in "ab")
    asked = [[each["arguments"] for each in found["winogrande"]] for found in (first, second)]
    assert asked[0] == asked[1]


def test_fixed_examples_stay(folder):
    ours = prepared("paper-adapted", "mmlu", folder)
    theirs = prepared("paper-adapted", "mmlu", folder, fewshot="stock")
    assert built(ours, "mmlu_anatomy") == built(theirs, "mmlu_anatomy")
    context = built(ours, "mmlu_anatomy")[0][0][0]
    assert [f"dev {i}?" in context for i in range(6)] == [True] * 5 + [False]


def test_stock_limit_takes_the_first_documents_of_each_subject(folder):
    task = prepared("paper-adapted", "mmlu", folder, limit=2, fewshot="stock")
    assert len(task.chosen) == 57
    assert set(map(tuple, task.chosen.values())) == {(0, 1)}


def test_a_document_is_never_its_own_example(tmp_path):
    """Also where examples come from the evaluated split, and where it holds a row twice."""
    rows = arc(6, "validation")
    rows += [{**rows[0], "id": "again"}, {**rows[1], "id": "again, too"}]
    write(tmp_path / "openbookqa" / "main" / "validation.parquet", list(map(as_openbookqa, rows)))
    task = prepared("smoke", "openbookqa", tmp_path)
    seen = collections.Counter()
    for row, asked in zip(rows, built(task, "openbookqa"), strict=True):
        context = asked[0][0]
        assert context.endswith(row["question"])
        assert context.count(row["question"]) == 1
        seen.update(each["question"] for each in rows if each["question"] in context)
    assert set(seen) == {row["question"] for row in rows}


def as_openbookqa(row):
    return {
        "id": row["id"],
        "question_stem": row["question"],
        "choices": row["choices"],
        "answerKey": row["answerKey"],
    }


def test_examples_count_as_data(folder, tmp_path):
    before = prepared("paper-adapted", "arc_challenge", folder).data_sha256
    for split in ("train", "test"):
        write(tmp_path / "ai2_arc" / "ARC-Challenge" / f"{split}.parquet", arc(40, split))
    assert prepared("paper-adapted", "arc_challenge", tmp_path).data_sha256 == before
    write(tmp_path / "ai2_arc" / "ARC-Challenge" / "train.parquet", arc(41, "train"))
    assert prepared("paper-adapted", "arc_challenge", tmp_path).data_sha256 != before
    assert prepared("paper-pretrained", "arc_challenge", tmp_path).data_sha256 == (
        prepared("paper-pretrained", "arc_challenge", folder).data_sha256
    )


def test_rows_that_a_task_leaves_out_are_not_chosen(folder, tmp_path):
    rows = arc(12, "test")
    for row in rows[::3]:
        row["choices"] = {"text": ["a", "b", "c"], "label": list("ABC")}
    write(tmp_path / "ai2_arc" / "ARC-Challenge" / "test.parquet", rows)
    task = prepared("llama-3.1", "arc_challenge_llama", tmp_path)
    assert (task.documents_in_split, task.official_documents) == (8, 1172 - 4)
    assert task.chosen == {"arc_challenge_llama": list(range(8))}


@pytest.mark.parametrize(("count", "fewshot"), [(24, "per-document"), (24, "stock")])
def test_too_few_examples_are_a_sentence(tmp_path, count, fewshot):
    write(tmp_path / "ai2_arc" / "ARC-Challenge" / "train.parquet", arc(count, "train"))
    write(tmp_path / "ai2_arc" / "ARC-Challenge" / "test.parquet", arc(3, "test"))
    with pytest.raises(DataError, match=r"asks with 25 examples, for which .* has 24; give"):
        prepared("paper-adapted", "arc_challenge", tmp_path, fewshot=fewshot)


def test_sampler_refuses_what_asks_the_same():
    pool = [{"q": "a"}, {"q": "b"}, {"q": "a", "id": 1}, {"q": "c"}]
    sampler = PerDocumentSampler(pool, seed=0, question=lambda row: row["q"])
    sampler.document = {"q": "a", "id": 2}
    assert sorted(row["q"] for row in sampler.sample(2)) == ["b", "c"]
    with pytest.raises(DataError, match="There are 2 examples to draw from; 3 are needed"):
        sampler.sample(3)


def test_draws_are_even():
    pool = [{"q": i} for i in range(10)]
    sampler = PerDocumentSampler(pool, seed=0, question=lambda row: row["q"])
    counts = collections.Counter()
    for document in range(1000):
        sampler.document = {"q": f"document {document}"}
        counts.update((place, row["q"]) for place, row in enumerate(sampler.sample(3)))
    # Binomial: 1000 draws with probability 1/10 have a standard deviation of 9.5.
    assert min(counts.values()) > 60
    assert max(counts.values()) < 140
    assert len(counts) == 30


def test_shuffle_has_every_row_once():
    assert sorted(shuffled(50, Random(1))) == list(range(50))
    assert list(shuffled(50, Random(1))) != list(range(50))
    assert list(shuffled(0, Random(1))) == []
