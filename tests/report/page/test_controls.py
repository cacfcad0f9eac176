"""The baseline against itself: found among the runs of a page, and warned of where it changes."""

from run_folders import model, rows, task, write_run

from ladder_eval.report.page.content import Run
from ladder_eval.report.page.controls import controls
from ladder_eval.report.page.gather import gather
from ladder_eval.results.store import read_result

RIGHT = [1, 0] * 100


def run_at(folder, answers=RIGHT, *, with_candidate=False, prompt="asked", **changes):
    """A run of `dense`, alone or beside a candidate; returns it as a page takes it."""
    names = ["dense", "ladder"] if with_candidate else ["dense"]
    write_run(
        folder,
        [row for name in names for row in rows(name, "arc", answers, prompt=prompt)],
        models=[model(name, **changes) for name in names],
        tasks=[task("arc", "acc", len(answers))],
        baseline="dense" if with_candidate else None,
    )
    return Run(folder=folder, result=read_result(folder))


def test_a_baseline_run_otherwise_is_its_control(tmp_path):
    run = run_at(tmp_path / "run", with_candidate=True)
    again = run_at(tmp_path / "again", [0, *RIGHT[1:]], batch_size=1)
    (found,) = controls([run, again])
    assert found.sentence.startswith(
        "A/A control, dense against itself (batch_size 1, not 8): changed documents: 1, −0.5 "
    )
    assert not found.is_out_of_bounds
    page = gather([run, again])
    (accuracy,) = (section for section in page.sections if section.anchor == "accuracy")
    assert accuracy.sentences == (found.sentence,)
    assert not [text for text in page.warnings if "A/A" in text]


def test_a_control_that_changes_more_than_chance_is_warned_of(tmp_path):
    run = run_at(tmp_path / "run", with_candidate=True)
    wrong = run_at(tmp_path / "wrong", [0] * 40 + RIGHT[40:], tp_size=2)
    (found,) = controls([run, wrong])
    assert found.is_out_of_bounds  # 20 of 200 documents, all in one direction
    (warning,) = (text for text in gather([run, wrong]).warnings if "A/A" in text)
    assert "(tp_size 2, not 1): changed documents: 20, −10.0 " in warning


def test_what_is_no_control_is_left_alone(tmp_path):
    run = run_at(tmp_path / "run", with_candidate=True)
    alike = run_at(tmp_path / "alike")
    asked_otherwise = run_at(tmp_path / "asked", prompt="other", batch_size=1)
    other_dtype = run_at(tmp_path / "dtype", batch_size=1, dtype="bfloat16")
    assert controls([run, alike, asked_otherwise, other_dtype]) == ()
    assert controls([alike]) == ()  # no baseline
