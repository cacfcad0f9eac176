"""Options from flags and a file: which wins, and what is refused in one sentence."""

import re
from pathlib import Path

import pytest

from ladder_eval.errors import UsageError
from ladder_eval.models.choice import ResidualChoice
from ladder_eval.options import RunOptions, run_options


@pytest.fixture
def config(tmp_path):
    def config(text):
        file = tmp_path / "run.yaml"
        file.write_text(text, encoding="utf-8")
        return file

    return config


def refused(given, file=None):
    """The sentence with which options are refused."""
    with pytest.raises(UsageError) as caught:
        run_options(given, file)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_nothing_given_is_the_defaults():
    options = run_options({"model": None, "tasks": None, "limit": None, "residual": None}, None)
    assert options == RunOptions()
    assert options.model == ("hybrid_ladder_smollm2_135m_10l",)
    assert (options.suite, options.tasks, options.limit, options.seed) == (None, (), None, 0)
    assert (options.batch_size, options.dtype, options.device) == (32, None, None)
    assert options.output_dir == Path("runs")


def test_flags_win_over_the_file_and_the_file_over_defaults(config):
    file = config("model: [a, b]\nlimit: 5\nseed: 7\nbatch_size: 2\ndtype: null\nsuite: quick\n")
    options = run_options({"limit": 9, "model": ["c"], "seed": 0, "suite": None}, file)
    assert (options.model, options.limit, options.seed) == (("c",), 9, 0)
    assert (options.batch_size, options.dtype) == (2, None)


def test_every_option_can_stand_in_the_file(config, tmp_path):
    file = config(
        f"""
        model: tiny, other
        baseline: dense
        no_baseline: false
        residual: ladder
        ladder_layers: [3, 1]
        suite: quick
        limit: 5
        seed: 3
        batch_size: 4
        dtype: bfloat16
        device: cuda:1
        model_dir: {tmp_path}
        data_dir: {tmp_path}
        prefer_hub: true
        output_dir: ~/runs
        """
    )
    assert run_options({}, file) == RunOptions(
        model=("tiny", "other"),
        baseline="dense",
        residual=ResidualChoice(residual="ladder", ladder_layers=(3, 1)),
        suite="quick",
        limit=5,
        seed=3,
        batch_size=4,
        dtype="bfloat16",
        device="cuda:1",
        model_dir=tmp_path,
        data_dir=tmp_path,
        prefer_hub=True,
        output_dir=Path.home() / "runs",
    )


@pytest.mark.parametrize(
    ("given", "read"),
    [("10", 10), ("3,7", (3, 7)), ("7,", (7,)), (10, 10), ([3, 7], (3, 7)), ("0", 0), (None, None)],
)
def test_ladder_layers(given, read):
    assert run_options({"ladder_layers": given}, None).residual.ladder_layers == read


@pytest.mark.parametrize("given", ["ten", "3;7", "1.5", 2.5, [1.9], {"a": 1}, "", ","], ids=str)
def test_wrong_ladder_layers(config, given):
    assert "must be a number of last layers, or layers such as 3,7" in refused(
        {"ladder_layers": given}
    )


@pytest.mark.parametrize(("given", "read"), [("a,b", ("a", "b")), (" a , b", ("a", "b"))])
def test_tasks_are_separated_by_commas(given, read):
    assert run_options({"tasks": given}, None).tasks == read


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"limit": 0}, "--limit 0 must be 1 or more."),
        ({"fewshot": "lm-eval"}, "--fewshot must be per-document or stock, not 'lm-eval'."),
        ({"limit": -3}, "--limit -3 must be 1 or more."),
        ({"batch_size": 0}, "--batch-size 0 must be 1 or more."),
        ({"seed": -1}, "--seed -1 must be between 0 and 9223372036854775807."),
        ({"seed": 10**20}, "--seed 100000000000000000000 must be between 0 and 92"),
        ({"output_dir": Path("~nobody-of-this-name/x")}, "--output-dir must be a usable path "),
        ({"dtype": "int8"}, "Unknown dtype 'int8'; known are float32, bfloat16, float16."),
        ({"suite": "quick", "tasks": "piqa"}, "--suite and --tasks exclude each other; drop one."),
        (
            {"baseline": "dense", "no_baseline": True},
            "--baseline and --no-baseline exclude each other; drop one.",
        ),
        (
            {"baseline_checkpoint": Path("dense"), "no_baseline": True},
            "--baseline-checkpoint and --no-baseline exclude each other; drop one.",
        ),
        ({"model": ["a", "a"]}, "--model takes one or more different models."),
        ({"tasks": "piqa,,sciq"}, "--tasks must be a text, not ''."),
        (
            {"residual": "standard", "ladder_layers": "10"},
            "--residual standard has no ladder layers; drop --ladder-layers.",
        ),
        ({"residual": "desync"}, "Unknown residual 'desync'; known are ladder (with "),
    ],
    ids=str,
)
def test_flags_that_make_no_sense(given, sentence):
    assert refused(given).startswith(sentence)


