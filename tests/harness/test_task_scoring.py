"""Hand-made answers through lm-eval's own tasks to the scores that a run records."""

import json
import math
import re
import shutil
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lm_eval.api.metrics import bits_per_byte, weighted_perplexity
from lm_eval.api.model import LM

import ladder_eval
from ladder_eval.engine.generation import Generated
from ladder_eval.errors import UsageError
from ladder_eval.harness import suites
from ladder_eval.harness.catalogue import DataSources
from ladder_eval.harness.evaluation import prepare, run_suite
from ladder_eval.harness.samples import headline_filter, sample_rows
from ladder_eval.harness.suites import suite_of
from ladder_eval.results.store import SAMPLE_COLUMNS, RunFolder, read_samples
from ladder_eval.results.summary import comparisons, scores

FUNCTIONS = Path(ladder_eval.__file__).parents[1] / "tasks" / "functions.py"
NUMBERS = """
include: lm_eval/tasks/gsm8k/gsm8k.yaml
task: gsm8k
training_split: null
num_fewshot: 0
process_results: !function functions.gsm8k_results
metric_list:
  - {metric: exact_match, aggregation: mean, higher_is_better: true}
  - {metric: numeric_match, aggregation: mean, higher_is_better: true}
"""
WIKITEXT = """
include: lm_eval/tasks/wikitext/wikitext.yaml
task: wikitext
training_split: null
validation_split: null
"""
WINOGRANDE = """
include: lm_eval/tasks/winogrande/default.yaml
task: winogrande
training_split: null
"""
SUBJECTS = """
group: mmlu
task: lm_eval/tasks/mmlu/default/mmlu_a*.yaml
aggregate_metric_list: [{metric: acc, weight_by_size: true}]
metadata: {version: 2}
"""
STOCK = {"mmlu": SUBJECTS, "gsm8k": NUMBERS, "wikitext": WIKITEXT, "winogrande": WINOGRANDE}
SIZES = {"abstract_algebra": 2, "anatomy": 5, "astronomy": 3}
ROWS = {
    f"mmlu/{subject}/test": [
        {
            "question": f"{subject} {row}?",
            "subject": subject,
            "choices": ["one", "two", "three", "four"],
            "answer": row % 4,
        }
        for row in range(size)
    ]
    for subject, size in SIZES.items()
} | {
    "gsm8k/main/test": [
        {"question": f"What is {i} and {i}?", "answer": f"It is {2 * i}.\n#### {2 * i}"}
        for i in (2, 500, 7, 9)
    ],
    "wikitext_document_level/wikitext-2-raw-v1/test": [
        {"page": " = Rain = \n It rains @,@ often . \n"},
        {"page": " = Gräser = \n They grow .\n"},
        {"page": " = Wind = \n The wind blows from the north , and it is cold . \n"},
    ],
    "winogrande/winogrande_xl/validation": [
        {
            "sentence": f"The stone {i} fell on the lamp because the _ was loose.",
            "option1": "stone",
            "option2": "lamp",
            "answer": answer,
        }
        for i, answer in enumerate("12122")
    ],
}


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """Tasks that include lm-eval's, with the scoring rules beside them, and made-up rows."""
    folder = tmp_path / "tasks"
    folder.mkdir()
    shutil.copy(FUNCTIONS, folder)
    for name, text in STOCK.items():
        (folder / f"{name}.yaml").write_text(text)
    monkeypatch.setattr(suites, "_folder", lambda: folder)
    for place, rows in ROWS.items():
        file = tmp_path / "data" / f"{place}.parquet"
        file.parent.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows), file)
    return DataSources(data_dir=tmp_path / "data", notify=print)


def evaluated(lm, name, sources):
    """The samples of a task, after a trip through the disk, and lm-eval's own results."""
    (task,) = prepare(suite_of([name]), limit=None, seed=0, sources=sources)
    result = run_suite(lm, [task])
    rows = pd.DataFrame(sample_rows("m", [task], result), columns=list(SAMPLE_COLUMNS))
    with RunFolder.open(sources.data_dir / "run") as run:
        run.write_samples(rows)
    return read_samples(sources.data_dir / "run"), result["results"][name]


