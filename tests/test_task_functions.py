"""The scoring rules that task files name, beside lm-eval's own and by hand."""

import math
import random
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import lm_eval
import numpy as np
import pytest
from lm_eval.tasks._yaml_loader import load_yaml

import ladder_eval
from ladder_eval.errors import DataError

TASKS = Path(ladder_eval.__file__).parents[1] / "tasks"
YAML = """
gsm8k: !function functions.gsm8k_results
mc2: !function functions.truthfulqa_mc2_results
ifeval: !function functions.ifeval_results
instructions: !function functions.ifeval_instruction_accuracy
number: !function functions.number
"""


@pytest.fixture(scope="module", params=["checkout", "wheel"])
def functions(request, tmp_path_factory):
    """What lm-eval's loader finds from a task file beside the module, wherever both are."""
    root = tmp_path_factory.mktemp(request.param)
    folder = root / ("tasks" if request.param == "checkout" else "ladder_eval/tasks")
    folder.mkdir(parents=True)
    shutil.copy(TASKS / "functions.py", folder)
    (folder / "task.yaml").write_text(YAML)
    return load_yaml(folder / "task.yaml", recursive=False)


@pytest.mark.parametrize(
    "text",
    ["29", "29.00", "$29", "29.", " 29 ", "29,", "+29", "29.0.", "$29.00", "2.9e1", "58/2", "029"],
)
def test_ways_to_write_a_number(functions, text):
    assert functions["number"](text) == 29


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,000", 1000),
        ("1000", 1000),
        ("$1,234,567.50", Fraction(2469135, 2)),
        ("-5", -5),
        ("-$5", -5),
        ("$-5", -5),
        ("−5", -5),
        (".5", Fraction(1, 2)),
        ("1/2", Fraction(1, 2)),
        ("1.5e3", 1500),
        ("1E-2", Fraction(1, 100)),
        ("0.1", Fraction(1, 10)),
    ],
)
def test_numbers_are_exact(functions, text, value):
    assert functions["number"](text) == value


UNITS = ["29 eggs", "50%", "[invalid]", "inf", "nan", "٣"]
LISTS = ["2,3", "1,00", "10,0000", "1 1/2", "1.2.3"]
BROKEN = ["", "$", ".", "-", "5-", "--5", "1/0", "1e999", "9" * 5000]


@pytest.mark.parametrize("text", [*UNITS, *LISTS, *BROKEN], ids=lambda text: text[:9])
def test_what_is_no_number(functions, text):
    assert functions["number"](text) is None


GOLD = "He has 58 / 2 = <<58/2=29>>29 left.\n#### 29"


@pytest.mark.parametrize(
    ("answer", "exact", "numeric"),
    [
        ("29", 1, 1),
        ("29.00", 0, 1),
        ("$29", 1, 1),
        ("29.", 1, 1),
        ("-29", 0, 0),
        ("2,9", 1, 0),  # lm-eval takes commas for nothing; here they part thousands
        ("290", 0, 0),
        ("[invalid]", 0, 0),
    ],
)
def test_gsm8k_by_hand(functions, answer, exact, numeric):
    found = functions["gsm8k"]({"answer": GOLD}, [answer])
    assert found == {"exact_match": exact, "numeric_match": numeric}


def test_gsm8k_sign_and_thousands(functions):
    def match(gold, answer):
        return functions["gsm8k"]({"answer": f"So\n#### {gold}"}, [answer])["numeric_match"]

    assert match("5", "-5") == match("-5", "5") == 0
    assert match("1,000", "1000") == match("1000", "1,000.00") == 1


def test_gsm8k_exact_match_is_lm_evals(functions, gsm8k):
    answers = ["18", "$18", "18.", "1,8", "18.0", "eighteen", "so #### 18", "", "-18", "[invalid]"]
    doc = {"question": "?", "answer": "Nine and nine.\n#### 18"}
    stock = [gsm8k.process_results(doc, [answer])["exact_match"] for answer in answers]
    ours = [functions["gsm8k"](doc, [answer])["exact_match"] for answer in answers]
    assert ours == stock
    assert 0 < sum(ours) < len(ours)


@pytest.fixture
def gsm8k():
    """lm-eval's own task over one made-up row."""
    from datasets import Dataset
    from lm_eval.api.task import ConfigurableTask

    config = load_yaml(Path(lm_eval.__file__).parent / "tasks" / "gsm8k" / "gsm8k.yaml")
    rows = Dataset.from_list([{"question": "?", "answer": "#### 18"}])
    own = {"custom_dataset": lambda **_: {"train": rows, "test": rows}, "num_fewshot": 0}
    return ConfigurableTask(config={**config, **own})


def stock_mc2(doc, results):
    """lm-eval's process_results_mc2, whose module needs packages that this one does without."""
    probabilities = np.exp(np.array([each for each, _ in results]))
    labels = np.array(doc["mc2_targets"]["labels"])
    return np.sum((probabilities / np.sum(probabilities))[labels == 1])


