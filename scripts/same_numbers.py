"""Two steps of every settings file and of crossings, to see that a change changes no number.

    python scripts/same_numbers.py make numbers.json [NAME ...]     # with tnvmc as imported
    python scripts/same_numbers.py compare before.json after.json

`make` shrinks each file of `scripts/` (two steps, few samples, small lattices), runs it with one
thread in a folder of its own, and keeps the numbers of each step, hashes of the final theta and
configurations, the measurement, and the codes of all diagnostics.  `compare` lists what differs and
ends with exit status 1 where anything does.  Numbers are equal bit for bit on one kind of processor
with the same versions of the libraries; between machines they agree to some 1e-9.

Another version of the program is measured from its checkout: PYTHONPATH=checkout python ...
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import tomli_w

SCRIPTS = Path(__file__).parent
AT_ONCE = int(os.environ.get("AT_ONCE", "2"))  # runs beside each other
FEW = 128  # samples of a step, of a measurement
WALKERS = 64
LARGEST = 6  # sites along a side; the bulk files keep rows beyond their edges
STEP = [
    "energy",
    "energy_error",
    "variance",
    "tau",
    "r_hat",
    "acceptance",
    "closure_spread",
    "effective_samples",
    "power",
    "learning_rate",
    "step_norm",
    "undone",
    "n_samples",
    "chi",
]
RESULT = [
    "energy",
    "energy_error",
    "variance",
    "v_score",
    "tau",
    "r_hat",
    "acceptance",
    "closure_spread",
    "effective_samples",
    "n_parameters",
    "n_independent",
    "off_diagonal_energy",
    "exact_energy",
    "signed_error",
    "magnetisation",
    "chi",
]

HEISENBERG = {"lattice": {"shape": [3, 4]}, "hamiltonian": {"model": "heisenberg"}}
TFIM = {"lattice": {"shape": [3, 3]}, "hamiltonian": {"model": "tfim", "h": 2.0}}
COMPLEX = {
    "lattice": {"shape": [3, 4]},
    "hamiltonian": {
        "model": "terms",
        "term": [
            {"ops": "Sx Sx + 0.8 Sy Sy + 0.6 Sz Sz", "bonds": "nearest"},
            {"ops": "Sx Sy - Sy Sx", "bonds": "nearest", "coupling": 0.3},
            {"ops": "Sz", "sites": "all", "coupling": -0.1},
        ],
    },
}
CROSSINGS: dict[str, dict[str, Any]] = {
    "complex": {**COMPLEX, "ansatz": {"D": 2, "dtype": "complex128"}},
    "complex_enumerated": {
        **COMPLEX, "ansatz": {"D": 2, "dtype": "complex128"}, "sampler": {"kind": "enumerate"},
    },
    "cylinder": {
        **HEISENBERG, "lattice": {"shape": [4, 4], "boundary": "cylinder"},
        "ansatz": {"D": 2, "bonds": "periodic"},
    },
    "edge": {
        **TFIM, "lattice": {"shape": [6, 6]}, "ansatz": {"D": 2, "edge": 2},
        "sampler": {"power": 1},
    },
    "stages": {
        **HEISENBERG, "stage": [{"D": 2, "steps": 2}, {"D": 3, "steps": 2, "noise": 0.05}],
    },
    "no_sharing": {**HEISENBERG, "ansatz": {"D": 3, "sharing": False}},
    "two_row_strips": {
        "lattice": {"shape": [4, 4]}, "hamiltonian": {"model": "j1j2", "J2": 0.5},
        "ansatz": {"D": 2, "init": "random"},
    },
    "columns": {**HEISENBERG, "lattice": {"shape": [4, 4]}, "ansatz": {"D": 4}},
    "chi_auto": {**HEISENBERG, "ansatz": {"D": 5, "sharing": False}},
    "samples_auto": {**HEISENBERG, "ansatz": {"D": 2}, "sampler": {"n_samples": "auto"}},
    "power": {**TFIM, "ansatz": {"D": 2}, "sampler": {"power": 0.5}},
    "enumerated": {**HEISENBERG, "ansatz": {"D": 2}, "sampler": {"kind": "enumerate"}},
    "direct": {**HEISENBERG, "ansatz": {"D": 2}, "sampler": {"kind": "direct"}},
    "zipup": {**HEISENBERG, "ansatz": {"D": 3}, "contraction": {"scheme": "zipup", "chi": 6}},
    "exact_scheme": {**HEISENBERG, "ansatz": {"D": 2}, "contraction": {"scheme": "exact"}},
    "single_precision": {**HEISENBERG, "ansatz": {"D": 3, "dtype": "float32"}},
    "adam": {**HEISENBERG, "ansatz": {"D": 2}, "optimizer": {"kind": "adam"}},
    "sr_fixed_rate": {
        **HEISENBERG, "ansatz": {"D": 2},
        "optimizer": {"learning_rate": 0.1, "memory": 0, "diag_shift": 0.01},
    },
    "mps": {"lattice": {"kind": "chain", "shape": 12}, "hamiltonian": {"model": "heisenberg"},
            "ansatz": {"kind": "mps", "D": 4}},
    "jastrow": {**HEISENBERG, "ansatz": {"kind": "jastrow"}},
    "rbm": {**HEISENBERG, "ansatz": {"kind": "rbm", "marshall": True}},
    "cnn": {**HEISENBERG, "ansatz": {"kind": "cnn", "marshall": True}},
    "rnn": {**TFIM, "ansatz": {"kind": "rnn"}, "sampler": {"kind": "direct"}},
    "product_of_states": {
        **HEISENBERG,
        "ansatz": {"kind": "product_of_states", "first": {"kind": "peps", "D": 2},
                   "second": {"kind": "rbm", "dtype": "float64"}},
    },
    "symmetrised": {
        **HEISENBERG, "lattice": {"shape": [3, 3], "boundary": "periodic"},
        "hamiltonian": {"model": "tfim", "h": 2.0},
        "ansatz": {"D": 2, "symmetrise": ["translation"]},
    },
    "spin_one": {
        "lattice": {"kind": "chain", "shape": 6},
        "hamiltonian": {"model": "terms", "local_dim": 3,
                        "term": [{"ops": "Sx Sx + Sy Sy + Sz Sz", "bonds": "nearest"}]},
        "ansatz": {"D": 3},
    },
    "triplet": {**HEISENBERG, "ansatz": {"D": 2}, "sampler": {"magnetisation": 2}},
    "excited": {
        **HEISENBERG, "ansatz": {"D": 2},
        "sector": [{"name": "ground"},
                   {"name": "first", "magnetisation": 0, "orthogonal_to": ["ground"]}],
    },
    "several_starts": {**HEISENBERG, "ansatz": {"D": 2}, "run": {"starts": 2}},
}  # fmt: skip


def shrunk(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of a run of seconds: two steps, few samples, a small lattice, one thread, no GPU."""
    small = json.loads(json.dumps(settings))
    lattice, ansatz = small["lattice"], small.get("ansatz", {})
    shape = lattice["shape"]
    if isinstance(shape, list):
        lattice["shape"] = [min(n, LARGEST) for n in shape]
    if isinstance(ansatz, dict) and str(ansatz.get("init", "")).startswith("runs/"):
        del ansatz["init"]
    for part in (*small.get("stage", ()), small.setdefault("sampler", {})):
        if isinstance(part.get("n_samples"), int):
            part["n_samples"] = min(part["n_samples"], FEW)
        if "steps" in part:
            part["steps"] = 2
    if small["sampler"].get("kind") != "enumerate":
        small["sampler"].setdefault("n_samples", FEW)
    if small["sampler"].get("kind", "metropolis") == "metropolis":
        small["sampler"]["n_walkers"] = min(small["sampler"].get("n_walkers", WALKERS), WALKERS)
    if "stage" not in small:
        small.setdefault("optimizer", {})["steps"] = 2
    if "compare" in small:
        small["compare"] = {"steps": 2}
        small["optimizer"].pop("steps", None)
    small.setdefault("measure", {})["n_samples"] = FEW
    small.setdefault("run", {}).update(threads=1, device="cpu")
    if "starts" in small["run"]:
        small["run"]["starts"] = 2
    return small


