"""What the user sees: progress on standard error, tables on standard output."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text


class Terminal:
    """How a run goes on, on standard error.

    Lines, a spinner while nothing can be counted, and a bar a model in tokens. Where standard
    error is no terminal, spinner and bars are left out.
    """

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)

    def say(self, line: str) -> None:
        """Print a line that stays."""
        self._console.print(line, soft_wrap=True, markup=False)

    @contextmanager
    def working(self, on: str) -> Iterator[None]:
        """Show a spinner until the block is left."""
        with self._console.status(on):
            yield

    @contextmanager
    def rounds(self, total: int) -> Iterator["RoundsBar"]:
        """Show a bar of timed rounds, drawn between them only: nothing may run beside a round."""
        columns = (
            TextColumn("timing"),
            BarColumn(),
            TextColumn("{task.completed} of {task.total} rounds"),
        )
        hidden = not self._console.is_terminal
        with Progress(
            *columns, console=self._console, disable=hidden, auto_refresh=False
        ) as progress:
            yield RoundsBar(progress, total)

    @contextmanager
    def judging(self) -> Iterator["JudgingBar"]:
        """Show a bar of questions to a judge."""
        columns = (
            TextColumn("judging"),
            BarColumn(),
            TextColumn("{task.completed} of {task.total} verdicts"),
            TimeRemainingColumn(),
        )
        hidden = not self._console.is_terminal
        with Progress(*columns, console=self._console, disable=hidden) as progress:
            yield JudgingBar(progress)

    @contextmanager
    def scoring(self, model: str) -> Iterator["ScoringBar"]:
        """Show a bar for the scoring of one model."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f} of {task.total:,.0f} tokens"),
            TimeRemainingColumn(),
        )
        hidden = not self._console.is_terminal
        with Progress(*columns, console=self._console, disable=hidden) as progress:
            yield ScoringBar(progress, model)

    @contextmanager
    def programs(self, total: int) -> Iterator["RoundsBar"]:
        """Show a bar of programs that run."""
        columns = (
            TextColumn("running"),
            BarColumn(),
            TextColumn("{task.completed} of {task.total} programs"),
        )
        hidden = not self._console.is_terminal
        with Progress(*columns, console=self._console, disable=hidden) as progress:
            yield RoundsBar(progress, total)


class ScoringBar:
    """The bar of one model; it appears when scoring starts."""

    def __init__(self, progress: Progress, model: str) -> None:
        self._progress = progress
        self._model = model
        self._bar: TaskID | None = None
        self._whole, self._parts = 0, 0  # tokens of what has come, in one piece and in parts

    def start(self, tokens: int, share: float) -> None:
        """So many more tokens are going to be scored: a share of all, the rest thought alike."""
        if self._bar is None:
            self._bar = self._progress.add_task(self._model, total=0)
        self._parts += tokens
        self._progress.update(self._bar, total=self._whole + self._parts / share)
        if share == 1:
            self._whole, self._parts = self._whole + self._parts, 0

    def advance(self, tokens: int) -> None:
        """This many more tokens are scored, and their answers are on disk."""
        if self._bar is not None:
            self._progress.advance(self._bar, tokens)


class RoundsBar:
    """The bar of a timing."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._bar = progress.add_task("", total=total)
        progress.refresh()

    def advance(self, rounds: int) -> None:
        """This many more rounds are timed, and on disk."""
        self._progress.advance(self._bar, rounds)
        self._progress.refresh()


class JudgingBar:
    """The bar of questions to a judge; it appears when they are known."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def __call__(self, total: int) -> Callable[[], None]:
        """Show so many questions; what is returned advances the bar by one, from any thread."""
        bar = self._progress.add_task("", total=total)
        return partial(self._progress.advance, bar)


def print_page(page: RenderableType) -> None:
    """Print a table or a page of them on standard output.

    Narrower than a terminal's usual 80 columns, cells would be cut; a file has room for all.
    """
    console = Console()
    console.width = max(80 if console.is_terminal else 160, console.width)
    console.print(page)


def listing(title: str, headings: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A plain table; whole numbers are set to the right, with their thousands apart."""
    cells = [list(row) for row in rows]
    table = Table(title=Text(title), title_justify="left")
    for index, heading in enumerate(headings):
        numeric = all(isinstance(row[index], int) for row in cells)
        whole = numeric or index == 0  # names are there to be copied
        table.add_column(
            Text(heading), justify="right" if numeric else "left", overflow="fold", no_wrap=whole
        )
    for row in cells:
        table.add_row(*(Text(f"{cell:,}" if isinstance(cell, int) else str(cell)) for cell in row))
    return table
