"""Wave functions of the user's own, Flax modules or others, whose classes a settings file names.

Nothing is imported but what the file names, and only where the state is built.
"""

import importlib
import inspect
import sys
from importlib.machinery import PathFinder
from typing import Any

import numpy as np

from tnvmc.ansatz.files import probe_configs
from tnvmc.ansatz.protocol import Ansatz
from tnvmc.operators.term import Operator
from tnvmc.settings.problems import nearest


def build_own(settings: Any, operator: Operator, adapter: Any, about: dict[str, Any]) -> Ansatz:
    """Make the state of the class that settings name, by an adapter where it is a Flax module.

    Raises:
        ValueError: in a line, whatever the class or its module raises.
    """
    try:
        kind, lattice = _load(settings.module, settings.folder or "."), operator.lattice
        given = {"lattice": lattice, "n_sites": lattice.n_sites, "local_dim": operator.local_dim}
        has = inspect.signature(kind.__init__).parameters  # type: ignore[misc]
        keywords = {name: given[name] for name in given if name in has} | settings.keywords
        if not issubclass(kind, Ansatz):
            seeded, netket = "rngs" in has, kind.__module__.startswith("netket.")
            inputs = settings.inputs or ("spins" if netket else "states")
            about |= {"holomorphic": settings.holomorphic, "inputs": inputs}

            def made() -> Ansatz:
                network = (lambda rngs: kind(**keywords, rngs=rngs)) if seeded else kind(**keywords)
                return adapter(lattice, network, **about)  # type: ignore[no-any-return]

            return _repeated(made(), made(), operator)
        if unused := [key for key in settings.of_modules if getattr(settings, key)]:
            raise ValueError(f"is no Flax module, which ansatz.{unused[0]} goes with; leave it out")
        state = _repeated(kind(**keywords), kind(**keywords), operator)
        theta, rows = state.initial(operator, 0), probe_configs(state)
        if np.shape(theta) != (state.n_params,) or np.asarray(theta).dtype.kind not in "fc":
            raise ValueError("its parameters are no array (n_params,) of real or complex numbers")
        state.start(theta, rows[:1])
        of_all, alone = (state.log_amplitude(theta, each).log_abs for each in (rows, rows[-1:]))
        if not np.allclose(of_all[-1], alone[0], rtol=1e-3, atol=1e-3):
            raise ValueError("gives psi of a configuration that depends on the others of its batch")
        if (state.lattice, state.local_dim) != (lattice, operator.local_dim):
            raise ValueError("makes a state of another lattice or local dimension")
    except Exception as error:
        told = f"{error}" if type(error) is ValueError else f"{type(error).__name__}: {error}"
        told = told.strip().partition("\n")[0]
        raise ValueError(f"ansatz.module = '{settings.module}': {told}") from error
    return state


def _repeated(state: Ansatz, again: Ansatz, operator: Operator) -> Ansatz:
    """Refuse a class that draws numbers without a seed: a later measurement is of another psi."""
    theta, rng = state.initial(operator, 0), np.random.default_rng(0)
    rows = rng.integers(0, state.local_dim, (16, operator.n_sites), np.int8)  # of all sectors
    seen = [each.log_amplitude(theta, rows) for each in (state, state, again)]
    if not (good := np.asarray(seen[0].log_abs) < np.inf).all():
        raise ValueError(f"gives no finite psi of the configuration {rows[~good][0].tolist()}")
    one, *others = ([*psi.log_abs, *psi.phase] for psi in seen)
    if not all(np.allclose(one, x, rtol=1e-6, atol=1e-6, equal_nan=True) for x in others):
        raise ValueError("gives another psi each time it is made; fix the seed of what it draws")
    return state


def _load(place: str, folder: str) -> Any:
    """Import the class of "module:Class", or "module.Class", from a folder at first."""
    module, _, name = place.rpartition(":" if ":" in place else ".")
    package = module.partition(".")[0] or place
    spec, held = PathFinder.find_spec(package, [folder]), sys.modules.get(package)
    if spec is not None and getattr(held, "__file__", spec.origin) != spec.origin:
        for other in [n for n in sys.modules if f"{n}.".startswith(f"{package}.")]:
            del sys.modules[other]  # of the same name, from another folder
    importlib.invalidate_caches()
    sys.path.insert(0, folder)
    try:
        found = importlib.import_module(module or place)
    except (Exception, SystemExit) as error:  # noqa: BLE001
        if type(error) is ModuleNotFoundError and f"{module}.".startswith(f"{error.name}."):
            why = f"no module {error.name} in {folder}, nor in the Python path; put it there"
            raise ValueError(f"{why}, install it, or name its folder in PYTHONPATH") from None
        raise ValueError(f"cannot be imported ({type(error).__name__}: {error})") from None
    finally:
        sys.path.remove(folder)
    if not inspect.isclass(kind := getattr(found, name, None)):
        what = nearest(name, vars(found)) if kind is None else f"it is a {type(kind).__name__}"
        raise ValueError(f"no class {name} in {found.__file__}; {what}".rstrip("; "))
    return kind
