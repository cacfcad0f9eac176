"""A traced generation of two ranks and two layers, moment by moment."""

from ladder_eval.results.trace_records import ArmTrace, ComputeSpan, Message, RankTrace

MS = 1e-3


def span(kind, layer, begin, end, forward=0):
    return ComputeSpan(kind=kind, layer=layer, forward=forward, begin=begin * MS, end=end * MS)


def message(of, layer, start, wait, waited, sent, arrival):
    known = sent is not None
    return Message(
        of=of,
        layer=layer,
        forward=0,
        start=start * MS,
        started=(start + 0.01) * MS,
        wait=wait * MS,
        waited=waited * MS,
        sent=sent * MS if known else None,
        arrival=arrival * MS if known else None,
    )


RANK_0 = RankTrace(
    rank=0,
    spans=(
        span("attention", 0, 1000, 1001),
        span("mlp", 0, 1004, 1006),
        span("attention", 1, 1009, 1010),
        span("mlp", 1, 1013, 1015),
    ),
    messages=(
        message("attention", 0, 1001, 1001.5, 1004, 1002, 1003.75),
        message("mlp", 0, 1006, 1006, 1009, 1006, 1008.5),
        message("attention", 1, 1010, 1010, 1013, None, None),
        message("token", None, 1015, 1015, 1016, None, None),
    ),
)
RANK_1 = RankTrace(rank=1, spans=(span("attention", 0, 999, 1002),), messages=())
STANDARD = ArmTrace(arm="standard", ranks=(RANK_0, RANK_1))
FAST = ArmTrace(
    arm="no-comm <&>",
    ranks=(
        RankTrace(
            rank=0,
            spans=(
                span("attention", 0, 5000, 5001),
                span("mlp", 0, 5001, 5003),
                span("attention", 1, 5003, 5004),
                span("mlp", 1, 5004, 5006),
            ),
            messages=(),
        ),
        RANK_1,
    ),
)
