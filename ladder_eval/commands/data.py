"""`data` and what is below it: what is at hand, getting, checking and packing it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ladder_eval.commands.shared import DataDir, PreferHub, sentences

if TYPE_CHECKING:
    from ladder_eval.harness.catalogue import DataSources

app = typer.Typer(help="Benchmark data: what is at hand, and getting it.")

Wanted = Annotated[
    list[str] | None,
    typer.Argument(help="Suites, tasks or data sets.", show_default="quick, or all to verify"),
]


@app.callback()
def data(ctx: typer.Context, data_dir: DataDir = None) -> None:
    """List the splits of all data sets, their official size and licence, and what is at hand."""
    if ctx.invoked_subcommand is None:
        with sentences():
            from ladder_eval.harness.data.listing import DATA_HEADINGS, data_rows
            from ladder_eval.terminal import listing, print_page

            print_page(listing("Data sets", DATA_HEADINGS, data_rows(data_dir)))


@app.command("fetch")
def data_fetch(
    names: Wanted = None, data_dir: DataDir = None, prefer_hub: PreferHub = None
) -> None:
    """Get the data of suites into the cache, so that a run needs no network."""
    with sentences(interrupted="what was fetched is kept"):
        from ladder_eval.harness.catalogue import load
        from ladder_eval.harness.data.length_files import length_files_if_any, need_length_files
        from ladder_eval.harness.data.wanted import wanted_splits

        sources = _data_sources(data_dir, prefer_hub)
        found = load(wanted_splits(names or ["quick"]), sources)
        if need_length_files(found):
            length_files_if_any(sources)
        rows = sum(len(split.rows) for split in found.values())
        splits = "1 split" if len(found) == 1 else f"{len(found)} splits"
        typer.echo(f"At hand: {splits} with {rows:,} rows.")


@app.command("verify")
def data_verify(names: Wanted = None, data_dir: DataDir = None) -> None:
    """Hold what is at hand against the official data; exit with 1 if any of it differs."""
    with sentences():
        from ladder_eval.harness.data.checking import VERIFY_HEADINGS, check, check_rows
        from ladder_eval.harness.data.wanted import all_splits, wanted_splits
        from ladder_eval.terminal import listing, print_page

        wanted = wanted_splits(names) if names else all_splits()
        checked = check(wanted, _data_sources(data_dir, None))
        print_page(listing("Data at hand", VERIFY_HEADINGS, check_rows(checked)))
        if any(one.differs for one in checked):
            raise typer.Exit(1)


@app.command("pack")
def data_pack(
    out: Annotated[Path, typer.Argument(help="Folder to write, absent or empty.")],
    names: Wanted = None,
    data_dir: DataDir = None,
    prefer_hub: PreferHub = None,
) -> None:
    """Write the data of suites into one folder, for `--data-dir` without network or cache."""
    with sentences(interrupted="nothing was written"):
        from ladder_eval.harness.catalogue import load
        from ladder_eval.harness.data.packing import require_empty, write_pack
        from ladder_eval.harness.data.wanted import wanted_splits

        require_empty(out)
        sources = _data_sources(data_dir, prefer_hub)
        found = load(wanted_splits(names or ["quick"]), sources)
        typer.echo(str(write_pack(out, found, sources)))


def _data_sources(data_dir: Path | None, prefer_hub: bool | None) -> "DataSources":
    from ladder_eval.harness.catalogue import DataSources

    return DataSources(
        data_dir=data_dir, prefer_hub=bool(prefer_hub), notify=lambda s: typer.echo(s, err=True)
    )
