"""Judging by a server that fails in every way: nothing is lost, and nothing is paid twice."""

import json
import math
import random
import time
from dataclasses import replace
from email.utils import formatdate

import pytest
from judge_server import PROMPT, JudgeServer

from ladder_eval.errors import UsageError
from ladder_eval.harness.judging import asking, client, job
from ladder_eval.harness.judging.client import JudgeError
from ladder_eval.harness.judging.costs import Prices
from ladder_eval.harness.judging.options import Judge, Judging
from ladder_eval.harness.judging.prompts import parse_prompt
from ladder_eval.harness.judging.server import Server, api_key, endpoint

N = 40


@pytest.fixture
def files(tmp_path):
    """Outputs of the model are longer by their number; those of the reference are ten letters."""
    for name, text in {"model": lambda i: "m" * (10 + i), "ref": lambda i: "r" * 10}.items():
        rows = [{"instruction": f"do {i}", "output": text(i), "generator": name} for i in range(N)]
        (tmp_path / f"{name}.json").write_text(json.dumps(rows))
    return tmp_path


def judging(files, judge, **changes):
    server = {"attempts": 12, "first_wait_s": 0.0, "timeout_s": 5} | changes.pop("server", {})
    return Judging(
        outputs=files / "model.json",
        reference=files / "ref.json",
        judge=Judge(
            server=Server(url=judge.url, model="judge-1", **server),
            prompt=parse_prompt(PROMPT, "test"),
            **changes,
        ),
        out=files / "out",
    )


def run(options):
    return job.judge(options, lambda total: lambda: None)


def preferences(files):
    rows = json.loads((files / "out" / "annotations.json").read_text())
    return {row["instruction"]: row["preference"] for row in rows}


def expected():
    return {f"do {i}": 1 + 1 / (1 + math.exp(-i / 10)) for i in range(N)}


def test_a_judge_that_answers_is_asked_once_each_in_both_orders(files):
    with JudgeServer() as judge:
        found = run(judging(files, judge, prices=Prices(prompt=10, completion=30)))
    assert preferences(files) == pytest.approx(expected())
    assert set(judge.requests.values()) == {1}
    assert len(judge.requests) == N
    assert found.judged.complete
    assert found.rates.win_rate.percent == pytest.approx(100 * sum(expected().values()) / N - 100)
    assert (found.rates.mean_length, found.rates.reference_mean_length) == (29.5, 10)
    first = sum(message.split("\n")[1].startswith("<<m") for message in judge.requests)
    assert N * 0.25 < first < N * 0.75
    assert found.provenance.costs.prompt_tokens == 100 * N
    assert found.provenance.costs.price == pytest.approx(N * (100 * 10 + 30) / 1e6)
    sent = judge.bodies[0]
    assert sent["path"] == "/v1/chat/completions"
    assert (sent["model"], sent["max_tokens"], sent["top_logprobs"]) == ("judge-1", 1, 5)
    assert not any("Authorization" in headers for headers in judge.headers)


def test_the_order_depends_on_seed_and_instruction_alone(files):
    with JudgeServer() as judge:
        run(judging(files, judge))
        asked = set(judge.requests)
        run(judging(files, judge, concurrency=1))
        assert set(judge.requests.values()) == {1}  # all were kept
        run(judging(files, judge, seed=1))
    assert 5 < len(set(judge.requests) - asked) < N
    assert preferences(files) == pytest.approx(expected())


def test_every_kind_of_failure_is_outlasted_and_none_is_kept(files):
    kinds = [
        *(500, 503, 408, "drop", "garbage", "no logprobs", "no label", 0.02),
        (429, {"Retry-After": "0"}, {"error": {"message": "slow down"}}),
    ]

    def faults(message, attempt):
        draw = random.Random(f"{message} {attempt}")
        return draw.choice(kinds) if draw.random() < 0.5 else None

    with JudgeServer(faults) as judge:
        found = run(judging(files, judge))
        assert found.judged.status == "complete"
        before = dict(judge.requests)
        again = run(judging(files, judge))
        assert judge.requests == before
    assert preferences(files) == pytest.approx(expected())
    assert sum(before.values()) > N + 10
    answers = (files / "out" / "answers.jsonl").read_text().splitlines()
    assert len(answers) == N
    assert again == found
    # "no label" came with a count of tokens, and was paid for.
    wasted = sum(
        faults(message, attempt) == "no label"
        for message, count in before.items()
        for attempt in range(count)
    )
    assert wasted > 0
    assert found.provenance.costs.responses == N + wasted
    assert found.provenance.costs.uncounted == 0


def test_what_is_given_up_is_listed_and_asked_again(files):
    broken = True

    def faults(message, attempt):
        if not broken:
            return None
        if message.startswith("do 7\n"):
            return (400, {}, {"error": {"message": "content\nfilter"}})
        return 500 if message.startswith("do 8\n") else None

    with JudgeServer(faults) as judge:
        found = run(judging(files, judge, server={"attempts": 3}))
        assert found.judged.status == f"incomplete: {N - 2} of {N}"
        assert found.judged.failures == {
            "do 7": "error 400 (content filter)",
            "do 8": "error 500, after 3 requests",
        }
        written = json.loads((files / "out" / "judgement.json").read_text())
        assert "rates" not in written
        assert written["status"] == f"incomplete: {N - 2} of {N}"
        assert set(preferences(files)) == set(expected()) - {"do 7", "do 8"}
        asked = {m.split("\n")[0]: count for m, count in judge.requests.items()}
        assert (asked["do 7"], asked["do 8"], asked["do 9"]) == (1, 3, 1)
        broken = False
        assert run(judging(files, judge)).judged.complete
    assert sum(judge.requests.values()) == N + 2 + 2
    assert "rates" in json.loads((files / "out" / "judgement.json").read_text())


