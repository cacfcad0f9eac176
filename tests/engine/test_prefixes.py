"""Prompts that begin alike, against every way of dividing them, and by hand."""

import random

import pytest

from ladder_eval.engine.prefixes import Group, groups

HEADER = tuple(range(100, 200))


def saved(found):
    return sum(group.saved for group in found)


def best_by_trying(prompts, shortest):
    """Most tokens that any division of the sorted prompts into neighbours saves."""
    order = sorted(prompts)
    best = [0]
    for end in range(1, len(order) + 1):
        each = []
        for start in range(end):
            part = order[start:end]
            shared = min(len(prompt) for prompt in part) - 1
            while shared and len({prompt[:shared] for prompt in part}) > 1:
                shared -= 1
            each.append(best[start] + (len(part) - 1) * (shared if shared >= shortest else 0))
        best.append(max(each))
    return best[-1]


def test_a_header_is_shared_and_strangers_stay_alone():
    prompts = [(*HEADER, 1, 2), (7, 8), (*HEADER, 3), (*HEADER, 1, 4), (9,)]
    assert groups(prompts) == [Group((1,), 0), Group((4,), 0), Group((0, 3, 2), 100)]
    assert saved(groups(prompts)) == 200


def test_a_prompt_that_comes_again_keeps_a_token_of_its_own():
    """The last, after which the next is predicted; a prompt within another has none to share."""
    assert groups([HEADER] * 3) == [Group((0, 1, 2), 99)]
    assert groups([HEADER, (*HEADER, 1)]) == [Group((0, 1), 99)]
    assert groups([(1,), (1,)], shortest=1) == [Group((0,), 0), Group((1,), 0)]


@pytest.mark.parametrize(("own", "count"), [(30, 3), (90, 2)])
def test_what_saves_more_is_shared_of_a_header_and_longer_ones_within_it(own, count):
    """Two subjects of two questions each: 3 · 100 against 2 · (100 + own)."""
    subjects = [(*HEADER, *range(start, start + own)) for start in (300, 500)]
    prompts = [(*subject, question) for subject in subjects for question in (1, 2)]
    found = groups(prompts)
    assert len(found) == {3: 1, 2: 2}[count]
    assert saved(found) == {3: 3 * 100, 2: 2 * (100 + own)}[count]


def test_a_short_beginning_is_not_worth_it():
    prompts = [(*HEADER[:63], 1), (*HEADER[:63], 2)]
    assert [group.shared for group in groups(prompts)] == [0, 0]
    assert [group.shared for group in groups(prompts, shortest=63)] == [63]


@pytest.mark.parametrize("seed", range(30))
def test_no_other_division_saves_much_more(seed):
    draw = random.Random(seed)
    prompts = [tuple(draw.choices((0, 1), k=draw.randint(1, 9))) for _ in range(draw.randint(1, 9))]
    found = groups(prompts, shortest=2)
    assert sorted(i for group in found for i in group.members) == list(range(len(prompts)))
    for group in found:
        beginnings = {prompts[i][: group.shared] for i in group.members}
        assert len(beginnings) == 1
        assert min(len(prompts[i]) for i in group.members) > group.shared
    assert saved(found) >= 0.8 * best_by_trying(prompts, shortest=2)


def test_nothing_has_no_groups():
    assert groups([]) == []
