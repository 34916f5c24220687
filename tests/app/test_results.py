"""What result.json says of an energy beside the one it is compared with."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tnvmc import PEPS, VMC, Enumerate, heisenberg, run_file, square
from tnvmc.app.recording import result_of
from tnvmc.operators.models import j1j2
from tnvmc.trust.energies import of_level
from tnvmc.trust.reference import Place, Reference, find_reference

OPERATOR = heisenberg(square(2, 2))
CONFIG = {"contraction": {"chi": 4}, "ansatz": {"D": 1}, "sampler": {"n_walkers": 8}}


@pytest.mark.filterwarnings("ignore::tnvmc.UnreliableWarning")
@pytest.mark.parametrize(
    ("method", "alarms"), [("extrapolated", 0), ("variational", 0), ("QMC", 1)]
)
def test_a_reference_with_an_error_is_no_bound(method: str, alarms: int, tmp_path: Path) -> None:
    """Of an upper bound or an estimate a state may lie below; of QMC it may not, beyond both errors."""
    vmc = VMC(OPERATOR, PEPS(OPERATOR.lattice, 1), Enumerate(threads=1))
    measured = vmc.measure()
    for distance, told in ((0.05, 0), (0.5, alarms)):
        known = Reference(measured.energy + distance, "somebody", method, 0.03)
        found = result_of(vmc, CONFIG, measured, known)
        assert found["exact_error"] == 0.03
        error = math.hypot(measured.energy_error, 0.03) / abs(known.energy or 1)
        assert found["relative_error_error"] == pytest.approx(error)
        energy = (measured.energy, measured.energy_error)
        place = Place(OPERATOR, 0, vmc.ansatz)
        of = [] if known.bound is None else of_level(energy, place, known=known.bound)
        assert [each.code for each in of].count("below_reference") == told


def test_frustrated_magnets_on_36_sites_have_the_energy_of_dmrg() -> None:
    known = find_reference(j1j2(square(6, 6), J2=0.5))
    assert known.method == "extrapolated" and known.error is not None and 0 < known.error < 1e-3
    assert known.energy is not None and -17.2474 - 4e-4 < known.energy < -17.247  # below each bound


@pytest.mark.whole
def test_an_energy_is_judged_once(tmp_path: Path) -> None:
    """Of a product state: what speaks against it stands with the measurement, and nowhere again."""
    settings = tmp_path / "run.toml"
    settings.write_text(
        "lattice.shape = [2, 3]\nhamiltonian.model = 'heisenberg'\nansatz.D = 1\n"
        "optimizer.steps = 2\n[sampler]\nn_walkers = 4\nn_samples = 16\n"
        "[measure]\nn_samples = 4096\n[run]\nthreads = 1\n"
    )
    result = run_file(settings, tmp_path / "run")
    measured = [found["code"] for found in result["diagnostics"]]
    later = [found["code"] for found in result["convergence"]["diagnostics"]]
    assert "above_reference" in measured
    assert len({*measured, *later}) == len(measured) + len(later)
    (far,) = [found for found in result["diagnostics"] if found["code"] == "above_reference"]
    assert far["values"]["relative"] == pytest.approx(result["signed_error"])
    assert far["values"]["lacks"] == "D"
