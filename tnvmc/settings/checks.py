"""Checks of settings that need the Hamiltonian."""

from __future__ import annotations

from tnvmc.operators.symmetry import symmetry_group
from tnvmc.operators.term import Operator
from tnvmc.settings.config import Settings
from tnvmc.settings.load import ConfigError


def check_symmetries(settings: Settings, operator: Operator, direct: bool = False) -> None:
    """Raise a ValueError where what is measured cannot be symmetrised as the settings ask.

    `direct` says that samples are drawn directly whatever the settings say.
    """
    if not settings.measure.symmetrise:
        return
    symmetry_group(operator, settings.measure.symmetrise)
    if settings.sampler.kind == "direct":
        raise ConfigError(
            "measure.symmetrise: a symmetrised state cannot be drawn directly; take "
            "sampler.kind = 'metropolis' (or 'enumerate')"
        )
    if direct:
        raise ConfigError(
            "measure.symmetrise: a symmetrised state cannot be drawn directly; leave out --direct"
        )
    if settings.sampler.n_replicas > 1:
        raise ConfigError(
            "measure.symmetrise: a symmetrised state is sampled without tempered chains; take "
            f"sampler.n_replicas = 1 (now {settings.sampler.n_replicas})"
        )
