"""What stands in a report's files, for each kind of run, and what must not stand there."""

import html.parser
import re
from dataclasses import replace

import pandas as pd
import pytest
from page_records import record, run_of
from report_records import build

from ladder_eval.errors import RecordError
from ladder_eval.report.block import Block
from ladder_eval.report.page import write
from ladder_eval.report.page.content import Document, Explorer, Figure
from ladder_eval.report.page.gather import MOST_PLOTTED, SHOWN_SCORES, gather
from ladder_eval.report.page.html import page_html
from ladder_eval.report.page.latex import block_latex, latex_text
from ladder_eval.report.page.markdown import page_markdown
from ladder_eval.report.page.tables import MEAN, frames
from ladder_eval.report.page.write import write_report
from ladder_eval.results.published import published_row


class Seen(html.parser.HTMLParser):
    """Tags, texts and addresses of a page; fails on tags that are closed in another order."""

    VOID = frozenset({"meta", "img", "link", "br", "input", "hr"})

    def __init__(self, text):
        super().__init__()
        self.open, self.addresses, self.tags, self.texts = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.addresses += [value for name, value in attrs if name in ("src", "href", "action")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"script", "style"} & set(self.open):
            self.texts.append(data)


def timed(result, **candidates):
    return replace(result, speed=(record(candidates or {"lad|der": 1.2}),))


def document(number=0, prompt="Which?"):
    return Document(
        run_id="run-1",
        task="arc_easy",
        subject="",
        doc_id=number,
        doc_hash=f"hash{number}",
        metric="acc",
        change="loss",
        prompt=prompt,
        target="A",
        answers=(),
    )


def explorer(*documents):
    return Explorer(documents=documents, total=len(documents), flips=0, index="")


def test_the_page_says_what_was_found(decided):
    page = gather([run_of(timed(decided))])
    seen = Seen(page_html(page))
    text = " ".join(seen.texts)
    (heading,) = [seen.texts[i] for i, each in enumerate(seen.texts) if each == page.headline]
    assert heading.startswith("lad|der is worse than dense by 25.0 points")
    assert "two requests were truncated" in text
    for words in ("80.0", "50.0", "−30.0", "0/12", "Some [CPU]", "acc_norm"):
        assert words in text
    assert [each.anchor for each in page.sections] == [
        "tradeoff",
        "accuracy",
        "speed",
        "conditions",
        "scores",
    ]


def test_sections_are_linked_and_tables_have_their_parts(decided):
    seen = Seen(page_html(gather([run_of(timed(decided))])))
    places = {attrs["id"] for _, attrs in seen.tags if "id" in attrs}
    links = [each[1:] for each in seen.addresses if each.startswith("#")]
    assert links
    assert set(links) <= places
    kinds = [tag for tag, _ in seen.tags]
    assert kinds.count("table") == kinds.count("thead") == kinds.count("tbody")
    assert kinds.count("tfoot") == 1  # the pooled row, which sorting leaves where it is


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", '" onload="x', "</style><b>"])
def test_names_are_text(name, decided):
    hostile = replace(
        decided,
        suite=name,
        warnings=(name,),
        models=tuple(replace(each, weights=name) for each in decided.models),
    )
    text = page_html(gather([run_of(hostile)], explorer=explorer(document(prompt=name))))
    seen = Seen(text)
    assert name not in text
    assert name in " ".join(seen.texts)
    assert not [attrs for _, attrs in seen.tags if "onload" in attrs]
    assert len([tag for tag, _ in seen.tags if tag == "script"]) == 1