def choices(logprobs, labels):
    return {"mc2_targets": {"labels": labels}}, [(each, False) for each in logprobs]


def test_mc2_is_lm_evals_where_that_works(functions):
    rng = np.random.default_rng(0)
    for _ in range(200):
        count = rng.integers(2, 13)
        labels = [1, *rng.integers(0, 2, count - 1).tolist()]
        asked = choices(rng.uniform(-80, -1, count).tolist(), labels)
        assert functions["mc2"](*asked)["acc"] == pytest.approx(stock_mc2(*asked), abs=1e-12)


def test_mc2_of_long_answers_by_hand(functions):
    """Shares depend on differences alone: 1 / (1 + e^-1) of the true one, at -800 as at -8."""
    for shift in (-8.0, -800.0, -1e5):
        asked = choices([shift, shift - 1], [1, 0])
        assert functions["mc2"](*asked)["acc"] == pytest.approx(1 / (1 + math.exp(-1)), abs=1e-10)
    with np.errstate(invalid="ignore"):
        assert math.isnan(stock_mc2(*choices([-800.0, -801.0], [1, 0])))
    assert functions["mc2"](*choices([-900.0, -1.0], [1, 0]))["acc"] == 0.0
    assert functions["mc2"](*choices([-900.0, -901.0], [1, 1]))["acc"] == pytest.approx(1.0)
    assert functions["mc2"](*choices([-9.0, -8.0], [0, 0]))["acc"] == 0.0


def test_instruction_accuracy_is_over_instructions(functions):
    assert functions["instructions"]([[True], [True, False, True]]) == 3 / 4


def test_importing_needs_no_optional_package_and_downloads_nothing():
    unwanted = ["nltk", "langdetect", "rouge_score", "lm_eval.tasks.ifeval.utils"]
    script = (
        f"import sys; sys.path.insert(0, {str(TASKS)!r}); import functions\n"
        f"print([name for name in {unwanted} if name in sys.modules])"
    )
    call = [sys.executable, "-c", script]
    shown = subprocess.run(call, capture_output=True, text=True, check=True)
    assert shown.stdout == "[]\n"


@pytest.fixture
def nltk():
    """nltk, where IFEval's optional packages are installed."""
    for name in ("langdetect", "immutabledict"):
        pytest.importorskip(name)
    return pytest.importorskip("nltk")


def test_language_detection_repeats(functions, nltk, monkeypatch):
    """Unseeded, langdetect takes "normal general" for one or the other language, by chance."""
    monkeypatch.setattr(nltk.data, "find", lambda name: name)  # the splitter isn't used here
    doc = {"key": 1, "prompt": "?", "instruction_id_list": ["language:response_language"]}
    for language in ("it", "es"):
        asked = doc | {"kwargs": [{"language": language}]}
        found = [functions["ifeval"](asked, ["normal general"]) for _ in range(20)]
        assert all(each == found[0] for each in found)


def test_drawn_arguments_repeat(functions, nltk, monkeypatch):
    """lm-eval knows no letter #, and draws another one each time: prompt 1122 of IFEval has it."""
    monkeypatch.setattr(nltk.data, "find", lambda name: name)
    doc = {
        "key": 1122,
        "prompt": "?",
        "instruction_id_list": ["keywords:letter_frequency"],
        "kwargs": [{"let_relation": "at least", "letter": "#", "let_frequency": 4}],
    }
    random.seed(5)
    expected = random.random()
    random.seed(5)
    found = [functions["ifeval"](doc, ["an answer with an a and an e"]) for _ in range(20)]
    assert all(each == found[0] for each in found)
    assert random.random() == expected


def test_ifeval_by_hand(functions, nltk, monkeypatch):
    monkeypatch.setattr(nltk.data, "find", lambda name: name)
    doc = {
        "key": 1,
        "prompt": "?",
        "instruction_id_list": ["language:response_language", "punctuation:no_comma"],
        "kwargs": [{"language": "fi"}, {}],
    }
    judged = functions["ifeval"](doc, ["Tämä on suomea, eikä mitään muuta kieltä."])
    assert judged == {
        "prompt_level_strict_acc": False,
        "inst_level_strict_acc": [True, False],
        "prompt_level_loose_acc": False,
        "inst_level_loose_acc": [True, False],
    }


def test_missing_splitter_is_a_sentence_and_no_download(functions, nltk, monkeypatch):
    def missing(name):
        raise LookupError(name)

    monkeypatch.setattr(nltk.data, "find", missing)
    monkeypatch.setattr(nltk, "download", lambda *_: pytest.fail("downloads"))
    with pytest.raises(DataError, match="punkt_tab"):
        functions["ifeval"]({}, ["text"])
