"""Residuals with the work of an accuracy run: its lengths, in its batches, with made-up tokens.

What a token is changes no time here: nothing in the forward depends on it, and every text is
written to the length that the run has recorded.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from time import perf_counter

from ladder_eval.distributed.wire import Wire
from ladder_eval.engine.batching import Batch, Branch, Row, Target, Tokens
from ladder_eval.results.load import replay_rows
from ladder_eval.results.load_records import ReplayRecord, ReplayRound
from ladder_eval.results.recorded_work import RecordedBatch, ScoredRow
from ladder_eval.results.speed_records import Workload
from ladder_eval.speed.load import capacity, conditions
from ladder_eval.speed.measure import Measurement, in_rounds, order_of, wire_of
from ladder_eval.speed.subject import LoadedSubject

# Bytes that a rank sends for each target of a scored batch: four float32.
_SUMMARY_BYTES = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Replay:
    """What a run has computed.

    Attributes:
        run_id: The run.
        suite: Its suite.
        requests_of: Its model whose requests these are.
        all_requests: How many it has answered.
        seed: Of the draw of batches.
        batches: Those to compute again, in this order.
    """

    run_id: str
    suite: str
    requests_of: str
    all_requests: int
    seed: int
    batches: tuple[RecordedBatch, ...]

    @property
    def typical(self) -> Workload:
        """The batch whose prompts have the median number of tokens, padding counted."""
        order = sorted(map(_workload, self.batches), key=lambda w: w.batch_size * w.prompt_len)
        return order[len(order) // 2]

    @property
    def largest(self) -> Workload:
        """Rows, prompt and output that no batch exceeds."""
        each = list(map(_workload, self.batches))
        return Workload(
            batch_size=max(work.batch_size for work in each),
            prompt_len=max(work.prompt_len for work in each),
            output_len=max(work.output_len for work in each),
        )


def draw_batches(
    recorded: Sequence[RecordedBatch], requests: int | None, seed: int
) -> tuple[RecordedBatch, ...]:
    """Whole batches, drawn without order until they have so many requests; None takes all.

    Those that are drawn keep the order in which the run has computed them.
    """
    if requests is None:
        return tuple(recorded)
    order, drawn, count = list(range(len(recorded))), set[int](), 0
    Random(seed).shuffle(order)
    for index in order:
        if count >= requests:
            break
        drawn.add(index)
        count += recorded[index].requests
    return tuple(recorded[index] for index in sorted(drawn))


def time_replay(
    loaded: LoadedSubject, what: Measurement, replay: Replay, keep: Callable[[ReplayRound], None]
) -> ReplayRecord:
    """Compute all batches with each arm, round after round.

    Args:
        loaded: The subject.
        what: Its arms; the workload is the largest of the replay.
        replay: The batches.
        keep: Called with each round before the next, to write it down.
    """
    driver = loaded.driver
    driver.arrange(what.arms, what.carrier, _capacity(loaded, what, replay))

    # Once, as libraries prepare for the shapes that they see first; all arms have the same.
    free = None if what.link is None else what.link.wire(0.0)
    list(_seconds(loaded, what.baseline, free, replay.batches))

    def round_of(number: int) -> ReplayRound:
        wire = wire_of(driver, replace(what, workload=replay.typical))
        return ReplayRound(
            number=number,
            latency=None if wire is None else wire.latency,
            seconds={
                name: tuple(_seconds(loaded, name, wire, replay.batches))
                for name in order_of(what.arms, number)
            },
        )

    rounds = []
    for each in in_rounds(driver, what, round_of):
        keep(each)
        rounds.append(each)
    return _record(loaded, what, replay, rounds)


def _record(
    loaded: LoadedSubject, what: Measurement, replay: Replay, rounds: Sequence[ReplayRound]
) -> ReplayRecord:
    scored = [row for batch in replay.batches for row in batch.scored]
    texts = [text for batch in replay.batches for text in batch.written]
    neighbours = zip((None, *replay.batches), replay.batches, strict=False)
    read = sum(batch.new_prefix(before) for before, batch in neighbours)
    read += sum(row.tokens for row in scored) + sum(text.prompt_len for text in texts)
    written = sum(text.output_len for text in texts)
    return ReplayRecord(
        conditions=conditions(loaded, what, [each.latency for each in rounds]),
        run_id=replay.run_id,
        suite=replay.suite,
        requests_of=replay.requests_of,
        seed=replay.seed,
        requests=sum(batch.requests for batch in replay.batches),
        all_requests=replay.all_requests,
        scored=sum(row.requests for row in scored),
        batches=len(replay.batches),
        read_tokens=read,
        written_tokens=written,
        rows=replay_rows(loaded.subject.roles(), rounds, read + written),
    )


def _seconds(
    loaded: LoadedSubject, arm: str, wire: Wire | None, recorded: Sequence[RecordedBatch]
) -> Iterator[float]:
    """What each batch takes, from before the ranks are told to the last answer on rank 0."""
    driver, vocabulary = loaded.driver, loaded.subject.config.vocab_size
    for batch in recorded:
        made_up = _made_up(batch, vocabulary) if batch.scored else None
        prompts = [text.prompt_len for text in batch.written]
        outputs = [text.output_len for text in batch.written]
        start = perf_counter()
        if made_up is not None:
            yield driver.score_as(arm, made_up, wire) - start
        else:
            yield driver.write(arm, prompts, outputs, wire)[-1] - start


def _workload(batch: RecordedBatch) -> Workload:
    """A batch as one generation; scored rows are packed into one, a prefix comes in pieces."""
    if batch.scored:
        tokens = sum(row.tokens for row in batch.scored)
        longest = max(tokens, *(piece.tokens for piece in batch.prefix), 0)
        return Workload(batch_size=1, prompt_len=longest, output_len=1)
    return Workload(
        batch_size=len(batch.written),
        prompt_len=max(text.prompt_len for text in batch.written),
        output_len=max(text.output_len for text in batch.written),
    )


def _made_up(recorded: RecordedBatch, vocabulary: int) -> Batch:
    """A batch of the same lengths, of random tokens; equal pieces of prefixes are equal again."""

    def tokens(count: int, seed: str) -> Tokens:
        return tuple(Random(seed).choices(range(vocabulary), k=count))

    before = sum(piece.tokens for piece in recorded.prefix)
    rows = [_made_up_row(row, tokens(row.tokens, "row"), before) for row in recorded.scored]
    return Batch(tuple(tokens(p.tokens, p.digest) for p in recorded.prefix), tuple(rows))


def _made_up_row(row: ScoredRow, ids: Tokens, before: int) -> Row:
    first = row.tokens - row.sources
    columns = sorted(first + index % row.sources for index in range(row.targets))
    return Row(
        ids,
        tuple(range(before, before + row.tokens)),
        (Branch(0, ()),),
        tuple(Target(0, column, ids[0]) for column in columns),
    )


def _capacity(loaded: LoadedSubject, what: Measurement, replay: Replay) -> int:
    """Bytes of the largest message: a block's, or what is sent of the targets."""
    work = what.workload
    of_blocks = capacity(loaded, work.batch_size * work.prompt_len)
    targets = [sum(row.targets for row in batch.scored) for batch in replay.batches]
    return max(of_blocks, _SUMMARY_BYTES * max(targets))
