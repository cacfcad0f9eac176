"""Documents to look into: which are chosen, what stands in them, and the pages of all."""

import json
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from logged_runs import HYBRID, SCRIPT, choice_rows, made_up, many
from run_folders import model, rows, task, write_run

from ladder_eval.errors import RecordError
from ladder_eval.report.page.answered import read_answered
from ladder_eval.report.page.choices import Question, question, right_choices, scores
from ladder_eval.report.page.content import Answer, Run
from ladder_eval.report.page.documents import Reader, abridged
from ladder_eval.report.page.explorer import MOST_EMBEDDED, chosen, explore
from ladder_eval.report.page.html import environment
from ladder_eval.results.flips import flips
from ladder_eval.results.pairing import pair
from ladder_eval.results.samples import samples_of
from ladder_eval.results.store import read_result, read_samples


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return made_up(tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture(scope="module")
def documents(run):
    answered = read_answered(run)
    found = Reader(answered).documents(range(len(answered.table)))
    return {(each.task, each.doc_id): each for each in found}


def test_changes_are_the_flips_of_pairs(run):
    answered = read_answered(run)
    assert answered.models == ("dense", "ladder", HYBRID)
    samples = read_samples(run.folder)
    for number, name in enumerate(answered.models[1:], 1):
        paired = flips(pair(samples_of(samples, name), samples_of(samples, "dense")))
        wanted = {(p.doc_hash, 1 if p.candidate > p.baseline else -1) for p in paired}
        changes = answered.changes[:, number]
        assert {(answered.table["doc_hash"][i], changes[i]) for i in changes.nonzero()[0]} == wanted
    assert not answered.changes[:, 0].any()


def test_a_choice_is_by_characters_where_the_metric_is(documents):
    document = documents["arc", 2]
    assert document.prompt == "Question: What colour has flower 2?\nAnswer:"
    assert document.preview == "What colour has flower 2?"
    assert document.choices == ("red", "yellow")
    assert document.right == (0,)
    dense, ladder, hybrid = document.answers
    assert (dense.scores, dense.chosen, dense.worth) == ((-1.0, -1.5), 0, "right")
    assert (ladder.scores, ladder.chosen, ladder.worth) == ((-1.5, -1.0), 1, "wrong")
    assert (dense.change, ladder.change, hybrid.change) == ("", "loss", "")
    assert (dense.role, ladder.role, ladder.text) == ("baseline", "candidate", "yellow")
    assert [documents["arc", i].change for i in range(6)] == [
        "",
        "",
        "loss",
        "loss",
        "gain",
        "gain",
    ]


def test_text_stands_beside_what_was_extracted(documents):
    document = documents["sums", 1]
    dense, ladder, _ = document.answers
    assert (document.prompt, document.target, document.choices) == ("Q: 2 + 3?\nA:", "5", ())
    assert (dense.text, dense.extracted) == (f"It is 7. {SCRIPT}\n— dense", "7")
    assert (ladder.text, ladder.change) == (f"It is 5. {SCRIPT}\n— ladder", "gain")


def test_a_perplexity_is_the_documents_own(documents):
    document = documents["wiki", 0]
    assert document.prompt == "Once upon a time."
    assert document.answers[0].text == "word_perplexity 7.389, over 50 words"  # exp(2)
    assert document.answers[1].text == "word_perplexity 20.09, over 50 words"  # exp(3)
    assert (document.change, document.answers[0].worth) == ("", "")


def test_without_prompts_documents_are_as_in_the_data(tmp_path):
    explorer = explore([made_up(tmp_path / "run", logged=False)], None)
    (note,) = explorer.notes
    assert note.startswith("Run run has no prompts")
    found = {(each.task, each.doc_id): each for each in explorer.documents}
    assert found["arc", 2].prompt == "id: 2\nquestion: What colour has flower 2?"
    assert found["arc", 2].answers[1].text == "choice 1"  # nothing says how long the choices are
    assert found["sums", 1].answers[0].text == "7"


def test_a_line_of_another_document_is_not_its_prompt(tmp_path):
    run = made_up(tmp_path / "run")
    (path,) = (run.folder / "lm_eval" / "dense").glob("samples_arc_*")
    path.write_text(path.read_text("utf-8").replace("arc-2", "other"), encoding="utf-8")
    answered = read_answered(run)
    ours = [i for i, each in enumerate(answered.table["doc_hash"]) if each in ("arc-2", "arc-3")]
    changed, same = Reader(answered).documents(ours)
    assert changed.prompt == ""
    assert same.prompt == "Question: What colour has flower 3?\nAnswer:"


@pytest.mark.parametrize(
    ("requests", "prompt", "choices"),
    [
        ([("Is it? A:", " yes"), ("Is it? A:", " no")], "Is it? A:", ("yes", "no")),
        ([("A cat Sam", " ran."), ("A cat Sara", " ran.")], "A cat ", ("Sam ran.", "Sara ran.")),
        ([("A page.",)], "A page.", ()),
        ([("Write.", {"until": []})], "Write.", ()),
        ([("It was \ud800", " x")], "It was ?", ("x",)),
    ],
)  # fmt: skip
def test_requests_as_a_question(requests, prompt, choices):
    asked = question(requests)
    assert (asked.prompt, asked.choices) == (prompt, choices)


def test_scores_by_length():
    asked = question([("?", " é"), ("?", " abc")])
    given = [[-2.0, True], [-3.0, False]]
    assert scores("acc", asked, given) == (-2.0, -3.0)
    assert scores("acc_norm", asked, given) == (-2.0, -1.0)
    assert scores("acc_bytes", asked, given) == (-1.0, -1.0)
    assert scores("acc", asked, ["text"]) == ()
    assert scores("acc_norm", Question(prompt=""), given) == (-2.0, -3.0)


@pytest.mark.parametrize(
    ("target", "answers", "right"),
    [
        ("1", [(1, 1.0), (0, 0.0)], (1,)),
        ("b", [(0, 0.0)], (1,)),
        ("the rest", [(0, 0.0), (1, 1.0)], (1,)),  # an answer that is right shows it
        ("the rest", [(0, 0.0)], (1,)),  # of two choices, one that is wrong does
        ("0", [(1, 1.0)], ()),  # what lm-eval counted contradicts the target
        ("0", [(0, 0.25)], ()),  # not right or wrong
        ("7", [(0, 0.0), (1, 0.0)], ()),
    ],
)
def test_what_is_right_is_only_said_if_it_is_known(target, answers, right):
    made = [Answer(model="m", text="", value=value, chosen=choice) for choice, value in answers]
    assert right_choices(("a", "b"), target, made) == right


def test_long_texts_lose_their_middle(documents):
    document = replace(documents["sums", 1], prompt="start " + "x" * 5000 + " end")
    short = abridged(document, 60, 30)
    assert short.is_abridged
    assert short.prompt.startswith("start x")
    assert short.prompt.endswith("x end")
    assert "[…4,950 characters left out…]" in short.prompt
    assert not abridged(documents["arc", 1], 60, 30).is_abridged


def test_flips_come_first_and_leave_room_for_others(tmp_path):
    answered = read_answered(many(tmp_path / "run", 300, changed=150))
    places = chosen([answered])
    assert len(set(places)) == len(places) == MOST_EMBEDDED
    changed = [bool(answered.changed[document]) for _, document in places]
    assert changed == [True] * 160 + [False] * 40
    tasks = Counter(answered.table["task"][document] for _, document in places)
    assert tasks == {"a": 100, "b": 100}
    signs = Counter(int(answered.changes[document, 1]) for _, document in places)
    assert signs == {1: 80, -1: 80, 0: 40}


def test_choosing_does_not_depend_on_the_order_of_rows(tmp_path):
    run = many(tmp_path / "run", 300, changed=150)
    first = [(each.task, each.doc_hash) for each in explore([run], None).documents]
    frame = read_samples(run.folder)
    frame[::-1].to_parquet(run.folder / "samples.parquet", index=False)
    again = [(each.task, each.doc_hash) for each in explore([run], None).documents]
    assert sorted(first) == sorted(again)


def test_every_run_and_candidate_has_its_turn(tmp_path):
    names = [f"c{i}" for i in range(3)]
    runs = [
        many(tmp_path / f"run-{i}", 100, candidates=[name], changed=50)
        for i, name in enumerate(names)
    ]
    explorer = explore(runs, None)
    assert explorer.candidates == tuple(names)
    assert explorer.runs == ("run-0", "run-1", "run-2")
    counts = Counter(each.run_id for each in explorer.documents)
    assert counts == {"run-0": 54 + 14, "run-1": 53 + 13, "run-2": 53 + 13}
    assert (explorer.total, explorer.flips) == (600, 300)


def test_few_documents_are_all_there_and_none_is_none(tmp_path, run):
    explorer = explore([run], None)
    assert (len(explorer.documents), explorer.total, explorer.flips) == (9, 9, 5)
    assert explorer.index == ""
    assert {each.link for each in explorer.documents} == {""}
    bare = write_run(tmp_path / "bare", [], models=[], tasks=[])
    (bare / "samples.parquet").unlink()
    assert explore([Run(folder=bare, result=read_result(bare))], None) is None


def test_samples_of_another_version_are_refused(tmp_path):
    run = many(tmp_path / "run", 2)
    path = run.folder / "samples.parquet"
    read_samples(run.folder).drop(columns=["answers"]).to_parquet(path, index=False)
    with pytest.raises(RecordError, match="has other columns than this ladder-eval writes"):
        explore([run], None)
    path.write_bytes(b"no parquet")
    with pytest.raises(RecordError, match=r"can't read .*samples\.parquet"):
        explore([run], None)


def test_a_model_alone_is_not_compared(tmp_path):
    folder = write_run(
        tmp_path / "run",
        choice_rows("ladder"),
        models=[model("ladder")],
        tasks=[task("arc", "acc_norm", 6)],
    )
    explorer = explore([Run(folder=folder, result=read_result(folder))], None)
    assert (explorer.flips, explorer.candidates) == (0, ())
    assert {answer.role for each in explorer.documents for answer in each.answers} == {""}
    text = environment().get_template("explorer.html.j2").render(explorer=explorer)
    assert "<p>6 of 6 documents.</p>" in text
    assert 'name="candidate"' not in text


def test_large_texts_leave_documents_out(tmp_path):
    names = [f"m{i}" for i in range(40)]
    made = [row for name in names for row in rows(name, "t", [1.0] * 45)]
    for row in made:
        row["answers"] = json.dumps(["y" * 5000])
    tasks = [task("t", "acc", 45)]
    folder = write_run(tmp_path / "run", made, models=list(map(model, names)), tasks=tasks)
    explorer = explore([Run(folder=folder, result=read_result(folder))], None)
    # Of 40 answers, 900 characters, 31 that say what was left out, and 80 of what is around them.
    assert len(explorer.documents) == 1_500_000 // (40 * (900 + 31 + 80) + 400)
    assert explorer.documents[0].is_abridged


class Texts(HTMLParser):
    """Elements and text of a page, as a browser would find them."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.links, self.ids = Counter(), [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        values = dict(attrs)
        self.links += [values["href"]] if tag == "a" else []
        self.ids += [values["id"]] if "id" in values else []

    def handle_data(self, data):
        self.text.append(data)


def test_pages_hold_every_document_once(tmp_path):
    run = many(tmp_path / "run", 250, changed=3)
    explorer = explore([run], tmp_path / "report")
    home = tmp_path / "report" / "samples"
    assert explorer.index == "samples/index.html"
    folder = home / "1-run"
    assert sorted(path.name for path in folder.iterdir()) == [
        f"{name}-{page}.html" for name in "ab" for page in (1, 2, 3)
    ]
    pages = {path.name: Texts(path.read_text("utf-8")) for path in folder.iterdir()}
    assert [pages[f"a-{i}.html"].tags["details"] for i in (1, 2, 3)] == [100, 100, 50]
    anchors = [each for page in pages.values() for each in page.ids]
    assert len(set(anchors)) == len(anchors) == 500
    assert {"../index.html", "a-1.html", "a-3.html"} == set(pages["a-2.html"].links)
    assert "a-2.html" in pages["a-3.html"].links
    for document in explorer.documents:
        place, _, anchor = document.link.partition("#")
        assert anchor in pages[place.rpartition("/")[2]].ids
    index = Texts((home / "index.html").read_text("utf-8"))
    assert all((home / link).is_file() for link in index.links if link != "../index.html")
    assert len(index.links) == 1 + 2 + 6
    assert not any(page.tags["script"] for page in pages.values())


def test_what_a_model_wrote_is_text_on_pages_and_in_names(tmp_path, run):
    explorer = explore([run], tmp_path)
    page = (tmp_path / "samples" / "1-run" / "sums-1.html").read_text("utf-8")
    text = environment().get_template("explorer.html.j2").render(explorer=explorer)
    for found in (Texts(page), Texts(text)):
        assert not found.tags["script"]
        assert not found.tags["img"]
        assert f"It is 7. {SCRIPT}\n— dense" in "".join(found.text)
        assert HYBRID in "".join(found.text)


def test_hostile_names_stay_below_the_folder(tmp_path):
    name = '../../x"><script>'
    made = rows("m", name, [1.0])
    folder = write_run(tmp_path / "run", made, models=[model("m")], tasks=[task(name, "acc", 1)])
    result = replace(read_result(folder), run_id="..")
    explorer = explore([Run(folder=folder, result=result)], tmp_path / "report")
    (document,) = explorer.documents
    place, _, _ = document.link.partition("#")
    assert re.fullmatch(r"samples/1-\.\./[A-Za-z0-9._-]+\.html", place)
    assert (tmp_path / "report" / place).resolve().is_relative_to(tmp_path / "report" / "samples")
    assert (tmp_path / "report" / place).is_file()
