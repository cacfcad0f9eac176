"""Free memory of a machine and of the containers in it."""

import itertools

import pytest
import torch

from ladder_eval.engine import free_memory


def group_in(folder, limit):
    """A control group that has used 1200 bytes, 300 of them files that can be given back."""
    (folder / "memory.max").write_text(limit)
    (folder / "memory.current").write_text("1200\n")
    stat = "file 450\ninactive_file 300\nactive_file 150\ntotal_inactive_file 999\n"
    (folder / "memory.stat").write_text(stat)


def test_a_container_leaves_what_it_has_not_used_or_can_give_back(tmp_path):
    group_in(tmp_path, "5000\n")
    assert free_memory._group_bytes(tmp_path) == 5000 - 1200 + 300


@pytest.mark.parametrize("limit", ["max\n", None])
def test_a_container_without_a_limit_leaves_everything(tmp_path, limit):
    if limit is not None:
        group_in(tmp_path, limit)
    assert free_memory._group_bytes(tmp_path) == 2**63


def test_the_groups_of_a_process_are_its_own_and_those_around_it():
    groups = free_memory._control_groups()
    assert groups[-1] == free_memory._GROUPS
    assert all(inner.parent == outer for inner, outer in itertools.pairwise(groups))


def test_the_smallest_of_machine_and_containers_is_free(monkeypatch, tmp_path):
    cpu, left = torch.device("cpu"), {tmp_path / "inner": 90, tmp_path: 80}
    monkeypatch.setattr(free_memory, "_machine_bytes", lambda: 70)
    monkeypatch.setattr(free_memory, "_control_groups", lambda: list(left))
    monkeypatch.setattr(free_memory, "_group_bytes", left.__getitem__)
    assert free_memory.free_bytes(cpu, 2) == 70
    left[tmp_path] = 50
    assert free_memory.free_bytes(cpu, 2) == 50
    left[tmp_path / "inner"] = 40
    assert free_memory.free_bytes(cpu, 2) == 40