def test_ladder_without_ladder_layers_contradicts_itself():
    assert "ladder" in refused({"residual": "ladder", "ladder_layers": "0"})


@pytest.mark.parametrize(
    "name", ["model_dir", "data_dir", "checkpoint", "baseline_checkpoint", "models_file"]
)
def test_what_is_named_must_exist(tmp_path, name):
    missing = tmp_path / "nothing"
    flag = f"--{name.replace('_', '-')}"
    assert refused({name: missing}) == f"{missing} doesn't exist; correct {flag}."


# Ten thousand million items in a few hundred bytes.
LAUGHS = ", ".join(
    f"&l{i} [{', '.join([f'*l{i - 1}'] * 10 if i else 'xxxxxxxxxx')}]" for i in range(10)
)


def test_a_checkpoint_is_one_models():
    assert "--models-file" in refused({"checkpoint": Path(), "model": ["a", "b"]})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("modle: tiny", r"unknown options modle; known are residual, ladder_layers, model, "),
        ("{limit: 5, a: 1, b: 2}", r"unknown options a, b; "),
        ("- model", r"run\.yaml"),
        ("just words", r"run\.yaml"),
        ("5", r"run\.yaml"),
        ("limit: [", r"run\.yaml can't be read: "),
        ("limit: many", r"--limit must be a whole number, not 'many'\."),
        ("limit: true", r"--limit must be a whole number, not True\."),
        ("limit: 1.5", r"--limit must be a whole number, not 1\.5\."),
        ("model: 5", r"--model must be a list of names, not 5\."),
        ("model: [5]", r"--model must be a text, not 5\."),
        ("model: []", r"--model takes one or more"),
        ("no_baseline: 1", r"--no-baseline must be true or false, not 1\."),
        ("prefer_hub: 'yes'", r"--prefer-hub must be true or false, not 'yes'\."),
        ("dtype: 32", r"--dtype must be a text, not 32\."),
        ("output_dir: 7", r"--output-dir must be a text, not 7\."),
        ("residual: 3", r"Unknown residual 3"),
        (f"limit: [{LAUGHS}]", r"--limit must be a whole number, not \[\['x', 'x',"),
        (f"ladder_layers: [{LAUGHS}]", r"--ladder-layers \[\['x', "),
        (
            "seed: 0x" + "f" * 5000,
            r"--seed a number of more than 256 bits must be between",
        ),
        ("[" * 5000, r"run\.yaml can't be read: "),
        ("x" * 900 + ": 1", r"unknown options x{300}…; known"),
        ("{suite: quick, tasks: piqa}", r"--suite and --tasks exclude each other"),
    ],
)
def test_files_that_make_no_sense(config, text, sentence):
    assert re.search(sentence, refused({}, config(text)))


def test_file_must_exist(tmp_path):
    assert f"{tmp_path / 'no.yaml'} can't be read" in refused({}, tmp_path / "no.yaml")


@pytest.mark.parametrize("text", ["", "# nothing\n", "limit: null\n"])
def test_empty_file_is_the_defaults(config, text):
    assert run_options({}, config(text)) == RunOptions()


@pytest.mark.parametrize(
    ("text", "given", "expected"),
    [
        ("tasks: [piqa]", {"suite": "quick"}, ("quick", ())),
        ("suite: quick", {"tasks": "piqa"}, (None, ("piqa",))),
    ],
)
def test_suite_or_tasks_on_the_command_line_win_over_the_other_in_the_file(
    config, text, given, expected
):
    options = run_options(given, config(text))
    assert (options.suite, options.tasks) == expected
