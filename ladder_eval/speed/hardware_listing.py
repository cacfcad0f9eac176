"""The machines that have a name, as rows of a table."""

from collections.abc import Iterator

from ladder_eval.speed.constants import calibrated
from ladder_eval.speed.hardware import machines

MACHINE_HEADINGS = ("name", "machine", "TFLOP/s fp16", "TB/s", "GB", "links", "constants", "source")


def machine_rows() -> Iterator[tuple[object, ...]]:
    """A row a machine, in the columns of MACHINE_HEADINGS; links in one direction."""
    for name, machine in machines().items():
        links = (f"{link.title} {link.bandwidth / 1e9:.0f} GB/s" for link in machine.links.values())
        yield (
            name,
            machine.title,
            f"{machine.flops['float16'] / 1e12:.0f}",
            f"{machine.memory_bandwidth / 1e12:.2f}",
            f"{machine.memory_bytes / 1e9:.0f}",
            "; ".join(links),
            calibrated(name).status,
            " ".join(machine.sources),
        )