class Scripted:
    """Computes nothing, and writes a given text after each question, up to where it is stopped."""

    def __init__(self, tokenizer, texts):
        self.tokenizer, self.texts = tokenizer, texts

    def generate(self, requests, stops, *, batch_size):
        for index, each in enumerate(zip(requests, stops, strict=True)):
            yield index, self._write(*each)

    def _write(self, request, is_over):
        asked = self.tokenizer.decode(request.prompt)
        (text,) = [text for question, text in self.texts.items() if question in asked]
        written = []
        for token in self.tokenizer.encode(text, add_special_tokens=False):
            written.append(token)
            if is_over(written):
                return Generated(tuple(written), "stop")
        return Generated(tuple(written), "eos")


@pytest.fixture
def writes(make_lm):
    """A model that writes given texts, by what their questions contain."""

    def make(texts, **settings):
        lm = make_lm(load=lambda: Scripted(lm.tokenizer, texts), **settings)
        return lm

    return make


ANSWERS = {
    "2 and 2": " It is 4.\n#### 4",
    "500 and 500": " So $1,000.00 it is",  # not in the strict form, and with cents
    "7 and 7": " -14 no, 13.\n#### 13",
    "9 and 9": " #### -18\n\nQuestion: and 18?",  # a stop string before the right number
}


def test_both_filters_count_each_document_once(sources, writes):
    samples, stock = evaluated(writes(ANSWERS), "gsm8k", sources)
    assert len(samples) == 8
    found = {(s.filter, s.metric): s for s in scores(samples)}
    assert {key: (s.value, s.n) for key, s in found.items()} == {
        ("strict-match", "exact_match"): (1 / 4, 4),
        ("strict-match", "numeric_match"): (1 / 4, 4),
        ("flexible-extract", "exact_match"): (1 / 4, 4),
        ("flexible-extract", "numeric_match"): (2 / 4, 4),
    }
    for (kind, metric), score in found.items():
        assert stock[f"{metric},{kind}"] == score.value
    assert stock["sample_len"] == 4
    headline = samples[samples["is_headline"]]
    assert headline["filter"].unique().tolist() == ["strict-match"]
    assert headline["value"].sum() == 1.0


def test_a_suite_chooses_another_filter(sources, writes):
    (task,) = prepare(suite_of(["gsm8k"]), limit=None, seed=0, sources=sources)
    result = run_suite(writes(ANSWERS), [task])

    class Chosen:
        name, parts, filter = task.task.name, task.task.parts, "flexible-extract"

    assert headline_filter(Chosen(), result) == "flexible-extract"
    Chosen.filter = "strict"
    with pytest.raises(UsageError, match="its filters are strict-match, flexible-extract"):
        headline_filter(Chosen(), result)


THOUGHTS = (
    " I guess #### 5. Question: is it? No.\n\nQuestion: again</think>\n\nIt is 4.\n#### 4\n"
    "Question: and 5? #### 5"
)


@pytest.mark.parametrize(("think_end", "right"), [("</think>", 1.0), ("", 0.0)])
def test_a_thought_holds_no_answer_and_no_stop(sources, writes, think_end, right):
    """It contains a wrong number and a stop string, of which neither may count."""
    texts = dict.fromkeys(ANSWERS, THOUGHTS)
    lm = writes(texts, think_end_token=think_end)
    samples, _ = evaluated(lm, "gsm8k", sources)
    first = samples[samples["doc_id"] == 0]
    assert first["value"].tolist() == [right, right]
    answers = [json.loads(text)[0] for text in first["answers"]]
    assert answers == (["4", "4"] if think_end else ["5.", "5."])


class Prefers(LM):
    """Gives the log-likelihood that a rule says."""

    def __init__(self, rule):
        super().__init__()
        self.rule = rule

    def loglikelihood(self, requests):
        return [(self.rule(*request.args), False) for request in requests]

    def loglikelihood_rolling(self, requests):
        return [self.rule(*request.args) for request in requests]

    def generate_until(self, requests):
        raise NotImplementedError


def test_winogrande_is_judged_on_what_follows_the_option(sources):
    """Both options are followed by the same words: that after "lamp" is the likelier here."""
    asked = []

    def rule(context, continuation):
        asked.append((context, continuation))
        return -1.0 if context.endswith("lamp") else -2.0

    samples, _ = evaluated(Prefers(rule), "winogrande", sources)
    assert samples["value"].tolist() == [0, 1, 0, 1, 1]
    (score,) = scores(samples)
    assert (score.metric, score.value, score.n) == ("acc", 3 / 5, 5)
    assert asked[:2] == [
        ("The stone 0 fell on the lamp because the stone", " was loose."),
        ("The stone 0 fell on the lamp because the lamp", " was loose."),
    ]


