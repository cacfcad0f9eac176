"""What a wait is for, by hand."""

import pytest

from ladder_eval.results.trace_records import Message, WaitParts


def wait_of(begin, end, sent, arrival):
    message = Message(
        of="mlp",
        layer=3,
        forward=1,
        start=begin,
        started=begin,
        wait=begin,
        waited=end,
        sent=sent,
        arrival=arrival,
    )
    return message.parts()


@pytest.mark.parametrize(
    ("wait", "sent", "arrival", "skew", "link", "wake_up"),
    [
        # The last rank sends 2 into the wait, the sum arrives 5 later, and is there 1 later.
        ((10, 18), 12, 17, 2, 5, 1),
        # All have sent before: the rest of the way is waited for.
        ((10, 18), 4, 17, 0, 7, 1),
        # It has arrived before: only the sum is made.
        ((10, 11), 4, 9, 0, 0, 1),
        # Nothing is waited for.
        ((10, 10), 4, 9, 0, 0, 0),
    ],
)
def test_a_wait_is_for_ranks_then_for_the_link_then_for_the_sum(
    wait, sent, arrival, skew, link, wake_up
):
    assert wait_of(*wait, sent, arrival) == WaitParts(skew=skew, link=link, wake_up=wake_up)


@pytest.mark.parametrize(("sent", "arrival"), [(None, 5), (5, None), (None, None)])
def test_nobody_knows_what_a_wait_was_for_without_the_arrival(sent, arrival):
    assert wait_of(1, 9, sent, arrival) is None