def runs(numbers: Path) -> dict[str, Any]:
    """What the folders of a run, of runs of several stages or of a series hold, by their names."""
    found = {}
    for path in sorted(numbers.rglob("result.json")):
        folder = path.parent
        found[folder.relative_to(numbers).as_posix()] = numbers_of(folder)
    return found


def numbers_of(folder: Path) -> dict[str, Any]:
    """The numbers of one run folder."""
    lines = (folder / "history.jsonl").read_text().splitlines()
    result = json.loads((folder / "result.json").read_text())
    checkpoint = folder / "checkpoint.h5"
    state = {}
    if checkpoint.exists():
        with h5py.File(checkpoint) as file:
            for name in ("here/theta", "here/configs"):
                values = file[name][...]
                state[name] = [
                    list(values.shape),
                    hashlib.sha256(values.tobytes()).hexdigest()[:16],
                ]
    return {
        "history": [step_of(json.loads(line)) for line in lines],
        "state": state,
        "result": {name: result[name] for name in RESULT if result.get(name) is not None},
        "chi": [[row["chi"], row["energy"], row["energy_error"]] for row in scanned(result)],
        "codes": sorted(set(codes(result))),
    }


def scanned(result: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of the measurement with several chi."""
    return (result.get("convergence") or {}).get("chi") or []


def step_of(line: dict[str, Any]) -> dict[str, Any]:
    """The numbers of a step, and its codes."""
    kept = {name: line[name] for name in STEP if line.get(name) is not None}
    return {**kept, "codes": sorted(codes(line))}


def codes(value: Any) -> Iterator[str]:
    """All codes of diagnostics within a JSON value."""
    if isinstance(value, dict):
        if isinstance(value.get("code"), str):
            yield f"{value['code']}:{value.get('status')}"
        for part in value.values():
            yield from codes(part)
    elif isinstance(value, list):
        for part in value:
            yield from codes(part)


def made(name: str, settings: dict[str, Any], ranks: int = 1) -> dict[str, Any]:
    """Run one case; its numbers, or its exit status with the last line of the complaint."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, f"{name}.toml")
        path.write_text(tomli_w.dumps(shrunk(settings)))
        verb = "compare" if "compare" in settings else "run"
        command = [sys.executable, "-m", "tnvmc", verb, str(path), "--out", "out"]
        if ranks > 1:
            mpiexec = Path(sys.executable).with_name("mpiexec")
            command = [str(mpiexec), "-n", str(ranks), *command]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(
            command, cwd=scratch, env=environment, capture_output=True, text=True, check=False
        )
        found = runs(Path(scratch, "out"))
        if done.returncode or not found:
            return {"exit": done.returncode, "told": (done.stderr.strip() or "?").splitlines()[-1]}
        return {"runs": found}


def cases() -> dict[str, tuple[dict[str, Any], int]]:
    """All cases by name: settings and number of ranks."""
    files = {path.stem: tomllib.loads(path.read_text()) for path in SCRIPTS.glob("*.toml")}
    crossings = {f"+{name}": settings for name, settings in CROSSINGS.items()}
    found = {name: (settings, 1) for name, settings in sorted({**files, **crossings}.items())}
    found["+two_ranks"] = CROSSINGS["no_sharing"], 2
    found["+two_ranks_shared"] = {**HEISENBERG, "ansatz": {"D": 3}}, 2
    return found


def make(target: Path, names: list[str]) -> int:
    """Run the cases (all by default) and write their numbers."""
    chosen = {name: case for name, case in cases().items() if not names or name in names}

    def one(name: str) -> tuple[str, dict[str, Any]]:
        numbers = made(name, *chosen[name])
        print(name, numbers.get("told", "done"), flush=True)
        return name, numbers

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = dict(pool.map(one, chosen))
    target.write_text(json.dumps(found, indent=1, sort_keys=True))
    return 0


def leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """All values of nested mappings and lists with their places."""
    if isinstance(value, (dict, list)) and value:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in items:
            yield from leaves(part, f"{place}/{key}")
    else:
        yield place, value


def compare(before: Path, after: Path) -> int:
    """Print what differs; 1 where anything does."""
    old, new = (json.loads(path.read_text()) for path in (before, after))
    n_wrong = 0
    for name in sorted(old.keys() & new.keys()):
        was, now = dict(leaves(old[name])), dict(leaves(new[name]))
        wrong = [
            place for place in sorted(was.keys() | now.keys()) if was.get(place) != now.get(place)
        ]
        n_wrong += bool(wrong)
        for place in wrong[:4]:
            print(f"{name}{place}: {was.get(place, '-')} -> {now.get(place, '-')}")
        if len(wrong) > 4:
            print(f"{name}: {len(wrong) - 4} more")
    missing = sorted(old.keys() ^ new.keys())
    print(
        f"{len(old.keys() & new.keys())} cases compared, {n_wrong} differ; in one only: {missing}"
    )
    return int(n_wrong > 0)


if __name__ == "__main__":
    if len(sys.argv) >= 3 and sys.argv[1] == "make":
        sys.exit(make(Path(sys.argv[2]), sys.argv[3:]))
    if len(sys.argv) == 4 and sys.argv[1] == "compare":
        sys.exit(compare(Path(sys.argv[2]), Path(sys.argv[3])))
    sys.exit(__doc__)
