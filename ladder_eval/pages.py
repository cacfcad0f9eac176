"""What a reader of a run's folder opens."""

from ladder_eval.report.leaderboard import leaderboard, to_csv
from ladder_eval.report.tables import markdown
from ladder_eval.results.records import RunResult
from ladder_eval.results.store import RunFolder

__all__ = ["write_pages"]


def write_pages(folder: RunFolder, result: RunResult) -> None:
    """Write report, leaderboard and result; the result comes last, since it makes a run.

    Raises:
        RecordError: If one of them can't be written.
    """
    folder.write_text("report.md", markdown(result))
    folder.write_text("leaderboard.csv", to_csv(leaderboard([result])))
    folder.write_result(result)
