"""Results in a terminal and in a notebook: one line, a table; total and per site, digits as errors have them."""

from __future__ import annotations

from typing import Any

import pytest

from tnvmc import (
    PEPS,
    VMC,
    Enumerate,
    NonHermitian,
    Sampler,
    exact_ground_state,
    heisenberg,
    square,
)

OPERATOR = heisenberg(square(2, 2))
FEW = Sampler(n_walkers=8, n_samples=32, threads=1)


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    vmc = VMC(OPERATOR, PEPS(OPERATOR.lattice, 2), FEW)
    history = vmc.run(2)
    convergence = vmc.converge([2, 4], 64)
    skew = NonHermitian.from_products(OPERATOR.lattice, [("S+ S-", (0, 1))])
    return {
        "record": history[0],
        "history": history,
        "measurement": vmc.measure(64),
        "expectation": vmc.expect(OPERATOR, 64),
        "complex": vmc.expect(skew, 64),
        "convergence": convergence,
        "double layer": convergence.double_layer,
        "exact": exact_ground_state(OPERATOR),
        "operator": OPERATOR,
        "lattice": OPERATOR.lattice,
        "vmc": vmc,
        "peps": vmc.ansatz,
        "sampler": FEW,
    }


WITH_TABLE = (
    "record", "history", "measurement", "expectation", "complex", "convergence",
    "double layer", "exact", "operator", "lattice",
)  # fmt: skip
WITH_ENERGY = (
    "history", "measurement", "expectation", "complex", "convergence", "double layer",
    "exact",
)  # fmt: skip


@pytest.mark.whole
def test_all_fit_a_line_or_two(results: dict[str, Any]) -> None:
    for name, result in results.items():
        assert "\n" not in repr(result), name
        assert len(repr(result)) < 330, name
        assert " object at 0x" not in repr(result), name


@pytest.mark.parametrize("name", WITH_TABLE)
def test_notebooks_show_a_table(results: dict[str, Any], name: str) -> None:
    html = results[name]._repr_html_()
    assert html.startswith('<div class="tnvmc"><table><caption>')
    assert html.count("<tr>") >= 2


@pytest.mark.parametrize("name", WITH_ENERGY)
def test_totals_and_per_site_are_named(results: dict[str, Any], name: str) -> None:
    assert "per site" in repr(results[name]).replace("_", " ")
    assert "per site" in results[name]._repr_html_().replace("_", " ")


def test_a_record_says_that_it_is_a_total(results: dict[str, Any]) -> None:
    assert "total energy" in repr(results["record"])
    assert "<td>total</td>" in results["record"]._repr_html_()


def test_the_exact_energy_has_all_digits(results: dict[str, Any]) -> None:
    assert "energy -2.0000000000, per site -0.5000000000 (S.S units, 2 Sz = 0)" in repr(
        results["exact"]
    )


def test_enumeration_has_no_error_to_show() -> None:
    vmc = VMC(OPERATOR, PEPS(OPERATOR.lattice, 2), Enumerate(threads=1))
    assert "(" not in repr(vmc.measure()).split("energy")[1].split(",")[0]
