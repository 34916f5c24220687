"""Several comparisons in one table and one picture.

    python benchmarks/compared.py [--reference NAME=ENERGY ...] [--json FILE] [--picture FILE]
                                  FOLDER...
    python benchmarks/compared.py --energies FOLDER...

reads folders of `tnvmc compare` (the same states, one Hamiltonian each) and prints for each state
its parameters and milliseconds for an effective sample (of the first folder), and for each
Hamiltonian how far its energy lies above the reference, relative to it, and the V-score.  Where no
reference is known an energy per site has to be given for the folder of that name.  The picture has
all seeds of each state.  With --energies the table has energies per site, no reference is needed
and nothing is written.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from tnvmc.shown import scientific, with_error

FLOOR = 1e-5  # the least relative distance that is drawn
PICTURE = Path(__file__).parent.parent / "docs" / "_static" / "compared_6x6.png"


def read(folder: Path, references: dict[str, float]) -> dict[str, Any]:
    """One comparison: reference per site, rows by name, energies per site of all seeds."""
    found = json.loads((folder / "comparison.json").read_text())
    rows = {row["name"]: row for row in found.get("states", found["rows"])}
    n, known = found["n_sites"], found["reference"]
    given = references.get(folder.name)
    energy = known["energy"] / n if given is None and known["energy"] is not None else given
    seeds: dict[str, list[float]] = {name: [] for name in rows}
    for row in found["rows"]:
        seeds[row["name"].partition(", seed=")[0]].append(row["energy_per_site"])
    source = known["method"] if given is None else "another run"
    return {"name": folder.name, "energy": energy, "source": source, "rows": rows, "seeds": seeds}


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
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--reference", nargs="*", default=[], metavar="NAME=ENERGY")
    parser.add_argument("--energies", action="store_true")
    parser.add_argument("--json", type=Path, help="default: benchmarks/results/compared.json")
    parser.add_argument("--picture", type=Path, default=PICTURE)
    chosen = parser.parse_args()
    given = (each.partition("=") for each in chosen.reference)
    references = {name: float(energy) for name, _, energy in given}
    comparisons = [read(folder, references) for folder in chosen.folders]
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
    file.write_text(json.dumps(comparisons, indent=1) + "\n")
    picture(comparisons, names, chosen.picture)
    print(f"written to {file} and {chosen.picture}")


if __name__ == "__main__":
    main()
