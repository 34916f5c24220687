"""The table of `records/`: what stands in its folders, and whether it still comes out.

    python benchmarks/records.py                 writes the tables: records/README.md, varbench.md
                                                 and leaderboard.json
    python benchmarks/records.py --measure       measures each state again and compares
    python benchmarks/records.py --measure NAME  one of them

A record is a folder written by ``tnvmc archive RUN records/NAME``.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from varbench import NotInVarBench, varbench_row

from tnvmc.app.measure import Asked, measure_run
from tnvmc.report.leaderboard import leaderboard_row
from tnvmc.report.page import ReportError
from tnvmc.storage.run_files import read_run

RECORDS = Path(__file__).parent.parent / "records"

HEAD = """\
# Records

Each folder is a run as `tnvmc archive` keeps it: settings, history, result and the state that was
measured. `tnvmc measure records/NAME` measures it again and writes `observables.json` there;
`benchmarks/records.py --measure` does so for all in a temporary folder and compares. The table is
written by `benchmarks/records.py`, as are the rows for VarBench (`varbench.md`) and for the public
[leaderboard](https://github.com/tzerweck/quantum-many-body-leaderboard) (`leaderboard.json`); a run
that a check speaks against has none. Some records are earlier runs of the file of their name in
`scripts/`: their settings are those of `config.toml`.

Energies are totals in the units of the model. sigma is their standard error; tau, R-hat, V-score
and closure spread are explained in [Conventions](../docs/conventions.md). E_inf, the energy at
infinite temperature, is 0 for all of these models but Rydberg atoms. dof is the number of sites. A
relative error below zero is an energy below the one that it is compared with. The time is that of
the last run, also where `ansatz.init` in its settings names another run that it continued.

"""

COLUMNS = (
    "record", "state", "energy", "sigma", "variance", "V-score", "dof", "samples", "tau",
    "R-hat", "chi", "closure spread", "relative error", "time",
)  # fmt: skip


def results() -> dict[str, dict[str, Any]]:
    """Content of result.json of each record, by name."""
    files = sorted(RECORDS.glob("*/result.json"))
    return {path.parent.name: json.loads(path.read_text()) for path in files}


def row(name: str, found: Mapping[str, Any]) -> tuple[str, ...]:
    """A line of the table."""
    config = found["config"]
    ansatz = config["ansatz"]
    kind = ansatz.get("kind", "peps")
    state = f"{kind} D={ansatz['D']}" if "D" in ansatz else kind
    error = found.get("signed_error")
    return (
        f"[{name}]({name}/config.toml)",
        f"{state}, {found['n_parameters']}",
        f"{found['energy']:.6f}",
        f"{found['energy_error']:.2g}",
        f"{found['variance']:.3g}",
        f"{found['v_score']:.2g}",
        str(found["n_sites"]),
        str(found["n_samples"]),
        _number(found["tau"], ".2f"),
        _number(found["r_hat"], ".4f"),
        str(found["chi"] or config.get("contraction", {}).get("chi") or ""),
        _number(found["closure_spread"], ".2g"),
        "" if error is None else f"{error:.1e} +- {found['relative_error_error']:.1g}",
        f"{found['wall_time_s']:.0f} s",
    )


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def write_tables(found: Mapping[str, Mapping[str, Any]]) -> None:
    """Write README.md of the records, and their rows for the two public tables."""
    lines = [COLUMNS, ["---"] * len(COLUMNS), *(row(*each) for each in found.items())]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    (RECORDS / "README.md").write_text(HEAD + table + "\n")
    rows, board = [], []
    for name, result in found.items():
        try:
            board.append(leaderboard_row(read_run(RECORDS / name)))
            rows.append(varbench_row(result))
        except (ReportError, NotInVarBench) as why:
            print(why, file=sys.stderr)
    (RECORDS / "varbench.md").write_text("\n\n".join(["# Rows for VarBench", *rows]) + "\n")
    (RECORDS / "leaderboard.json").write_text(json.dumps(board, indent=1) + "\n")
    print(table)


def measured_again(name: str, found: Mapping[str, Any]) -> tuple[float, float]:
    """Energy and error of a record's state by new samples, as many."""
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(RECORDS / name, Path(folder) / name)
        seed = f"run.seed={found['seed'] + 1000}"  # other samples than those of the record
        asked = Asked(n_samples=found["n_samples"], pair_samples=0, overrides=(seed,))
        energy = measure_run(copy, asked)["energy"]
    return energy["mean"], energy["error"]


def compare(found: Mapping[str, Mapping[str, Any]]) -> int:
    """Measure all again; 1 where an energy is more than four errors off."""
    off = 0
    for name, result in found.items():
        mean, error = measured_again(name, result)
        both = math.hypot(error or 0.0, result["energy_error"] or 0.0)
        away = (mean - result["energy"]) / both if both else 0.0
        off += abs(away) > 4
        print(f"{name:30} {result['energy']:.6f} now {mean:.6f}, {away:+.1f} sigma", flush=True)
    return int(off > 0)


def main() -> int:
    """Write the tables, or measure."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("names", nargs="*", help="records (default: all)")
    options.add_argument("--measure", action="store_true", help="measure the states again")
    asked = options.parse_args()
    found = results()
    if unknown := sorted(set(asked.names) - set(found)):
        options.error(f"no record {unknown[0]}; there are {', '.join(found)}")
    if not asked.measure:
        write_tables(found)
        return 0
    return compare({name: found[name] for name in asked.names or found})


if __name__ == "__main__":
    sys.exit(main())