def test_specifications_end_no_script(decided):
    figure = Figure(
        name="f",
        title="t",
        caption="c",
        alt='a "quoted" <alt>',
        svg="<svg/>",
        png=b"",
        spec={"title": "</script><script>alert(1)"},
    )
    text = page_html(gather([run_of(timed(decided))], {"speed": [figure]}))
    assert "</script><script>alert" not in text
    (image,) = [attrs for tag, attrs in Seen(text).tags if tag == "img"]
    assert image["alt"] == 'a "quoted" <alt>'
    assert image["src"].startswith("data:image/svg+xml;base64,")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The folder of the report on a run that was compared and timed, and has a hostile name."""
    folder = tmp_path_factory.mktemp("report")
    result = replace(build(arc=(0, 12, 20, 8), boolq=(1, 9, 20, 10)), run_id="=1+1")
    return write_report([run_of(timed(result), folder)], folder / "report").parent


def test_nothing_is_loaded_from_elsewhere(written):
    text = (written / "index.html").read_text()
    assert "default-src 'none'" in text
    for address in Seen(text).addresses:
        assert re.match(r"#|data:image/|samples/", address), address
    assert not re.search(r"@import|url\(\s*['\"]?http", text)
    assert len(text.encode()) <= write.LARGEST_BYTES


def test_markdown_has_the_same_tables(decided):
    page = gather([run_of(timed(decided))])
    text = page_markdown(page)
    assert text.startswith("# commonsense: run-1\n\n**lad\\|der is worse than dense")
    blocks = [*page.glance, *(block for each in page.sections for block in each.blocks)]
    for block in blocks:
        assert block.title.replace("|", "\\|") in text
    assert text.count("\n| ---") == len(blocks) + sum(len(each.folded) for each in page.sections)


def test_latex_letters():
    assert latex_text("a_b % & # $ {x} ~ ^ \\") == (
        r"a\_b \% \& \# \$ \{x\} \textasciitilde{} \textasciicircum{} \textbackslash{}"
    )
    assert latex_text("−1.2 ± 3 × — –") == r"$-$1.2 $\pm$ 3 $\times$ --- --"
    assert latex_text("[−1, 2]") == r"{}[$-$1, 2]"  # after \\ it would be an argument


def test_latex_table_by_hand():
    block = Block(
        title="100 %", columns=("task", "points"), rows=(("a_b", "−1"), ("all", "0")), total=True
    )
    assert block_latex(block, "tab:x") == (
        "\\begin{table}\n"
        "  \\centering\n"
        "  \\caption{100 \\%}\n"
        "  \\label{tab:x}\n"
        "  \\begin{tabular}{lr}\n"
        "    \\toprule\n"
        "    task & points \\\\\n"
        "    \\midrule\n"
        "    a\\_b & $-$1 \\\\\n"
        "    \\midrule\n"
        "    all & 0 \\\\\n"
        "    \\bottomrule\n"
        "  \\end{tabular}\n"
        "\\end{table}\n"
    )


def test_csv_has_numbers_as_numbers(written):
    differences = pd.read_csv(written / "tables" / "differences.csv")
    arc = differences[differences["task"] == "arc_easy"].iloc[0]
    assert (arc["difference"], arc["gains"], arc["losses"], arc["n"]) == (-0.3, 0, 12, 40)
    mean = differences[differences["task"] == MEAN].iloc[0]
    assert mean["difference"] == pytest.approx(-0.25)
    first = (written / "tables" / "differences.csv").read_text().splitlines()[1]
    assert first.startswith("'=1+1,lad|der,dense,arc_easy,acc_norm,40,0.8,0.5,-0.3")
    speed = pd.read_csv(written / "tables" / "speed.csv").set_index("arm")
    assert speed.loc["lad|der", "decode_speedup"] == 1.2
    assert speed.loc["dense", "tpot_ms"] == 40
    assert pd.isna(speed.loc["dense", "decode_speedup"])
    scores = pd.read_csv(written / "tables" / "scores.csv")
    assert len(scores) == 4
    assert scores["value"].between(0, 1).all()


def test_csv_runs_no_formula(written):
    for name in ("scores", "differences", "speed"):
        text = (written / "tables" / f"{name}.csv").read_text()
        assert not re.search(r"(^|,)=", text, re.MULTILINE)
        assert "'=1+1" in text


def test_every_table_and_plot_is_a_file(written):
    tables = {path.name for path in (written / "tables").iterdir()}
    assert {"glance-1.tex", "accuracy-1.tex", "speed-1.tex", "tradeoff-1.tex"} <= tables
    assert {"scores.csv", "differences.csv", "speed.csv"} <= tables
    plots = {path.name for path in (written / "figures").iterdir()}
    assert {"tradeoff.svg", "tradeoff.png", "differences.svg", "differences.png"} <= plots
    text = (written / "report.md").read_text()
    for name in re.findall(r"\]\((figures/[^)]+)\)", text):
        assert (written / name).is_file()


def bench(result):
    return replace(timed(result), models=(), tasks=(), scores=(), comparisons=(), baseline=None)


def imported(result):
    models = tuple(
        replace(
            each,
            origin="results.json of lm-eval",
            num_hidden_layers=None,
            parameters=None,
            tp_size=None,
            batch_size=None,
        )
        for each in result.models[:1]
    )
    tasks = tuple(replace(each, prompts_sha256="", data_sha256="") for each in result.tasks)
    scores = tuple(each for each in result.scores if each.model == "dense")
    made = replace(result.provenance, hardware={})
    return replace(
        result,
        models=models,
        tasks=tasks,
        scores=scores,
        comparisons=(),
        baseline=None,
        provenance=made,
    )


def pending(result):
    scores = tuple(each for each in result.scores if each.task != "boolq")
    compared = tuple(each for each in result.comparisons if each.task == "arc_easy")
    return replace(result, scores=scores, comparisons=compared, pending_tasks=("boolq",))


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda result: result, "its speed wasn't measured"),
        (lambda result: replace(result, comparisons=(), baseline=None), "Nothing was compared"),
        (bench, "Speed alone was measured"),
        (pending, "boolq waits for a judge"),
        (imported, "imported from results.json of lm-eval"),
    ],
)
def test_every_kind_of_run_has_a_report(made, words, tmp_path, decided):
    page = write_report([run_of(made(decided), tmp_path)], tmp_path / "report")
    assert words in " ".join(Seen(page.read_text()).texts)


def test_published_rows_stand_beside_measured_ones(decided):
    published = replace(published_row("ladder_1b"), model="lad|der")
    text = page_html(gather([run_of(replace(decided, published=(published,)))]))
    assert "published accuracy (not measured here)" in text
    assert "67.76" in text  # arc_easy of ladder-1b, in the paper's table


def test_several_runs_are_told_apart(decided, undecided):
    second = replace(undecided, run_id="run-2")
    page = gather([run_of(decided), run_of(second)])
    titles = [block.title for each in page.sections for block in each.blocks]
    assert {title.partition(":")[0] for title in titles} == {"run-1", "run-2"}
    assert page.headline.startswith("Of 2 candidates against dense, 1 is undecided and 1 is worse.")
    assert "run-2: two requests were truncated" in page.warnings
    assert len(frames([run_of(decided), run_of(second)])["scores"]) == 8


def test_many_scores_are_left_to_their_file(decided):
    many = replace(decided, scores=decided.scores * SHOWN_SCORES)
    (section,) = [each for each in gather([run_of(many)]).sections if each.anchor == "scores"]
    assert section.folded == ()
    assert "tables/scores.csv" in section.sentences[0]


def test_plots_of_some_runs_are_named_so(decided):
    runs = [run_of(replace(decided, run_id=f"run-{i}")) for i in range(MOST_PLOTTED + 1)]
    figure = Figure(name="f", title="t", caption="c", alt="a", svg="<svg/>", png=b"")
    page = gather(runs, {"accuracy": [figure]})
    (accuracy,) = [each for each in page.sections if each.anchor == "accuracy"]
    assert accuracy.sentences == ("Plots are of the first 8 of 9 runs; tables have all.",)


def test_a_page_that_is_too_large_has_fewer_documents(monkeypatch, tmp_path, decided):
    documents = explorer(*(document(i, "x" * 10_000) for i in range(40)))
    monkeypatch.setattr(write, "explore", lambda runs, folder: documents)
    monkeypatch.setattr(write, "vega_runtime", str)
    monkeypatch.setattr(write, "LARGEST_BYTES", 250_000)
    page = write_report([run_of(decided, tmp_path)], tmp_path / "report")
    assert page.stat().st_size <= 250_000
    assert page.read_text().count("x" * 10_000) in {5, 10, 20}


def test_a_page_that_is_still_too_large_has_fewer_tables(monkeypatch, decided):
    page = gather([run_of(decided)])
    whole = len(page_html(page).encode())
    monkeypatch.setattr(write, "LARGEST_BYTES", whole - 1)
    text = write._fitting(page)
    assert len(text.encode()) < whole
    assert "Further tables are in report.md" in text


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path, decided):
    (tmp_path / "report").write_text("a file")
    with pytest.raises(RecordError, match=r"choose another folder \(--out\)"):
        write_report([run_of(decided, tmp_path)], tmp_path / "report")


def test_the_mean_difference_is_told_from_one_task():
    alone = build(arc=(12, 0, 20, 8), boolq=(12, 0, 20, 8))
    one = replace(alone, comparisons=alone.comparisons[:1], tasks=alone.tasks[:1])
    assert (
        gather([run_of(one)])
        .verdicts[0]
        .sentences[0]
        .startswith("lad|der is better than dense: +30.0 points in arc_easy (95 % interval +")
    )
