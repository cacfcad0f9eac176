"""What a GPU consumes, by its own counter; none where nobody counts.

NVML counts the energy of a GPU since its driver was loaded, in millijoules, from Volta on
(nvmlDeviceGetTotalEnergyConsumption). It renews the count some ten times a second, so that short
generations are told coarsely. Its Python binding, the package nvidia-ml-py, is asked if it is
there, and never required.
"""

import importlib
from contextlib import suppress
from typing import Any

import torch


class EnergyCounter:
    """The energy counter of one device.

    Args:
        device: What a rank computes on.
        binding: Name of the module that binds NVML.
    """

    def __init__(self, device: torch.device, binding: str = "pynvml") -> None:
        self.gpu: str | None = None
        self._nvml: Any = None
        self._handle: Any = None
        if device.type != "cuda":
            return
        uuid = f"GPU-{torch.cuda.get_device_properties(device).uuid}"
        with suppress(ImportError):
            self._nvml = importlib.import_module(binding)
        if self._nvml is None:
            return
        with suppress(self._nvml.NVMLError):
            self._nvml.nvmlInit()
            self._handle = self._nvml.nvmlDeviceGetHandleByUUID(uuid)
            self.gpu = uuid

    def joules(self) -> float | None:
        """Energy until now, from some start; None where the device doesn't say."""
        if self._handle is None:
            return None
        with suppress(self._nvml.NVMLError):
            return float(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)) / 1e3
        return None


def total(consumed: list[tuple[str | None, float | None]]) -> float | None:
    """Joules of all GPUs, from what each rank saw of its own; ranks that share one saw the same.

    None where one of them doesn't say.
    """
    by_gpu: dict[str, float] = {}
    for gpu, joules in consumed:
        if gpu is None or joules is None:
            return None
        by_gpu[gpu] = max(joules, by_gpu.get(gpu, 0.0))
    return sum(by_gpu.values())
