"""The parts of README.md and docs/leaderboard.md that are made from published results and columns.

python -m ladder_eval.report.generated

rewrites them in the checkout that it is called in.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ladder_eval.errors import RecordError
from ladder_eval.report.board_columns import MODEL_COLUMNS, SCORE_COLUMNS, columns_markdown
from ladder_eval.report.board_pages import board_blocks
from ladder_eval.report.leaderboard import leaderboard
from ladder_eval.report.tables import block_markdown
from ladder_eval.results.files import atomic_write
from ladder_eval.results.records import RunResult
from ladder_eval.results.store import find_runs, read_result

__all__ = ["PAGES", "problems", "published_table", "rewritten", "sections"]

PAGES: Final = ("README.md", "docs/leaderboard.md")
"""The pages that have generated parts."""

_NOTHING: Final = "No result is published yet."


def sections(reports: Path) -> dict[str, str]:
    """The Markdown of each generated part, by its name.

    Raises:
        RecordError: If a published result can't be read or breaks the rules for one.
    """
    return {
        "published results": published_table(reports),
        "columns": columns_markdown(MODEL_COLUMNS),
        "columns by task": columns_markdown(SCORE_COLUMNS),
    }


def published_table(reports: Path) -> str:
    """The leaderboard of the published results as Markdown, or a sentence if there is none.

    Raises:
        RecordError: If one can't be read or breaks the rules for one.
    """
    results = [read_result(run) for run in find_runs(reports)]
    for result in results:
        if found := problems(result):
            raise RecordError(f"{result.run_id} can't be published: {'; '.join(found)}.")
    if not any(result.models for result in results):
        return _NOTHING
    blocks = board_blocks(leaderboard(results))
    return "\n\n".join(block_markdown(block).removeprefix("## ") for block in blocks)


def problems(result: RunResult) -> list[str]:
    """What keeps a result from being published, by those rules of reports/README.md that it shows.

    A result made here names a clean commit and has the hashes of its data; of an imported one it is
    known what was asked. Nothing in it may wait for a judge.
    """
    found = []
    if any(not model.origin for model in result.models):
        commit = result.provenance.commit
        if commit is None or commit.endswith("-dirty"):
            found.append("it wasn't made from a clean commit")
        if not all(task.data_sha256 for task in result.tasks):
            found.append("a task has no hash of its data")
    elif not all(task.documents_sha256 for task in result.tasks):
        found.append("it was imported without samples")
    if result.pending_tasks:
        found.append(f"{', '.join(result.pending_tasks)} wait for a judge")
    return found


def rewritten(text: str, parts: Mapping[str, str]) -> str:
    """A page with the parts between its markers in place of what was there."""
    for name, part in parts.items():
        begin, end = f"<!-- {name}: generated -->\n", f"<!-- end of {name} -->"
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if found and closed:
            text = f"{before}{begin}\n{part}\n\n{end}{after}"
    return text


if __name__ == "__main__":
    made = sections(Path("reports"))
    for page in map(Path, PAGES):
        atomic_write(page, rewritten(page.read_text(encoding="utf-8"), made))
