"""A run's files, made by hand: 4x4 Heisenberg with observables from its exact ground state."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import tomli_w

from tnvmc.lattice.grids import square
from tnvmc.operators.basis import Basis
from tnvmc.operators.models import heisenberg
from tnvmc.storage.hdf5 import seal_of
from tnvmc.storage.seals import (
    CHECK,
    PROVENANCE,
    RUN_ID,
    Provenance,
    next_check,
    read_lines,
    sealed_json,
    sealed_toml,
    unsealed_json,
)

RUN = "by hand"  # its id
SHAPE = (4, 4)
N = 16
EXACT = -9.189207065192
CONFIG: dict[str, Any] = {
    "lattice": {"kind": "square", "shape": list(SHAPE), "boundary": "open"},
    "hamiltonian": {"model": "heisenberg", "J": 1.0},
    "ansatz": {"kind": "peps", "D": 3, "dtype": "float64", "init": "simple_update"},
    "contraction": {"scheme": "src", "chi": 6},
    "sampler": {"kind": "metropolis", "n_walkers": 64, "n_samples": 256, "magnetisation": 0},
    "optimizer": {"kind": "sr", "steps": 40, "learning_rate": 0.1},
    "measure": {"n_samples": 2048, "chi": 12},
    "run": {"seed": 0, "out": "runs/x"},
}


def history(n_steps: int = 40, stages: bool = True, seed: int = 0) -> list[dict[str, Any]]:
    """Energies that fall towards the exact one, with noise of their error; step 7 undone."""
    rng = np.random.default_rng(seed)
    lines = []
    for step in range(n_steps):
        error = 0.02 / (1 + step / 8)
        line = {
            "step": step,
            "energy": EXACT + 0.3 * float(np.exp(-step / 6)) + error * float(rng.normal()),
            "energy_error": error,
            "variance": 0.8 * float(np.exp(-step / 8)) + 0.01,
            "acceptance": 0.42 - 0.1 * (1 - float(np.exp(-step / 5))),
            "closure_spread": 1e-4 * float(np.exp(rng.normal())),
            "learning_rate": 0.1,
            "step_norm": 0.02,
            "tau": None,
            "r_hat": None,
            "optimizer": {},
            "undone": step == 7,
            "diagnostics": [],
            "seconds": 0.5 + 0.01 * step,
        }
        if stages:
            line |= {"stage": 1 + step // 20, "D": 2 + step // 20}
        lines.append(line)
    return lines


def result() -> dict[str, Any]:
    """What result.json holds, with stages and convergence."""
    energy, error = -9.18771, 0.00042
    return {
        "energy": energy,
        "energy_error": error,
        "variance": 0.0121,
        "v_score": 0.0023,
        "tau": 0.55,
        "r_hat": 1.004,
        "acceptance": 0.32,
        "closure_spread": 3.1e-5,
        "n_sites": N,
        "n_parameters": 1056,
        "n_samples": 2048,
        "seconds": 3.2,
        "units": "S.S",
        "diagnostics": [],
        "energy_per_site": energy / N,
        "energy_per_site_error": error / N,
        "seconds_per_sample": 3.2 / 2048,
        "exact_energy": EXACT,
        "exact_energy_per_site": EXACT / N,
        "exact_source": "exact diagonalisation",
        "exact_method": "exact",
        "relative_error": abs(energy / EXACT - 1),
        "relative_error_error": error / abs(EXACT),
        "signed_error": (energy - EXACT) / abs(EXACT),
        "steps": 40,
        "seed": 0,
        "version": "0.1.0",
        "config": CONFIG,
        "wall_time_s": 31.4,
        "stages": [
            _stage(1, 2, -9.08, 0.011, 0.31, "steps"),
            _stage(2, 2, -9.162, 0.003, 0.06, "plateau"),
            _stage(3, 3, energy, error, 0.0121, "steps"),
        ],
        "convergence": {
            "chi": [
                _rung(6, -9.18802, -0.00034, 4e-5, 8e-4),
                _rung(9, -9.18775, -0.00004, 1e-5, 1e-4),
                _rung(12, energy, 0.0, 0.0, 3e-5),
            ],
            "double_layer": {
                "energy": -9.18790, "truncation": 2e-6, "magnetisation": 0, "sector_weight": 0.3,
                "seconds": 0.9, "left_out": None,
                "points": [
                    {"chi": 9, "energy": -9.187898, "closure_spread": 2e-6, "seconds": 0.3},
                    {"chi": 18, "energy": -9.18790, "closure_spread": 1e-8, "seconds": 0.6},
                ],
            },
            "variance": {
                "points": [
                    {"label": "D = 2", "variance": 0.06, "energy": -9.162, "energy_error": 0.003},
                    {"label": "D = 3", "variance": 0.0121, "energy": energy, "energy_error": error},
                ],
                "energy": -9.1940,
                "energy_error": 0.0009,
                "slope": 0.53,
            },
            "bond_dimension": {
                "points": [
                    {"D": 2, "energy": -9.162, "energy_error": 0.003},
                    {"D": 3, "energy": energy, "energy_error": error},
                ],
                "energy": -9.2391,
                "energy_error": 0.0061,
                "slope": 0.154,
            },
            "diagnostics": [
                {"code": "chi_enough", "status": "good", "values": {
                    "chi": 9, "largest_chi": 12, "sigmas": 0.1, "per_site": 2.5e-6,
                    "too_small": [{"chi": 6, "sigmas": 0.8, "per_site": 2.1e-5}],
                }},
                {"code": "sampling_failed", "status": "warning", "values": {"reason": "no <psi>"}},
            ],
        },
    }  # fmt: skip


def _stage(
    number: int, D: int, energy: float, error: float, variance: float, stopped: str
) -> dict[str, Any]:
    return {
        "stage": number, "D": D, "chi": 6, "n_samples": 256, "steps": 20,
        "stopped": stopped, "energy": energy, "energy_error": error, "variance": variance,
        "seconds": 9.5,
    }  # fmt: skip


def _rung(
    chi: int, energy: float, difference: float, error: float, spread: float
) -> dict[str, Any]:
    return {
        "chi": chi, "energy": energy, "energy_error": 0.00042, "difference": difference,
        "difference_error": error, "closure_spread": spread,
    }  # fmt: skip


@cache
def exact_correlations() -> np.ndarray:
    """<S_i.S_j> (N, N) in the ground state of open 4x4 Heisenberg: 3 <Sz_i Sz_j>, a singlet."""
    from scipy.sparse.linalg import eigsh

    basis = Basis(N, 2, 0)
    matrix = heisenberg(square(*SHAPE)).sparse(basis.magnetisation)
    _, vectors = eigsh(matrix, k=1, which="SA", v0=np.arange(basis.dimension) % 7.0)
    weights = np.abs(vectors[:, 0]) ** 2
    spins = 0.5 - basis.configs(basis.codes)
    return 3 * (spins * weights[:, None]).T @ spins


def observables(error: float = 0.002) -> dict[str, Any]:
    """What observables.json holds; means are exact, errors are made up."""
    pairs = exact_correlations()
    lattice = square(*SHAPE)
    rows, columns = np.divmod(np.arange(N), SHAPE[1])
    signs = (-1.0) ** (rows + columns)
    waves = [(kx, ky) for ky in (-1, 0, 1, 2) for kx in (-1, 0, 1, 2)]
    q = np.array(waves) * 2 * np.pi / 4
    phases = np.exp(1j * (q[:, :1] * columns + q[:, 1:] * rows))
    factor = np.einsum("qi,ij,qj->q", phases, pairs, phases.conj()).real / N
    field = 0.004 * np.random.default_rng(1).normal(size=N)
    return {
        "version": "0.1.0",
        "n_sites": N,
        "shape": list(SHAPE),
        "coordinates": [[float(c), float(r)] for r, c in zip(rows, columns, strict=True)],
        "boundary": "open",
        "units": "S.S",
        "model": "heisenberg",
        "n_samples": 2048,
        "effective_samples": 1890.0,
        "drawn": "chains",
        "symmetry": [],
        "chi": 12,
        "seconds": 4.5,
        "energy": {"mean": EXACT, "error": error},
        "variance": 0.012,
        "bonds": [
            {"sites": [i, j], "kind": "nearest", "mean": float(pairs[i, j]), "error": error}
            for i, j in lattice.bonds["nearest"]
        ],
        "sites": {"Sz": {"mean": field.tolist(), "error": [0.005] * N}},
        "correlations": {"SS": _with_errors(pairs, error), "SzSz": _with_errors(pairs / 3, error)},
        "structure_factor": {
            "SS": {"n": list(SHAPE), "q": q.tolist(), **_with_errors(factor, 5 * error)}
        },
        "staggered_magnetisation_squared": {
            "mean": float(signs @ pairs @ signs) / N**2,
            "error": error,
        },
        "operators": {"left half": {"mean": -0.25, "error": 0.001}},
    }


def _with_errors(mean: np.ndarray, error: float) -> dict[str, Any]:
    return {"mean": mean.tolist(), "error": np.full(mean.shape, error).tolist()}


def write_run(folder: Path, *, finished: bool = True, measured: bool = True, seed: int = 0) -> Path:
    """Write the files of a run, all but the checkpoint."""
    folder.mkdir(parents=True, exist_ok=True)
    write_toml(folder / "config.toml", CONFIG)
    write_history(folder, history(seed=seed)[: None if finished else 12])
    if finished:
        write_json(folder / "result.json", result())
    if measured:
        write_json(folder / "observables.json", observables())
    return folder


def write_toml(path: Path, content: dict[str, Any]) -> None:
    """Write settings as a run does, with their checksum; if of a run, with its id."""
    about = Provenance(RUN).as_comment() if path.name == "config.toml" else ""
    path.write_bytes(sealed_toml(tomli_w.dumps(content) + about))


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON object with its checksum and where in the run it was written."""
    path.write_bytes(
        sealed_json(content | {PROVENANCE: provenance(path.parent, content).as_dict()})
    )


