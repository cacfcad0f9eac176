"""The page of suites, tasks and data sets."""

from pathlib import Path

from ladder_eval.harness.benchmark_page import page

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"


def test_page_is_current():
    command = "python -m ladder_eval.harness.benchmark_page > docs/benchmarks.md"
    assert PAGE.read_text(encoding="utf-8") == page(), f"run `{command}`"


def test_page_says_what_is_inferred():
    text = page()
    assert "| arc_challenge | allenai/ai2_arc | test | 1,172 | 25 | drawn of train |" in text
    assert "| mmlu | cais/mmlu | test | 14,042 | 5 | first of dev | acc (macro) |" in text
    assert "| alpaca_eval | tatsu-lab/alpaca_eval | eval | 805 | 0 | — | lc_win_rate |" in text
    assert "* The paper doesn't say whether a chat template was applied." in text
