"""How far a bar says that scoring has come."""

from rich.console import Console
from rich.progress import Progress

from ladder_eval.terminal import ScoringBar


def test_a_bar_takes_what_has_not_come_for_like_what_has():
    progress = Progress(console=Console(quiet=True))
    bar = ScoringBar(progress, "model")

    def total():
        return progress.tasks[0].total

    bar.start(100, 1.0)
    assert total() == 100
    bar.start(30, 0.25)  # a quarter of what comes next
    assert total() == 100 + 120
    bar.start(20, 0.5)
    assert total() == 100 + 100
    bar.start(70, 1.0)
    assert total() == 100 + 120
    bar.start(5, 1.0)
    assert total() == 225