def test_subjects_and_their_means(sources):
    """A model that says B: right in row 1 of each subject alone; 1/2, 1/5 and 1/3 of them."""
    samples, stock = evaluated(
        Prefers(lambda _, answer: 0.0 if answer == " B" else -1.0), "mmlu", sources
    )
    found = {score.part: score for score in scores(samples)}
    stem = [found.pop(part) for part in list(found) if part.startswith("category")]
    assert all((each.value, each.n) == (found[""].value, 10) for each in stem)
    assert {part: (score.value, score.n) for part, score in found.items()} == {
        "": (pytest.approx(3 / 10), 10),
        "macro": (pytest.approx((1 / 2 + 1 / 5 + 1 / 3) / 3), 10),
        "subject abstract_algebra": (1 / 2, 2),
        "subject anatomy": (1 / 5, 5),
        "subject astronomy": (pytest.approx(1 / 3), 3),
    }
    assert stock["acc,none"] == pytest.approx(found[""].value)
    assert samples["group"].nunique() == 3


def rate(text):
    """A log-likelihood that depends on the text alone."""
    return -0.5 * len(text) - len(text) ** 0.5


def test_wikitext_is_over_all_words_and_bytes(sources):
    samples, stock = evaluated(Prefers(rate), "wikitext", sources)
    pages = [row["page"] for row in ROWS["wikitext_document_level/wikitext-2-raw-v1/test"]]
    words = [len(re.split(r"\s+", page)) for page in pages]
    sizes = [len(page.encode()) for page in pages]
    assert samples["weight"].tolist() == words
    logprobs = [json.loads(text)["word_perplexity"][0] for text in samples["metrics"]]
    assert json.loads(samples["metrics"][0]).keys() == {
        "word_perplexity",
        "byte_perplexity",
        "bits_per_byte",
    }
    found = {score.metric: score for score in scores(samples)}
    assert found["word_perplexity"].value == pytest.approx(math.exp(-sum(logprobs) / sum(words)))
    pairs = list(zip(logprobs, sizes, strict=True))
    assert found["byte_perplexity"].value == pytest.approx(weighted_perplexity(pairs))
    assert found["bits_per_byte"].value == pytest.approx(bits_per_byte(pairs))
    for metric, score in found.items():
        assert stock[f"{metric},none"] == pytest.approx(score.value, rel=1e-12)
        assert (score.n, score.low < score.value < score.high) == (3, True)


def test_wikitext_is_compared_by_its_ratio(sources):
    one, _ = evaluated(Prefers(rate), "wikitext", sources)
    other, _ = evaluated(Prefers(lambda text: 1.01 * rate(text) + 0.1), "wikitext", sources)
    both = pd.concat([one, other.assign(model="c")], ignore_index=True)
    (found,) = comparisons("m", both)
    values = {s.model: s.value for s in scores(both) if s.metric == "word_perplexity"}
    assert found.ratio == pytest.approx(values["c"] / values["m"])
    assert (found.metric, found.gains, found.losses) == ("word_perplexity", 0, 3)


@pytest.mark.parametrize(
    ("size", "windows"),
    [
        (1, [("^", "a")]),
        (7, [("^", "abcdefg")]),
        (8, [("^", "abcdefgh")]),
        (9, [("^", "abcdefgh"), ("abcdefgh", "i")]),
        (11, [("^", "abcdefgh"), ("cdefgh", "ijk")]),
        (16, [("^", "abcdefgh"), ("h", "ijklmnop")]),
        (17, [("^", "abcdefgh"), ("h", "ijklmnop"), ("ijklmnop", "q")]),
    ],
)
def test_windows_of_a_whole_text_by_hand(make_lm, size, windows):
    """Eight tokens are read at once: a last window reads back as far as it has room.

    ^ is the prefix token. Window and continuation are context + continuation - 1 <= 8 inputs.
    """
    lm = make_lm(max_length=8)
    found = lm._windows("abcdefghijklmnopq"[:size])
    shown = [
        tuple(
            lm.tokenizer.decode(ids).replace("<s>", "^")
            for ids in (each.context, each.continuation)
        )
        for each in found
    ]
    assert shown == windows
