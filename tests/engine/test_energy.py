"""Energy counters of GPUs that aren't there."""

import sys
from types import SimpleNamespace

import pytest
import torch

from ladder_eval.engine.energy import EnergyCounter, total


class FakeError(Exception):
    pass


@pytest.fixture
def gpu(monkeypatch):
    """A device, and a binding that knows a GPU by its UUID and counts millijoules."""
    counts = iter([5_000, 12_500])
    binding = SimpleNamespace(
        NVMLError=FakeError,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID={"GPU-ab-cd": "handle"}.__getitem__,
        nvmlDeviceGetTotalEnergyConsumption=lambda handle: next(counts),
    )
    monkeypatch.setitem(sys.modules, "nvml_for_a_test", binding)
    properties = SimpleNamespace(uuid="ab-cd")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    return binding


def counter_of(device="cuda:0"):
    return EnergyCounter(torch.device(device), binding="nvml_for_a_test")


def test_a_gpu_counts_joules(gpu):
    counter = counter_of()
    assert counter.gpu == "GPU-ab-cd"
    assert (counter.joules(), counter.joules()) == (5.0, 12.5)


def refuse(*_):
    raise FakeError


@pytest.mark.parametrize(
    "function", ["nvmlInit", "nvmlDeviceGetHandleByUUID", "nvmlDeviceGetTotalEnergyConsumption"]
)
def test_what_nvml_refuses_is_not_known(gpu, function):
    setattr(gpu, function, refuse)
    assert counter_of().joules() is None


@pytest.mark.usefixtures("gpu")
def test_without_a_gpu_or_a_binding_nothing_is_known():
    assert counter_of("cpu").joules() is None
    absent = EnergyCounter(torch.device("cuda:0"), binding="no_such_binding")
    assert (absent.gpu, absent.joules()) == (None, None)


def test_ranks_on_one_gpu_saw_the_same_energy():
    assert total([("a", 3.0), ("b", 4.0)]) == 7
    assert total([("a", 3.0), ("a", 3.25), ("b", 4.0)]) == 7.25
    assert total([("a", 3.0), (None, None)]) is None
    assert total([("a", None)]) is None
