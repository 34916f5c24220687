"""`tnvmc converge`: a finished run measured again at several chi."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tnvmc.app.stages import plan_of, require_finished, restored
from tnvmc.session.vmc import converge
from tnvmc.settings.defaults import load_in_place
from tnvmc.storage.run_files import asks_the_same
from tnvmc.storage.run_folder import RESULT, FolderError, RunFolder, check_tied, disk_errors
from tnvmc.trust.chi_scan import ONE_IN, ChiScan, default_chis
from tnvmc.trust.convergence import convergence


def converge_run(
    path: str | Path,
    chis: Sequence[int] = (),
    n_samples: int | None = None,
    double_layer: bool | None = None,
) -> tuple[ChiScan, dict[str, Any]]:
    """Measure a finished run again at several chi, as ``tnvmc converge`` does.

    The chi of its result is one of them; `chis` are the others, by default 1, 1.5 and 2 times that
    of the optimisation.  `n_samples` defaults to a quarter of its measurement; `double_layer` is as
    of `VMC.converge`. "convergence" in its result.json is replaced.  Gives both scans, and what it
    holds now.

    Raises:
        FolderError: no finished run there, another process is at it, or it cannot be written.
        StateFileError: a damaged checkpoint, or one that does not fit config.toml.
        ValueError: as `VMC.converge`.
    """
    path = Path(path)
    require_finished(path)
    settings = load_in_place(path)
    if n_samples is not None and n_samples < 1:
        raise ValueError(f"converge: n_samples is {n_samples}; it must be 1 or larger")
    provenance = check_tied(path)
    vmc = restored(path, settings).vmc
    with disk_errors(path), RunFolder.reopen(path, None, provenance) as folder:
        result = folder.read_result()
        asked = result is not None and asks_the_same(result.get("config"), settings.as_dict())
        if result is None or not asked or folder.provenance != provenance:
            raise FolderError(
                f"{path}: {RESULT} is not that of its last step and settings; measure them with: "
                f"tnvmc run --resume {path}"
            )
        at = result["chi"]
        others = {*(chis or default_chis(vmc.problem.ansatz)), *([at] if at else [])}
        n_samples = n_samples or max(1, (settings.measure.n_samples or 0) // ONE_IN)
        found = converge(vmc, plan_of(settings, n_samples, None), tuple(others), double_layer)
        layers = None if found.double_layer is None else found.double_layer.as_dict()
        result["convergence"] = convergence(result, folder.history(), found.as_dicts(), layers)
        folder.write_result(result)
    return found, result
