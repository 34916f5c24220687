"""``tnvmc exact``: the ground state of a settings file by diagonalisation, and other levels."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from tnvmc.exact import (
    ExactResult,
    Sector,
    check_size,
    exact_ground_state,
    exact_levels,
    smallest_sector,
)
from tnvmc.operators.fermions import sector_text
from tnvmc.operators.properties import particles_of
from tnvmc.operators.term import Operator
from tnvmc.report.describe import symmetries_text
from tnvmc.report.numbers import in_columns
from tnvmc.series.kind import Series
from tnvmc.series.level_checks import sector_references
from tnvmc.series.machine import AVERAGE, SCAN, SECTORS
from tnvmc.settings.build import quantum_numbers
from tnvmc.settings.config import Settings, build_operator
from tnvmc.settings.load import read_toml, validate, with_overrides
from tnvmc.settings.model_settings import n_sites
from tnvmc.settings.problems import ConfigError
from tnvmc.shown import fixed
from tnvmc.trust.reference import DIAGONALISED_AT_ONCE, elsewhere, lowest_levels


def exact_text(path: Path, overrides: Sequence[str] = (), sector: int | None = None) -> str:
    """Diagonalise what a settings file describes, and write what was found.

    Of a file with [[sector]], [scan] or [average] the energy of each; with [[orthogonal]] also the
    level that its run is compared with.  `sector` is twice the total Sz; by default that of the
    file, or the smallest.

    Raises:
        ConfigError: settings that cannot be used, or sectors that all take more than seconds.
        TooLargeError: too many states.
    """
    data = read_toml(path)
    settings = validate(data, overrides)
    check_size(n_sites(settings.lattice))
    if (kind := SCAN if settings.scan else AVERAGE if settings.average else None) is not None:
        return "\n".join(_of_scan(kind.expand(with_overrides(data, overrides), path.stem), sector))
    if settings.sector is not None and sector is None:
        return "\n".join(_of_sectors(SECTORS.expand(with_overrides(data, overrides), path.stem)))
    return "\n".join(_of_run(settings, build_operator(settings), sector))


def _of_run(settings: Settings, operator: Operator, sector: int | None) -> Iterator[str]:
    """Of one sector: level 1, that of a state summed over symmetries or beside [[orthogonal]]."""
    level = len(settings.orthogonal or ())
    if operator.fermions is not None and sector is not None:
        raise ConfigError("--sector is one of spins; of fermions --set sampler.particles=...")
    chosen = _chosen(settings, operator, sector)
    exact = exact_ground_state(operator, chosen)
    space = sector_text(exact.sector, exact.particles) or "full space"
    yield f"{operator.name}, {operator.n_sites} sites, {space}, dimension {exact.dimension}"
    yield f"energy           {fixed(exact.energy, 12)}  ({exact.units} units)"
    yield f"energy per site  {fixed(exact.energy_per_site, 12)}"
    yield f"|(H - E) psi|    {exact.residual:.1e}"
    if exact.inversion is not None:
        parity = "even" if exact.inversion > 0 else "odd"
        yield f"spin inversion   {parity}, the lower of both"
    yield from _lower(exact, operator)
    yield from _symmetrised(settings, operator, exact)
    if level:
        levels = exact_levels(operator, level + 1, chosen)
        lower = "the ground state" if level == 1 else f"the {level} lowest levels"
        text = "none: the sector has fewer states"
        if len(levels) > level:
            note = f"(if [[orthogonal]] keeps {lower}; its runs are not read)"
            text = f"{fixed(float(levels[level]), 12)}  {note}"
        yield f"{f'level {level + 1}':<16} {text}"


def _chosen(settings: Settings, operator: Operator, sector: int | None) -> Sector:
    """Give the sector that is asked for, or that of the file, or the smallest."""
    own = settings.sampler.magnetisation if operator.conserves_magnetisation else None
    given = own if sector is None else sector
    return smallest_sector(operator) if given is None else given


def _lower(exact: ExactResult, operator: Operator, place: str = "") -> Iterator[str]:
    """Tell of another sector whose energy is lower, or may be."""
    for found in elsewhere((exact.energy, 0.0), operator, exact.sector, DIAGONALISED_AT_ONCE):
        if "other" in found.values:
            there, other = fixed(found.values["energy_per_site"], 12), found.values["other"]
            yield f"lower            {place}{there} per site with 2 Sz = {other} (--sector {other})"
        else:
            hint = "another sector may lie lower, and not all were compared; --sector 2SZ takes one"
            yield f"note             {place}{hint}"


def _symmetrised(
    settings: Settings, operator: Operator, exact: ExactResult, place: str = ""
) -> Iterator[str]:
    """Give the level of a state that is summed over symmetries, which its run is compared with."""
    if (group := quantum_numbers(settings, operator).group) is not None:
        own = lowest_levels(operator, exact.sector, 1, DIAGONALISED_AT_ONCE, group)
        text = "not found: too many states, or none" if own is None else fixed(float(own[0]), 12)
        yield f"symmetrised      {place}{text}  (lowest with the characters of the runs)"


def _of_scan(asked: Series, sector: int | None) -> Iterator[str]:
    """A line for each value."""
    rows, lower = [("value", "sector", "energy", "per site")], list[str]()
    for name, run in asked.runs.items():
        operator = build_operator(run)
        exact = exact_ground_state(operator, _chosen(run, operator, sector))
        space = sector_text(exact.sector, exact.particles) or "full space"
        rows.append((name, space, fixed(exact.energy, 12), fixed(exact.energy_per_site, 12)))
        lower += _symmetrised(run, operator, exact, f"{name}: ")
        lower += _lower(exact, operator, f"{name}: ")
    yield f"{asked.operator.name}, {asked.operator.units} units"
    yield from in_columns(rows)
    yield from lower


def _of_sectors(asked: Series) -> Iterator[str]:
    """A line for each: what its run is compared with."""
    operator, rows = asked.operator, [("sector", "2 Sz", "state", "energy", "per site")]
    for name, reference in sector_references(asked).items():
        sector, energies = asked.runs[name].sampler.magnetisation, ("-", "-")
        if reference.energy is not None and reference.method == "exact":
            energy, n_sites = reference.energy, operator.n_sites
            energies = fixed(energy, 12), fixed(energy / n_sites, 12)
        rows.append((name, "-" if sector is None else str(sector), _state(asked, name), *energies))
    if all(row[3] == "-" for row in rows[1:]):
        raise ConfigError(
            "no sector is diagonalised in a few seconds; --sector 2SZ takes the time for one"
        )
    space = sector_text(None, particles_of(operator, operator.magnetisation))
    sizes = ", ".join(filter(None, [f"{operator.n_sites} sites", space]))
    yield f"{operator.name}, {sizes}, {operator.units} units"
    yield from in_columns(rows)


def _state(asked: Series, name: str) -> str:
    """Name the symmetries of a state, and those it is kept orthogonal to: "-" without any."""
    summed = symmetries_text(asked.runs[name].as_dict()["ansatz"]).removeprefix("symmetrised over ")
    kept = [f"orthogonal to {', '.join(off)}"] if (off := asked.details.orthogonal_to[name]) else []
    return ", ".join([*filter(None, [summed]), *kept]) or "-"
