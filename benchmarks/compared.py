"""Several comparisons in one table and one picture.

    python benchmarks/compared.py [--reference NAME=ENERGY ...] [--json FILE] [--picture FILE]
                                  [NAME=]FOLDER[,FOLDER ...] ...
    python benchmarks/compared.py --energies [NAME=]FOLDER[,FOLDER ...] ...

reads folders of `tnvmc compare` and prints for each state its parameters and milliseconds for an
effective sample (of the first comparison), and for each comparison how far its energy lies above
the reference, relative to it, and the V-score.  Folders that a comma joins are one comparison: the
means of its states are over the runs of all.  Where no reference is known an energy per site has to
be given for the name of the comparison (that of the folder, unless said), or `lowest`.  The picture
has all seeds of each state; entries of other names stay in the JSON file.  With --energies the
table has energies per site, no reference is needed and nothing is written.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from tnvmc.estimate.mixing import error_of_mean
from tnvmc.shown import scientific, with_error

FLOOR = 1e-5  # the least relative distance that is drawn
PICTURE = Path(__file__).parent.parent / "docs" / "_static" / "compared_6x6.png"
MEDIANS = ("variance", "v_score", "steps", "seconds", "seconds_per_step",
           "seconds_per_effective_sample")  # fmt: skip


def mean_of_runs(runs: list[dict[str, Any]], n_sites: int) -> dict[str, Any]:
    """One row for the runs of a state, by the rules of `tnvmc compare` with seeds."""
    if len(runs) == 1:
        return runs[0]
    energies = np.array([run["energy_per_site"] for run in runs])
    by_samples = math.hypot(*(run["energy_per_site_error"] for run in runs)) / len(runs)
    energy = float(energies.mean())
    error = max(by_samples, float(error_of_mean(energies - energy)))
    known = {key: [run[key] for run in runs if run.get(key) is not None] for key in MEDIANS}
    medians = {key: float(np.median(values)) if values else None for key, values in known.items()}
    per_site = {"energy_per_site": energy, "energy_per_site_error": error}
    total = {"energy": n_sites * energy, "energy_error": n_sites * error}
    return {**runs[-1], "name": runs[0]["name"], **medians, **per_site, **total}


def read(given: str, references: dict[str, str]) -> dict[str, Any]:
    """One comparison: reference per site, rows by name, energies per site of all seeds."""
    plain = Path(given.partition(",")[0]).exists()  # a folder's name may hold "="
    named, listed = ("", given) if plain else given.split("=", 1)
    folders = [Path(each) for each in listed.split(",")]
    name, runs = named or folders[0].name, dict[str, list[dict[str, Any]]]()
    for folder in folders:
        found = json.loads((folder / "comparison.json").read_text())
        for row in found["rows"]:
            state = row["name"].partition(", seed=")[0]
            runs.setdefault(state, []).append({**row, "name": state})
    n, known = found["n_sites"], found["reference"]
    rows = {state: mean_of_runs(of, n) for state, of in runs.items()}
    rows = dict(sorted(rows.items(), key=lambda item: item[1]["energy_per_site"]))
    lowest, own = next(iter(rows)), references.get(name)
    energy, source = (known["energy"] and known["energy"] / n), known["method"]
    if own is not None:
        energy, source = float(own) if own != "lowest" else None, "another run"
    if own == "lowest":
        energy, source = rows[lowest]["energy_per_site"], lowest
    seeds = {state: [run["energy_per_site"] for run in runs[state]] for state in rows}
    return {"name": name, "energy": energy, "source": source, "rows": rows, "seeds": seeds}


def cell(found: dict[str, Any], name: str, energies: bool) -> str:
    """Relative distance and V-score, or energy per site."""
    row = found["rows"].get(name)
    if row is None:
        return "-"
    if energies:
        return with_error(row["energy_per_site"], row["energy_per_site_error"])
    off = (row["energy_per_site"] - found["energy"]) / abs(found["energy"])
    error = row["energy_per_site_error"] / abs(found["energy"])
    return f"{scientific(off, error)}, {row['v_score']:.1e}"


def picture(comparisons: list[dict[str, Any]], names: list[str], file: Path) -> None:
    """Draw relative distances, a point for each seed, and the error of their mean as a bar.

    What lies below 1e-5, or below 0, stands at 1e-5 as an open point.
    """
    from matplotlib.figure import Figure

    n_rows = -(-len(comparisons) // 4)
    n_columns = -(-len(comparisons) // n_rows)
    figure = Figure(figsize=(10.0, 4.6 * n_rows), layout="constrained")
    panels = figure.subplots(n_rows, n_columns, sharey=True, squeeze=False).ravel()
    for axis, found in zip(panels, comparisons, strict=False):
        for number, name in enumerate(reversed(names)):
            reference = found["energy"]
            off = [(e - reference) / abs(reference) for e in found["seeds"].get(name, ())]
            colour = "C0" if "PEPS" in name or "MPS" in name else "C1"
            for x in off:
                filled = colour if x > FLOOR else "none"
                axis.plot(max(x, FLOOR), number, "o", ms=5, alpha=0.6, color=colour, mfc=filled)
            if off:
                mean = sum(off) / len(off)
                error = found["rows"][name]["energy_per_site_error"] / abs(reference)
                ends = [max(end, FLOOR) for end in (mean - error, mean + error)]
                axis.plot(ends, [number, number], "-", lw=1, color=colour)
        axis.set_xscale("log")
        axis.set_yticks(range(len(names)), reversed(names))
        axis.grid(alpha=0.3)
        axis.set_title(f"{found['name']}\n{found['energy']:.6g} ({found['source']})", fontsize=9)
        axis.set_xlabel("relative distance")
    for axis in panels[len(comparisons) :]:
        axis.set_visible(False)
    figure.savefig(file, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("comparisons", nargs="+", metavar="[NAME=]FOLDER[,FOLDER ...]")
    parser.add_argument("--reference", nargs="*", default=[], metavar="NAME=ENERGY")
    parser.add_argument("--energies", action="store_true")
    parser.add_argument("--json", type=Path, help="default: benchmarks/results/compared.json")
    parser.add_argument("--picture", type=Path, default=PICTURE)
    chosen = parser.parse_args()
    references = dict(each.rsplit("=", 1) for each in chosen.reference)
    comparisons = [read(given, references) for given in chosen.comparisons]
    unknown = [found["name"] for found in comparisons if found["energy"] is None]
    if unknown and not chosen.energies:
        raise SystemExit(f"no reference is known: --reference {unknown[0]}=ENERGY, or --energies")
    names = list(dict.fromkeys(name for found in comparisons for name in found["rows"]))
    columns = ["state", "parameters", "ms / eff. sample", *(found["name"] for found in comparisons)]
    print("|", " | ".join(columns), "|\n| :-- |" + " --: |" * (len(columns) - 1))
    for name in names:
        row = next(found["rows"][name] for found in comparisons if name in found["rows"])
        about = f"{row['parameters']} | {1e3 * row['seconds_per_effective_sample']:.2g}"
        cells = " | ".join(cell(found, name, chosen.energies) for found in comparisons)
        print(f"| {name} | {about} | {cells} |")
    if chosen.energies:
        return
    file = chosen.json or Path(__file__).parent / "results" / "compared.json"
    known = json.loads(file.read_text()) if file.exists() else []
    kept = {found["name"]: found for found in [*known, *comparisons]}
    file.write_text(json.dumps([*kept.values()], indent=1) + "\n")
    picture(comparisons, names, chosen.picture)
    print(f"written to {file} and {chosen.picture}")


if __name__ == "__main__":
    main()
