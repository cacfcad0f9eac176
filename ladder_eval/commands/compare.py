"""`compare` and `gate`: what may be claimed of a candidate, across finished runs."""

import json
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from ladder_eval.commands.shared import AsJson, sentences

if TYPE_CHECKING:
    from ladder_eval.results.compared import Compared
    from ladder_eval.results.sides import Side

Candidate = Annotated[
    str, typer.Argument(help="RUN or RUN:MODEL, a finished run and the candidate in it.")
]
Baseline = Annotated[
    str, typer.Argument(help="RUN or RUN:MODEL of the baseline; it may be the same run.")
]
Last = Annotated[
    bool,
    typer.Option("--last", help="Spend all of the claim's 5 %: no more documents will follow."),
]
ControlRun = Annotated[
    str | None,
    typer.Option(
        "--control", help="RUN[:MODEL] of the baseline itself at another batch size or tp_size."
    ),
]


def compare(
    a: Candidate,
    b: Baseline,
    margin: Annotated[
        float, typer.Option(help="Points that the candidate may lose.", min=0.0, max=100.0)
    ] = 1.0,
    last: Last = False,
    control: ControlRun = None,
    as_json: AsJson = False,
) -> None:
    """Compare a candidate A with a baseline B, document by document, and judge the endpoint.

    The primary endpoint is the mean difference of the tasks' headline metrics. It is PASS if the
    candidate is shown to lose less than the margin, FAIL if it is shown to lose more, else
    INCONCLUSIVE. The look is recorded in claims.jsonl beside A's run, the changed documents in its
    flips.csv.
    """
    with sentences():
        from ladder_eval.report.claims import claim_blocks, claim_lines
        from ladder_eval.report.tables import page
        from ladder_eval.terminal import print_page

        sides = _sides(a, b)
        compared = _compared(sides, margin, last=last, control=control)
        if as_json:
            _print_json({"comparison": compared})
        else:
            print_page(page(claim_blocks(compared, sides[0].result), claim_lines(compared)))


def gate(
    a: Candidate,
    b: Baseline,
    max_drop: Annotated[
        float, typer.Option(help="Points that A may lose in the mean.", min=0.0, max=100.0)
    ] = 1.0,
    min_speedup: Annotated[
        float, typer.Option(help="How many times as fast as B A has to be.", min=0.0)
    ] = 1.0,
    last: Last = False,
    control: ControlRun = None,
    as_json: AsJson = False,
) -> None:
    """Judge accuracy and speed of A beside B; exit 0 is GO, 1 NO-GO, 3 INCONCLUSIVE.

    Both are one-sided tests with at most 5 % of wrong verdicts, and GO needs both. The times are
    the rounds in A's run. Exit code 2 is wrong input.
    """
    with sentences():
        from ladder_eval.report.claims import (
            condition_lines,
            control_lines,
            endpoint_lines,
            speed_lines,
        )
        from ladder_eval.results.gate import EXIT_CODES, TimedRounds, judged, speed_axis

        sides = _sides(a, b)
        names = (sides[0].name, sides[1].name)
        timed = TimedRounds.read(sides[0].folder, *names)
        compared = _compared(sides, max_drop, last=last, control=control)
        speed = speed_axis(timed, *names, min_speedup)
        verdict = judged(compared.endpoint, speed)
        if as_json:
            _print_json({"verdict": verdict, "comparison": compared, "speed": speed})
        else:
            typer.echo(f"{verdict}: {names[0]} against {names[1]}")
            lines = (*endpoint_lines(compared), *control_lines(compared), *speed_lines(speed))
            for line in (*lines, *condition_lines(compared)):
                typer.echo(line)
    raise typer.Exit(EXIT_CODES[verdict])


def _sides(a: str, b: str) -> "tuple[Side, Side]":
    from ladder_eval.results.sides import baseline_side, candidate_side

    return candidate_side(a), baseline_side(b)


def _compared(
    sides: "tuple[Side, Side]", points: float, *, last: bool, control: str | None
) -> "Compared":
    from ladder_eval.results.compared import compare_runs
    from ladder_eval.results.sides import baseline_side

    again = baseline_side(control) if control else None
    return compare_runs(*sides, margin=points / 100, last=last, control=again)


def _print_json(records: Mapping[str, object]) -> None:
    """The records as JSON: fractions, and seconds over seconds."""
    plain = {
        name: asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
        for name, value in records.items()
    }
    typer.echo(json.dumps(plain, indent=2, allow_nan=False))
