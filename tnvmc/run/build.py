"""From settings to objects: lattice, operator, ansatz, sampler, optimizer, schedule, start."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tnvmc.ansatz.protocol import Ansatz
from tnvmc.lattice import Lattice, chain, from_bonds, shastry_sutherland, square
from tnvmc.operators import models
from tnvmc.operators.term import Operator
from tnvmc.run.config import AnsatzSettings, LatticeSettings, OptimizerSettings, Settings
from tnvmc.run.guard import Guard
from tnvmc.run.vmc import VMC, Enumerate
from tnvmc.sampling.chains import Sampler, check_magnetisation

Array = Any


def build_lattice(settings: LatticeSettings) -> Lattice:
    """Make the lattice of a [lattice] section."""
    shape = settings.shape
    if settings.kind == "chain":
        return chain(shape if isinstance(shape, int) else shape[0], settings.boundary)
    if settings.kind == "bonds":
        size = shape if isinstance(shape, int) else (1, *shape)[-2:]
        return from_bonds(size, [(i, j) for i, j in settings.bonds or ()])
    assert isinstance(shape, list)
    grid = {"square": square, "shastry_sutherland": shastry_sutherland}[settings.kind]
    return grid(shape[0], shape[1], settings.boundary)


def build_operator(settings: Settings) -> Operator:
    """Make the Hamiltonian of the [lattice] and [hamiltonian] sections."""
    couplings = settings.hamiltonian.model_dump(exclude={"model"}, exclude_none=True)
    model = getattr(models, settings.hamiltonian.model)
    return model(build_lattice(settings.lattice), **couplings)


def build_ansatz(settings: Settings, operator: Operator) -> Ansatz:
    """Make the wave function of the [ansatz] and [contraction] sections."""
    ansatz, lattice = settings.ansatz, operator.lattice
    if ansatz.kind == "product":
        from tnvmc.ansatz.product import ProductState

        return ProductState(lattice, operator.local_dim)
    if ansatz.kind == "dimer":
        from tnvmc.ansatz.product import DimerCovering

        return DimerCovering(lattice, _covering(lattice), operator.local_dim)
    assert ansatz.D is not None
    if ansatz.kind == "periodic_mps":
        from tnvmc.ansatz.mps import PeriodicMPS

        return PeriodicMPS(lattice, ansatz.D, np.dtype(ansatz.dtype), operator.local_dim)
    if ansatz.kind == "mps" and lattice.shape[0] != 1:
        raise ValueError(
            f"ansatz.kind = 'mps': needs a lattice of one row, this one has {lattice.shape[0]}; "
            "take kind = 'peps', or lattice.kind = 'chain'"
        )
    from tnvmc.ansatz.peps import PEPS

    return PEPS(lattice, ansatz.D, dtype=np.dtype(ansatz.dtype), scheme=_scheme(settings))


def _scheme(settings: Settings) -> Any:
    from tnvmc.contraction import schemes

    contraction = settings.contraction
    if contraction.chi is None or contraction.scheme == "exact":
        return schemes.Exact()
    by_name = {"src": schemes.SRC, "zipup": schemes.ZipUp, "variational": schemes.Variational}
    return by_name[contraction.scheme](chi=contraction.chi)


def _covering(lattice: Lattice) -> tuple[tuple[int, int], ...]:
    """Pairs that hold every site: the lattice's dimers, else neighbours in rows or columns."""
    if lattice.bonds.get("dimer"):
        return tuple((i, j) for i, j in lattice.bonds["dimer"])
    n_rows, n_cols = lattice.shape
    sites = np.arange(n_rows * n_cols).reshape(n_rows, n_cols)
    if n_cols % 2:
        sites = sites.T
    if sites.shape[1] % 2:
        raise ValueError(
            f"ansatz.kind = 'dimer': {n_rows} x {n_cols} sites cannot be paired; one side of the "
            "lattice must be even"
        )
    return tuple((int(i), int(j)) for i, j in sites.reshape(-1, 2))


def build_sampler(settings: Settings) -> Sampler | Enumerate:
    """Make the sampler of the [sampler] section."""
    sampler = settings.sampler
    if sampler.kind == "enumerate":
        return Enumerate(sampler.magnetisation, settings.run.threads)
    return Sampler(
        n_walkers=sampler.n_walkers,
        n_samples=sampler.n_samples,
        n_burn=sampler.n_burn,
        n_thin=sampler.n_thin,
        threads=settings.run.threads,
        chunk=sampler.chunk,
    )


def build_optimizer(settings: OptimizerSettings) -> Any:
    """Make the rule of the [optimizer] section."""
    from tnvmc.optimize.first_order import Adam, GradientDescent, RandomSign
    from tnvmc.optimize.sr import SR

    if settings.kind == "sr":
        return SR(diag_shift=settings.diag_shift, momentum=settings.momentum)
    return {"gradient": GradientDescent, "random_sign": RandomSign, "adam": Adam}[settings.kind]()