def provenance(folder: Path, content: dict[str, Any]) -> Provenance:
    """What a file of the last step says of itself, or of the step that it is of."""
    history = folder / "history.jsonl"
    checks = read_lines(history.read_bytes()).checks if history.exists() else ()
    step = content.get("steps", content.get("step", len(checks)))
    return Provenance(RUN, step, checks[step - 1] if 0 < step <= len(checks) else "")


def tied(checkpoint: bytes, folder: Path) -> bytes:
    """Give the content of a saved state as that of a checkpoint of the run in a folder."""
    image = io.BytesIO(checkpoint[: -len(seal_of(b""))])
    with h5py.File(image, "r+") as file:
        step = int(file["step"][()])
        file.attrs[PROVENANCE] = json.dumps(provenance(folder, {"step": step}).as_dict())
    return image.getvalue() + seal_of(image.getvalue())


def write_history(folder: Path, lines: list[dict[str, Any]]) -> None:
    """Write history.jsonl, every line with its checksum."""
    check, text = "", ""
    for number, line in enumerate(lines):
        line = line if number else {**line, RUN_ID: RUN}
        check = next_check(check, line)
        text += json.dumps({**line, CHECK: check}) + "\n"
    (folder / "history.jsonl").write_text(text)


def read_history(folder: Path) -> list[dict[str, Any]]:
    """Read history.jsonl, without checksums."""
    return list(read_lines((folder / "history.jsonl").read_bytes()).records)


def read_json(path: Path) -> dict[str, Any]:
    """Read a strict JSON object, without its checksum, which must be right, and its provenance."""
    content = unsealed_json(path.read_text())
    content.pop(PROVENANCE, None)
    return content


@contextmanager
def hdf5_of(path: Path) -> Iterator[Any]:
    """Change a state file on purpose: its HDF5 content, and the checksum with it."""
    image = io.BytesIO(path.read_bytes()[: -len(seal_of(b""))])
    with h5py.File(image, "r+") as file:
        yield file
    path.write_bytes(image.getvalue() + seal_of(image.getvalue()))
