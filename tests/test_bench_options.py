"""Options of `bench`: lists with commas, defaults, and what is refused in one sentence."""

from pathlib import Path

import pytest

from ladder_eval.bench_options import BenchOptions, bench_options
from ladder_eval.errors import UsageError


def refused(**given):
    """The sentence with which options are refused."""
    with pytest.raises(UsageError) as caught:
        bench_options(given)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    return message


def test_nothing_given_is_the_defaults():
    options = bench_options({"model": None, "residual": None, "tp": None, "rounds": None})
    assert options == BenchOptions()
    assert (options.model, options.residual, options.layers) == ("smollm2_135m", (), None)
    assert (options.tp, options.batch_size) == ((), (1,))  # tp depends on the place
    assert (options.prompt_len, options.output_len) == ((128,), (16,))
    assert (options.link, options.link_mode, options.bandwidth_gbs) == (None, "serial", 100)
    assert (options.latency_us, options.latency_ratio) == ((), ())
    assert (options.emulate, options.skew_us) == (False, None)
    assert (options.rounds, options.max_minutes) == (9, None)
    assert (options.dtype, options.device) == (None, None)
    assert options.output_dir == Path("runs")


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        ("residual", "ladder", ("ladder",)),
        ("residual", "ladder, ladder-8 ,desync-4x", ("ladder", "ladder-8", "desync-4x")),
        ("tp", "2", (2,)),
        ("tp", "4, 1,2", (4, 1, 2)),  # in the order given
        ("batch_size", "1,8,1,8", (1, 8)),  # nothing is timed twice
        ("prompt_len", "16,1024", (16, 1024)),
        ("output_len", " 1 ", (1,)),
        ("latency_us", "0,2.5,1e3", (0, 2.5, 1000)),
        ("latency_ratio", "0.5,2", (0.5, 2)),
    ],
)
def test_lists_have_commas(name, text, read):
    assert getattr(bench_options({name: text}), name) == read


def test_what_is_no_list_is_taken_as_it_is():
    given = {
        "model": "ladder_3b",
        "layers": 7,
        "emulate": False,
        "link": "virtual",
        "link_mode": "pipelined",
        "bandwidth_gbs": 12.5,
        "rounds": 3,
        "max_minutes": 0.5,
        "dtype": "bfloat16",
        "device": "cuda:1",
        "output_dir": Path("elsewhere"),
    }
    assert bench_options(given) == BenchOptions(**given)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"tp": "0"}, "--tp takes whole numbers from 1, such as 1,8."),
        ({"tp": "2,-1"}, "--tp takes whole numbers from 1, such as 1,8."),
        ({"tp": "two"}, "--tp takes whole numbers with commas, not 'two'."),
        ({"tp": "1,"}, "--tp takes whole numbers with commas, not '1,'."),
        ({"tp": ""}, "--tp takes whole numbers with commas, not ''."),
        ({"tp": "1.5"}, "--tp takes whole numbers with commas, not '1.5'."),
        ({"batch_size": "0"}, "--batch-size takes whole numbers from 1, such as 1,8."),
        ({"batch_size": "1;8"}, "--batch-size takes whole numbers with commas, not '1;8'."),
        ({"prompt_len": "0,4"}, "--prompt-len takes whole numbers from 1, such as 1,8."),
        ({"prompt_len": "long"}, "--prompt-len takes whole numbers with commas, not 'long'."),
        ({"output_len": "0"}, "--output-len takes whole numbers from 1, such as 1,8."),
        ({"output_len": "x"}, "--output-len takes whole numbers with commas, not 'x'."),
        ({"latency_us": "fast"}, "--latency-us takes numbers with commas, not 'fast'."),
        ({"latency_ratio": "1,,2"}, "--latency-ratio takes numbers with commas, not '1,,2'."),
        ({"layers": 0}, "--layers 0 must be 1 or more."),
        ({"rounds": -2}, "--rounds -2 must be 1 or more."),
        ({"max_minutes": 0.0}, "--max-minutes 0.0 must be more than 0."),
        ({"max_minutes": float("nan")}, "--max-minutes nan must be more than 0."),
        ({"max_minutes": float("inf")}, "--max-minutes inf must be more than 0."),
        ({"bandwidth_gbs": 0.0}, "--bandwidth-gbs 0.0 must be a number above 0."),
        ({"bandwidth_gbs": float("nan")}, "--bandwidth-gbs nan must be a number above 0."),
        ({"bandwidth_gbs": float("inf")}, "--bandwidth-gbs inf must be a number above 0."),
        ({"dtype": "int8"}, "Unknown dtype 'int8'; known are float32, bfloat16, float16."),
        ({"link": "radio"}, "Unknown link 'radio'; known are virtual, real."),
        (
            {"latency_us": "1", "latency_ratio": "0.5"},
            "--latency-us and --latency-ratio exclude each other; drop one.",
        ),
        (
            {"link": "real", "latency_us": "1"},
            "A real link has the latency that it has; drop --latency-….",
        ),
        (
            {"link": "real", "latency_ratio": "1"},
            "A real link has the latency that it has; drop --latency-….",
        ),
        ({"latency_us": "1,-1"}, "A latency is a number from 0; correct --latency-…."),
        ({"latency_us": "inf"}, "A latency is a number from 0; correct --latency-…."),
        ({"latency_ratio": "-0.5"}, "A latency is a number from 0; correct --latency-…."),
        ({"latency_ratio": "nan"}, "A latency is a number from 0; correct --latency-…."),
        ({"skew_us": 1.0}, "--skew-us is of emulated ranks; add --emulate, or drop it."),
        ({"emulate": True, "skew_us": -1.0}, "--skew-us -1.0 must be a number from 0."),
        (
            {"emulate": True, "link": "virtual"},
            "An emulated rank's messages are delays; drop --link.",
        ),
        (
            {"emulate": True, "tp": "1,8"},
            "A rank alone sends nothing; give --emulate a --tp of 2 or more.",
        ),
        ({"link_mode": "radio"}, "Unknown link mode 'radio'; known are serial, pipelined."),
        (
            {"link": "real", "link_mode": "radio"},
            "Unknown link mode 'radio'; known are serial, pipelined.",
        ),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_one_sentence(given, sentence):
    assert refused(**given) == sentence


def test_no_tp_size_is_the_default_of_the_place():
    assert BenchOptions(tp=()) == BenchOptions()


def test_all_reduces_are_of_real_messages():
    assert bench_options({"link": "real", "all_reduce": "group,one-shot"}).all_reduce == (
        "group",
        "one-shot",
    )
    with pytest.raises(
        UsageError, match="Unknown all-reduce 'tree'; known are group, one-shot, tw"
    ):
        bench_options({"link": "real", "all_reduce": "tree"})
    with pytest.raises(UsageError, match="--all-reduce is of real messages; give --link real"):
        bench_options({"link": "virtual", "all_reduce": "group"})