def test_a_judge_that_only_fails_is_left_alone(files):
    with JudgeServer(lambda message, attempt: "drop") as judge:
        found = run(judging(files, judge, concurrency=2, server={"attempts": 2}))
    assert found.judged.status == f"incomplete: 0 of {N}"
    assert found.rates is None
    assert len(found.judged.failures) == N
    assert sum(judge.requests.values()) <= 2 * (asking.SUCCESSIVE_FAILURES + 2)
    assert "not asked" in found.judged.failures[f"do {N - 1}"]


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        ((401, {}, {"error": {"message": "bad key sk-secret"}}), "refused the key .* MY_KEY"),
        ((403, {}, {}), "refused the key"),
        ((404, {}, {}), "no such address or model"),
        ((429, {}, {"error": {"code": "insufficient_quota"}}), "asks to be paid"),
    ],
)
def test_what_holds_for_all_questions_ends_the_run(files, reply, says):
    with (
        JudgeServer(lambda message, attempt: reply) as judge,
        pytest.raises(JudgeError, match=says) as refused,
    ):
        run(judging(files, judge, server={"key": "sk-secret", "key_name": "MY_KEY"}))
    assert "sk-secret" not in str(refused.value)
    assert sum(judge.requests.values()) <= 2 * 8


def test_the_key_is_sent_and_kept_nowhere(files):
    def faults(message, attempt):
        return (500, {}, {"error": {"message": "sk-secret"}}) if attempt == 0 else None

    with JudgeServer(faults) as judge:
        options = judging(files, judge, server={"key": "sk-secret"})
        run(options)
    assert {headers["Authorization"] for headers in judge.headers} == {"Bearer sk-secret"}
    assert "sk-secret" not in repr(options)
    for path in (files / "out").iterdir():
        assert b"sk-secret" not in path.read_bytes()


def test_answers_are_not_taken_for_another_judges_or_of_other_outputs(files):
    with JudgeServer() as judge:
        run(judging(files, judge))
        rows = json.loads((files / "model.json").read_text())
        rows[3]["output"] = "mmm"
        (files / "model.json").write_text(json.dumps(rows))
        run(judging(files, judge))
        assert sum(judge.requests.values()) == N + 1
        options = judging(files, judge)
        server = Server(url=judge.url, model="judge-2", first_wait_s=0)
        run(replace(options, judge=replace(options.judge, server=server)))
    assert sum(judge.requests.values()) == 2 * N + 1


def test_a_slow_judge_times_out_and_is_asked_again(files):
    slow = 0.5

    def faults(message, attempt):
        return slow if attempt == 0 and message.startswith("do 3\n") else None

    with JudgeServer(faults) as judge:
        found = run(judging(files, judge, server={"timeout_s": 0.2}))
    assert found.judged.complete
    assert next(c for m, c in judge.requests.items() if m.startswith("do 3\n")) >= 2


def test_half_a_character_can_be_judged(files):
    rows = json.loads((files / "model.json").read_text())
    rows[0]["output"] = "\ud83d half"
    (files / "model.json").write_text(json.dumps(rows))
    with JudgeServer() as judge:
        assert run(judging(files, judge)).judged.complete
    assert preferences(files).keys() == expected().keys()


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("0", 0),
        ("7", 7),
        ("-3", 0),
        ("99999", client.LONGEST_RETRY_AFTER_S),
        ("soon", None),
        ("nan", None),
        (None, None),
        (formatdate(0, usegmt=True), 0),
    ],
)
def test_retry_after_is_in_seconds_or_a_date(header, seconds):
    assert client._retry_after(header) == seconds


def test_retry_after_of_a_coming_date():
    later = formatdate(time.time() + 30, usegmt=True)
    assert client._retry_after(later) == pytest.approx(29.5, abs=1.5)


@pytest.mark.parametrize(
    "url",
    ["api.openai.com/v1", "ftp://x", "https://me:pw@host/v1", "https://h/v1?key=s", "http://"],
)
def test_addresses_that_are_none_or_hold_secrets_are_refused(url):
    with pytest.raises(UsageError) as refused:
        endpoint(url)
    assert "pw" not in str(refused.value)


def test_an_address_may_be_given_in_full():
    full = "https://h/v1/chat/completions"
    assert {endpoint(url) for url in ("https://h/v1", "https://h/v1/", full)} == {full}


def test_a_key_of_several_lines_is_refused_without_being_shown(monkeypatch):
    monkeypatch.setenv("SOME_KEY", "sk-a\nsk-b")
    with pytest.raises(UsageError, match="SOME_KEY") as refused:
        api_key("SOME_KEY")
    assert "sk-" not in str(refused.value)
    monkeypatch.setenv("SOME_KEY", " sk-a\n")
    assert api_key("SOME_KEY") == "sk-a"
    monkeypatch.delenv("SOME_KEY")
    assert api_key("SOME_KEY") is None
