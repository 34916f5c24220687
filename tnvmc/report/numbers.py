"""How numbers are written, in every text, table and picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tnvmc.shown import fixed, scientific, with_error


def per_site(held: Mapping[str, Any], n_sites: int | None) -> str | None:
    """Write the "energy" and "energy_error" (totals) of a step, a stage or a result per site.

    None where the energy is not finite or the number of sites is not known.
    """
    energy, error = held.get("energy"), held.get("energy_error")
    if energy is None or not n_sites:
        return None
    if error is None:
        return f"{fixed(energy / n_sites, 6)} +- unknown"
    return with_error(energy / n_sites, error / n_sites)


def ten_digits(value: float) -> str:
    """Write a number that has no error."""
    return fixed(value, 10)


def known_energy(value: float, error: float | None) -> str:
    """Write an energy to compare with: with its error, or ten digits where it has none."""
    return with_error(value, error) if error else ten_digits(value)


def short(value: float) -> str:
    """Write a small number with two digits: 1.1e-4."""
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}" if value else "0"


def signed(value: float, error: float | None) -> str:
    """Write a number with its sign and error as +3.20(49)e-5."""
    return ("+" if value >= 0 else "") + scientific(value, error)


def duration(seconds: float) -> str:
    """Write a time as "31.4 s", "2 min 5 s" or "1 h 3 min"."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = round(seconds) // 60
    if minutes < 60:
        return f"{minutes} min {round(seconds) % 60} s"
    return f"{minutes // 60} h {minutes % 60} min"
