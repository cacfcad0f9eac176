"""Scoring rules that task files use where lm-eval's own don't serve.

A task file in this folder refers to one as `!function functions.NAME`; lm-eval loads this file
from beside it, so that checkout and wheel work alike.
"""

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from lm_eval.api.metrics import exact_match_hf_evaluate

from ladder_eval.errors import DataError

# As in lm-eval's gsm8k.yaml: what exact_match leaves out of answer and gold.
_GSM8K_IGNORED = [",", r"\$", "(?s).*#### ", r"\.$"]

# 1,000 has commas between groups of three; 2,3 is a list. Exponents are short, as 1e999999 is huge.
_NUMBER = re.compile(
    r"(?P<sign>[-+]?)(?P<digits>(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?|\.\d+)"
    r"(?P<exponent>[eE][-+]?\d{1,2})?(?:/(?P<divisor>\d+))?",
    re.ASCII,
)
_LONGEST_NUMBER = 60  # characters; no answer is longer

_PASS_AT = (1, 10, 100)


def gsm8k_results(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """For GSM8K: `process_results: !function functions.gsm8k_results`.

    `exact_match` compares texts as lm-eval's gsm8k does; `numeric_match` compares numbers, so that
    29.00, $29 and 29 are equal. Both judge what a filter made of the answer.

    Args:
        doc: A row with `answer`, whose gold number stands behind ####.
        results: One filtered answer.
    """
    answer, gold = str(results[0]), str(doc["answer"])
    same = exact_match_hf_evaluate(
        predictions=[answer],
        references=[gold],
        regexes_to_ignore=_GSM8K_IGNORED,
        ignore_case=True,
    )["exact_match"]
    expected = number(gold.rpartition("####")[2])
    return {
        "exact_match": float(same),
        "numeric_match": float(expected is not None and number(answer) == expected),
    }


def number(text: str) -> Fraction | None:
    """The number that a short text is, exactly; None if it's no number or more than one.

    A sign and a dollar may stand before it in either order, punctuation after it. 1,000 is a
    thousand, 1.5e3 is 1500, 1/2 is a half; 2,3, 50%, "29 eggs" and 1/0 are no numbers.
    """
    plain = text.strip().replace("−", "-").replace("$", "", 1).strip().rstrip(".,")
    found = _NUMBER.fullmatch(plain) if len(plain) <= _LONGEST_NUMBER else None
    if found is None or (found["divisor"] and not int(found["divisor"])):
        return None
    digits = found["digits"].replace(",", "").removesuffix(".")
    value = Fraction(f"{found['sign']}{digits}{found['exponent'] or ''}")
    return value / int(found["divisor"] or 1)


def truthfulqa_mc2_results(
    doc: Mapping[str, Any], results: Iterable[tuple[float, bool]]
) -> dict[str, float]:
    """For TruthfulQA mc2: `process_results: !function functions.truthfulqa_mc2_results`.

    The share of probability that the true answers have, exp(lse(true) - lse(all)) with lse the log
    of a sum of exponentials (Lin, Hilton and Evans, 2022, 3.2). lm-eval's own form adds
    probabilities themselves, which for long answers all become 0 and their share 0 / 0. Its module
    also needs packages for the other TruthfulQA tasks, which this one doesn't.

    Args:
        doc: A row with `mc2_targets`, whose `labels` are 1 for true answers.
        results: Log-likelihood of each answer, and whether it is greedy.
    """
    logprobs = np.array([logprob for logprob, _ in results], dtype=np.float64)
    true = np.array(doc["mc2_targets"]["labels"]) == 1
    if not true.any():
        return {"acc": 0.0}
    share = np.logaddexp.reduce(logprobs[true]) - np.logaddexp.reduce(logprobs)
    return {"acc": min(1.0, float(np.exp(share)))}


def ifeval_results(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, bool | list[bool]]:
    """For IFEval: `process_results: !function functions.ifeval_results`.

    lm-eval's own judgement, made to repeat. Language detection draws at random and may judge the
    same short answer differently each time; and where an instruction's argument is none that
    lm-eval knows, such as the letter # of prompt 1122, it draws another.

    Raises:
        DataError: If nltk's sentence splitter isn't on this machine, which lm-eval would download.
    """
    import langdetect  # noqa: PLC0415  (an optional dependency, as nltk)
    import nltk  # noqa: PLC0415

    try:
        nltk.data.find("tokenizers/punkt_tab")
    except LookupError:
        raise DataError(
            "IFEval needs nltk's punkt_tab, which isn't on this machine; fetch it, or leave the "
            "task out."
        ) from None
    from lm_eval.tasks.ifeval.utils import process_results  # noqa: PLC0415

    langdetect.DetectorFactory.seed = 0
    state = random.getstate()
    random.seed(0)
    try:
        judged: dict[str, bool | list[bool]] = process_results(doc, results)
    finally:
        random.setstate(state)  # drawing examples, say, stays as it would be
    return judged


def ifeval_instruction_accuracy(items: Sequence[Sequence[bool]]) -> float:
    """For IFEval: `aggregation: !function functions.ifeval_instruction_accuracy`.

    The share of instructions that were followed, over all prompts. lm-eval's own has the same
    value, but importing it downloads data.
    """
    answers = [each for prompt in items for each in prompt]
    return sum(answers) / len(answers)


def program_results(
    doc: Mapping[str, Any], results: Sequence[Sequence[Mapping[str, str]]]
) -> dict[str, float]:
    """For programs: `process_results: !function functions.program_results`.

    pass@k of one problem, 1 - C(n - c, k) / C(n, k) with c of its n samples passing (Chen et al.,
    arXiv 2107.03374, section 2.1), for each k of 1, 10 and 100 that there are samples for. With
    `base_` before it, only evalplus' base tests count.

    Args:
        doc: A problem.
        results: The verdicts on its samples, with the outcome of `base` and of all tests, `plus`.
    """
    from evalplus.eval import estimate_pass_at_k  # noqa: PLC0415 - takes seconds

    (found,) = results
    right = {level: sum(each[level] == "pass" for each in found) for level in ("plus", "base")}
    return {
        f"{prefix}pass@{k}": float(estimate_pass_at_k([len(found)], [right[level]], k)[0])
        for prefix, level in (("", "plus"), ("base_", "base"))
        for k in _PASS_AT
        if k <= len(found)
    }


def unjudged_results(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """For outputs: `process_results: !function functions.unjudged_results`.

    None: what an output is worth, a judge will say.
    """
    return {}
