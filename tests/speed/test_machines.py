"""Descriptions of machines, constants, and the files that hold them."""

import json
from dataclasses import asdict, replace

import pytest

from ladder_eval.errors import UsageError
from ladder_eval.speed.constants import Calibrated, Constants, calibrated, to_json
from ladder_eval.speed.hardware import machines

NAMES = ["a100_sxm", "h100_sxm", "h100_pcie", "h200", "b200", "mi300x", "l40s", "rtx_4090"]


def test_every_machine_has_its_sources_and_links():
    known = machines()
    assert list(known) == NAMES
    for machine in known.values():
        assert all(source.startswith("https://") for source in machine.sources)
        assert machine.flops["float16"] >= machine.flops["float32"]
        assert set(machine.links) <= {"p2p", "host", "network"}


def test_only_the_fitted_machine_has_constants_of_its_own():
    own = [name for name in NAMES if "of this machine" in calibrated(name).status]
    assert own == ["h100_sxm"]
    assert calibrated("b200").status.startswith("datasheet only, uncalibrated")


CONSTANTS = Constants(
    memory_efficiency=0.9,
    matmul_efficiency=0.5,
    kernel_seconds=4e-6,
    p2p_hop=1.2e-6,
    host_hop=3e-6,
    p2p_efficiency=0.75,
    host_efficiency=0.25,
    contention=0.2,
)


def planted(name):
    """A machine with CONSTANTS."""
    found = calibrated(name)
    return replace(found, calibration=replace(found.calibration, constants=CONSTANTS))


def test_links_are_shares_of_datasheets_and_hops_have_nccls_ratios():
    h100, pcie = planted("h100_sxm"), planted("h100_pcie")
    assert h100.link_bandwidth("p2p") == pytest.approx(0.75 * 450e9)
    assert h100.link_bandwidth("host") == pytest.approx(16e9)
    assert (h100.hop("p2p"), h100.hop("host")) == (1.2e-6, 3e-6)
    assert pcie.hop("p2p") == pytest.approx(2e-6)  # 1.0 µs by 0.6 µs
    assert h100.hop("network") == pytest.approx(5.4e-6)


def test_what_is_written_is_what_is_read(tmp_path):
    made = planted("h100_sxm")
    file = tmp_path / "constants.json"
    file.write_text(to_json(made.calibration), encoding="utf-8")
    assert calibrated("h100_sxm", file) == made
    assert calibrated("h200", file).status.endswith("with the constants of h100_sxm")
    file.write_text(to_json(made.calibration, made.machine), encoding="utf-8")
    assert calibrated(str(file)) == Calibrated(machine=made.machine, calibration=made.calibration)


LINK = {"title": "", "bandwidth": 1.0, "nccl_hop": 1.0, "reduces": True}


def spoiled(**changes):
    return json.dumps({"description": asdict(machines()["h100_sxm"]) | changes})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "can't be read as JSON"),
        ("{}", "describes no machine"),
        (json.dumps({"description": {"links": {}}}), "describes no machine"),
        ("[1]", "describes no machine"),
        ("[" * 10**5, "can't be read as JSON: it is nested too deeply"),
        (spoiled(memory_bandwidth="much"), "describes no machine"),
        (spoiled(memory_bytes=10**400), "describes no machine"),
        (spoiled(flops={"bfloat16": []}), "describes no machine"),
        (spoiled(links={"p2p": LINK | {"nccl_hop": {}}}), "describes no machine"),
    ],
)
def test_a_file_that_holds_no_machine_is_one_sentence(tmp_path, text, sentence):
    file = tmp_path / "machine.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=sentence):
        calibrated(str(file))


def test_a_file_that_holds_no_constants_is_one_sentence(tmp_path):
    file = tmp_path / "constants.json"
    file.write_text('{"constants": {"contention": 0.1}}', encoding="utf-8")
    with pytest.raises(UsageError, match="holds no constants"):
        calibrated("h100_sxm", file)


def test_what_a_machine_lacks_is_one_sentence():
    with pytest.raises(UsageError, match="known are a100_sxm, h100_sxm"):
        calibrated("h100")
    with pytest.raises(UsageError, match="has no link 'p2p'; it has host"):
        machines()["rtx_4090"].link("p2p")
    with pytest.raises(UsageError, match="with int8 isn't known"):
        machines()["h200"].peak("int8")
