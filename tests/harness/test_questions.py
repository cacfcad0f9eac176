"""A task's requests: chosen, as token ids, answered before, and compared."""

import pytest
import torch
from lm_eval.models.huggingface import HFLM

from ladder_eval.harness.agreement import agreement_of, text_difference
from ladder_eval.harness.catalogue import DataSources
from ladder_eval.harness.evaluation import prepare, run_suite
from ladder_eval.harness.questions import (
    TokenRequests,
    answers_of,
    metrics_of,
    questions_of,
)
from ladder_eval.harness.stock_model import StockModel
from ladder_eval.harness.suites import suite_of


@pytest.fixture(scope="module")
def prepared(tiny_data):
    sources = DataSources(data_dir=tiny_data, notify=print)
    (task,) = prepare(suite_of(["arc_easy"]), limit=10, seed=3, sources=sources)
    return task


@pytest.fixture(scope="module")
def stock(tiny_checkpoint):
    return StockModel(tiny_checkpoint, "float32", torch.device("cpu"))


def test_some_documents_are_whole_and_spread_over_all(prepared):
    questions = questions_of(prepared)
    assert (questions.documents, questions.count) == (10, 40)
    some = questions.some(4)
    kept = [each.doc_id for each in some.requests["loglikelihood"]]
    every = list(dict.fromkeys(each.doc_id for each in questions.requests["loglikelihood"]))
    assert kept == [place for place in every[::3] for _ in range(4)]
    assert questions.some(99).count == 40


def test_metrics_are_those_of_lm_evals_own_run(prepared, make_lm):
    questions = questions_of(prepared)
    answers = answers_of(make_lm(), questions)
    found = metrics_of(prepared, questions, answers)
    result = run_suite(make_lm(answers="again"), [prepared])["results"]["arc_easy"]
    assert found == {name: result[name] for name in ("acc,none", "acc_norm,none")}
    # The second-best choice made best, in every document: other answers, other metrics.
    turned = {"loglikelihood": [(-logprob, greedy) for logprob, greedy in answers["loglikelihood"]]}
    assert metrics_of(prepared, questions, turned) != found


def test_token_requests_are_what_the_engine_is_asked(make_lm, roll, ask, write):
    """Against the request's keys in the log, which are hashes of token ids."""
    lm = make_lm()
    pairs, texts = [("A lamp ", "here"), ("", "Rain"), ("Two", " b")], ["Rain falls. " * 3]
    ask(lm, pairs)
    roll(lm, texts)
    write(lm, ["Hi"], max_gen_toks=1)
    reader = TokenRequests(lm.tok_encode, lm.prefix_token_id, lm.max_length)
    ask(reader, pairs)
    roll(reader, texts)
    write(reader, ["Hi"], max_gen_toks=1)
    keys = {lm._book.key("loglikelihood", tuple(c), tuple(t)) for c, t in reader.scored}
    assert len(keys) == 4
    assert keys < set(lm._book._log._answers)
    assert reader.prompts == [lm.tok_encode("Hi")]


def test_long_token_requests_are_cut_as_lm_eval_cuts_them(make_lm, ask):
    lm = make_lm()
    reader = TokenRequests(lm.tok_encode, lm.prefix_token_id, 8)
    ask(reader, [("abcdefghij", "xyz")])
    # Nine tokens of which the last is only predicted; a token a byte.
    assert reader.scored == [(lm.tok_encode("efghij"), lm.tok_encode("xyz"))]


def test_the_stock_model_is_lm_evals_own_and_its_tokens_are_counted(
    prepared, stock, tiny_checkpoint, make_lm
):
    questions = questions_of(prepared)
    answers, trial = stock.timed(questions, 4)
    plain = HFLM(pretrained=str(tiny_checkpoint), device="cpu", dtype="float32", batch_size=4)
    assert answers == answers_of(plain, questions)
    reader = TokenRequests(plain.tok_encode, plain.prefix_token_id, plain.max_length)
    answers_of(reader, questions)
    # Sorted by length, in batches as wide as their longest; one-token choices would share a row.
    lengths = sorted((len(c) + len(t) - 1 for c, t in reader.scored), reverse=True)
    groups = {(*c, *t[:-1]) for c, t in reader.scored}
    assert len(groups) == len(lengths)
    assert trial.read_tokens == sum(4 * lengths[start] for start in range(0, len(lengths), 4))
    assert trial.seconds > 0


def test_weights_of_products_are_the_models(stock, tiny_checkpoint):
    linears, head = stock.linears()
    assert len(linears) == 7 * len(stock._lm.model.model.layers)
    assert head is stock._lm.model.lm_head.weight
    assert all(weight is not head for weight in linears)


def no_text(*_):
    raise AssertionError("no texts differ")


def test_an_injected_difference_is_found():
    theirs = {"loglikelihood": [(-1.0, True), (-2.0, False)], "loglikelihood_rolling": [-50.0]}
    ours = {"loglikelihood": [(-1.0, True), (-2.25, True)], "loglikelihood_rolling": [-50.5]}
    metrics = ({"acc,none": 0.5}, {"acc,none": 0.25})
    found = agreement_of(ours, theirs, metrics, no_text)
    assert (found.choices, found.greedy, found.rolling) == (0.25, 1, 0.01)
    assert [(pair.ours, pair.theirs) for pair in found.metrics] == [(0.5, 0.25)]
    same = agreement_of(theirs, theirs, metrics, no_text)
    assert (same.choices, same.greedy, same.rolling) == (0.0, 0, 0.0)


def test_texts_part_where_their_tokens_do(stock, make_lm):
    lm = make_lm()
    asked = []

    def gap(tokens):
        asked.append(tokens)
        return 0.125

    answers = [
        {"generate_until": texts} for texts in (["sun", "rain falls"], ["sun", "rain fills"])
    ]
    found = agreement_of(
        *answers,
        ({}, {}),
        lambda *texts: text_difference(
            *texts, prompt=[1, 2], encode=lm.tok_encode, decode=lm.tokenizer.decode, gap=gap
        ),
    )
    (parting,) = found.differences
    assert (found.texts, parting.request, parting.position, parting.gap) == (2, 1, 6, 0.125)
    assert (parting.ours, parting.theirs) == ("alls", "ills")
    assert asked == [[1, 2, *lm.tok_encode("rain f")]]


def test_a_text_that_ends_earlier_parts_at_its_end(make_lm):
    lm = make_lm()
    found = text_difference(
        0, "ab", "abc", prompt=[], encode=lm.tok_encode, decode=lm.tokenizer.decode, gap=len
    )
    assert (found.position, found.gap, found.ours, found.theirs) == (2, 2, "", "c")


def test_the_gap_is_of_the_two_best_logits(stock):
    with torch.inference_mode():
        logits = stock._lm.model(torch.tensor([[5, 6, 7]])).logits[0, -1]
    best, second = sorted(logits.tolist(), reverse=True)[:2]
    assert stock.gap([5, 6, 7]) == pytest.approx(best - second)
