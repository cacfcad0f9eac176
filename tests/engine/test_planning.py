"""Plans, held against trees that were walked by hand, and against what each request must see."""

import random

import pytest

from ladder_eval.engine.batching import Branch, Row, ScoringRequest, Target
from ladder_eval.engine.planning import BatchLimits, plan

WIDE = BatchLimits(tokens=1000, rows=1000)


def draw(chance, count, vocabulary=1000):
    return tuple(chance.choices(range(vocabulary), k=count))


def few_shot(subjects, documents, header, question, seed=0):
    """As of MMLU: for each subject a header, after it questions with four choices of one token."""
    chance = random.Random(seed)
    found = []
    for _ in range(subjects):
        shots = draw(chance, header)
        for _ in range(documents):
            context = shots + draw(chance, question)
            found += [ScoringRequest(context, (token,)) for token in range(4)]
    return found


def mixed(seed):
    """Requests of many shapes over few tokens, so that they share by chance as well."""
    chance = random.Random(seed)
    found = few_shot(3, 6, 50, 9, seed)
    for _ in range(30):
        context = draw(chance, chance.randint(1, 30), 3)
        found += [
            ScoringRequest(context, draw(chance, chance.randint(1, 6), 3))
            for _ in range(chance.randint(1, 4))
        ]
    chance.shuffle(found)
    return found


def seen(batch, row, column):
    """The tokens that a token of a row looks at, itself included: by the branches it is on."""
    branch = max((b for b in row.branches if b.start <= column), key=lambda b: b.start)
    columns = [*branch.after, *range(branch.start, column + 1)]
    assert [row.positions[c] for c in columns] == list(
        range(sum(map(len, batch.prefix)), sum(map(len, batch.prefix)) + len(columns))
    )
    return sum(batch.prefix, ()) + tuple(row.ids[c] for c in columns)


def test_a_question_and_its_choices_are_one_row():
    requests = [
        ScoringRequest((1, 2, 3), (7,)),
        ScoringRequest((1, 2, 3), (8, 9)),
        ScoringRequest((1, 2, 3), (4, 5, 6)),
    ]
    (batch,) = plan(requests, WIDE)
    assert batch.prefix == ()
    assert batch.rows == (
        Row(
            ids=(1, 2, 3, 4, 5, 8),
            positions=(0, 1, 2, 3, 4, 3),
            branches=(Branch(0, ()), Branch(3, (0, 1, 2)), Branch(5, (0, 1, 2))),
            targets=(
                Target(0, 2, 7),
                *(Target(2, column, token) for column, token in ((2, 4), (3, 5), (4, 6))),
                *(Target(1, column, token) for column, token in ((2, 8), (5, 9))),
            ),
        ),
    )


def test_a_shared_header_is_computed_once():
    batches = plan(few_shot(2, 20, header=300, question=40), BatchLimits(tokens=512, rows=99))
    assert sum(batch.tokens for batch in batches) == 2 * (300 + 20 * 40)
    assert [len(batch.prefix) for batch in batches] == [1, 1, 1, 1]
    # 800 tokens after each header, in two batches of about the same size.
    assert [batch.new_prefix for batch in batches] == [300, 0, 300, 0]
    assert [len(batch.rows) for batch in batches] == [10, 10, 10, 10]


def test_headers_within_a_header_are_kept_while_the_walk_is_below_them():
    chance = random.Random(1)
    preamble, shots = draw(chance, 200), [draw(chance, 100) for _ in range(2)]
    requests = [
        ScoringRequest(preamble + header + draw(chance, 60), (1,))
        for header in shots
        for _ in range(8)
    ]
    batches = plan(requests, BatchLimits(tokens=512, rows=99))
    assert [[len(piece) for piece in batch.prefix] for batch in batches] == [[200, 100]] * 2
    assert [batch.new_prefix for batch in batches] == [300, 100]


def test_a_prefix_that_spares_less_than_half_a_batch_is_left_in_the_rows():
    requests = few_shot(1, 6, header=50, question=200)
    (group,) = {batch.prefix for batch in plan(requests, BatchLimits(tokens=512, rows=99))}
    assert group == ()  # 5 x 50 tokens of 512
    more = few_shot(1, 7, header=50, question=200)
    (group,) = {batch.prefix for batch in plan(more, BatchLimits(tokens=512, rows=99))}
    assert len(group[0]) == 50


def test_what_predicts_the_first_token_is_never_left_to_the_prefix():
    context = tuple(range(600))
    requests = [ScoringRequest(context, (700 + i, 1, 2)) for i in range(4)]
    (batch,) = plan(requests, BatchLimits(tokens=512, rows=99))
    assert [len(piece) for piece in batch.prefix] == [599]
    # The last token of the context, and each continuation without its last.
    (row,) = batch.rows
    assert row.ids == (599, 700, 1, 701, 1, 702, 1, 703, 1)


def test_texts_that_share_little_are_rows_of_their_own():
    chance = random.Random(3)
    requests = [ScoringRequest((5, 6, *draw(chance, 40)), (1,)) for _ in range(9)]
    (batch,) = plan(requests, WIDE)
    assert [len(row.ids) for row in batch.rows] == [42] * 9


def test_long_rows_come_first_and_a_batch_stays_below_the_limits():
    requests = [ScoringRequest((size,) * size, (1,)) for size in (30, 300, 20, 40, 500, 3)]
    batches = plan(requests, BatchLimits(tokens=350, rows=2))
    assert [[len(row.ids) for row in batch.rows] for batch in batches] == [
        [500],
        [300],
        [40, 30],
        [20, 3],
    ]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("tokens", "rows"), [(1, 1), (40, 3), (64, 99), (4096, 99)])
def test_each_token_is_predicted_once_after_exactly_what_stands_before_it(seed, tokens, rows):
    requests = mixed(seed)
    found = {index: [] for index in range(len(requests))}
    for batch in plan(requests, BatchLimits(tokens=tokens, rows=rows)):
        assert len(batch.rows) <= rows
        for row in batch.rows:
            for target in row.targets:
                before = seen(batch, row, target.column)
                found[target.request].append((before, target.token))
    for index, request in enumerate(requests):
        whole, start = request.context + request.continuation, len(request.context)
        assert sorted(found[index], key=lambda pair: len(pair[0])) == [
            (whole[:end], whole[end]) for end in range(start, len(whole))
        ]


@pytest.mark.parametrize("seed", range(3))
def test_sharing_never_costs_tokens(seed):
    requests = mixed(seed)
    apart = sum(len(text) for text in {request.read for request in requests})
    nodes = {request.read[:end] for request in requests for end in range(1, len(request.read) + 1)}
    for tokens in (64, 4096):
        batches = plan(requests, BatchLimits(tokens=tokens, rows=99))
        assert len(nodes) <= sum(batch.tokens for batch in batches) <= apart


def test_a_run_that_goes_on_computes_the_batches_that_it_would_have():
    requests, limits = mixed(7), BatchLimits(tokens=64, rows=99)
    every = plan(requests, limits)
    done = frozenset().union(*(batch.requests for batch in every[:3]))
    rest = plan(requests, limits, set(range(len(requests))) - done)
    assert [(b.prefix, b.rows) for b in rest] == [(b.prefix, b.rows) for b in every[3:]]


def test_of_batches_with_some_answers_only_what_is_missing_is_computed():
    requests = few_shot(1, 4, header=300, question=40)
    (batch,) = plan(requests, WIDE, missing={2, 9})
    assert batch.requests == {2, 9}
    assert batch.tokens == 340 + 40
    assert plan(requests, WIDE, missing=set()) == []
    assert plan([], WIDE) == []
