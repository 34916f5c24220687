"""Draw a run of the patched transformer on Rydberg atoms beside the points of a lecture.

    tnvmc run scripts/rydberg_4x4_transformer.toml --out runs/rydberg_transformer
    python benchmarks/rydberg_transformer.py runs/rydberg_transformer [--picture FILE]

The lecture's run has the same Hamiltonian, patches, width, heads, layers and samples a step, trained
by Adam (settings of Sprague and Czischek, Commun. Phys. 7, 90 (2024)).  Prints both at its steps.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from tnvmc.report.figures import style
from tnvmc.report.figures.history import History, history_of
from tnvmc.storage.run_files import read_run

LECTURE = np.array(
    [
        (0, 31.89, 543.7),
        (50, 7.50, 179.7),
        (100, -2.98, 35.6),
        (150, -5.04, 19.9),
        (200, -6.50, 2.63),
        (250, -6.63, 3.26),
        (300, -6.48, 8.98),
        (350, -6.75, 1.11),
        (400, -6.84, 1.46),
    ]
)
"""Step, energy and energy variance, of all 16 atoms."""

EXACT = -7.254611338546


def table(history: History) -> str:
    """Energies and variances of all atoms at the steps of the lecture; its step 400 is our last."""
    lines = [f"{'step':>5} {'lecture':>8} {'variance':>8} {'here':>8} {'error':>7} {'variance':>8}"]
    energies, errors = 16 * history.energy, 16 * history.error
    for step, energy, variance in LECTURE:
        row = min(int(step), len(energies) - 1)
        if row < step - 1:  # the run is shorter
            break
        lines.append(
            f"{step:5.0f} {energy:8.2f} {variance:8.2f} {energies[row]:8.3f} {errors[row]:7.3f} "
            f"{history.of('variance')[row]:8.3f}"
        )
    if history.measured is not None:
        mean, error = (16 * value for value in history.measured)
        lines.append(f"measured after the last step: {mean:.5f} +- {error:.5f}; exact {EXACT:.5f}")
    return "\n".join(lines)


def picture(history: History) -> bytes:
    """Draw the distance to the exact energy, and the variance, against the step: a PNG."""
    with style.styled():
        figure = style.new_figure(9.0, 3.6)
        left, right = figure.subplots(1, 2)
        distance = 16 * history.energy - EXACT
        for axes, ours, theirs in (
            (left, distance, LECTURE[:, 1] - EXACT),
            (right, history.of("variance"), LECTURE[:, 2]),
        ):
            axes.plot(history.of("step"), np.where(ours > 0, ours, np.nan), color=style.BLUE, lw=1.0,
                      label="here: stochastic reconfiguration")  # fmt: skip
            axes.plot(LECTURE[:, 0], theirs, "o", ms=5, color=style.VERMILION,
                      label="a lecture: Adam")  # fmt: skip
            axes.set_yscale("log")
            axes.set_xlabel("step of 256 samples")
            style.grid(axes)
        if history.measured is not None:
            mean, error = (16 * value for value in history.measured)
            left.errorbar(history.of("step")[-1] + 8, mean - EXACT, error, fmt="s", ms=4, capsize=2,
                          color=style.GREEN, label="here, measured at the end")  # fmt: skip
        left.set_ylabel(r"$E - E_0$ of 16 atoms")
        right.set_ylabel("variance of the local energy")
        left.legend()
        return style.encode(figure, "png")


def main() -> None:
    """Print the table and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("run", type=Path, help="folder that `tnvmc run` wrote")
    parser.add_argument(
        "--picture", type=Path, default=Path("docs/_static/rydberg_transformer.png")
    )
    args = parser.parse_args()
    history = history_of(read_run(args.run))
    if history is None:
        raise SystemExit(f"{args.run}: no step has been written yet")
    print(table(history))
    args.picture.parent.mkdir(parents=True, exist_ok=True)
    args.picture.write_bytes(picture(history))


if __name__ == "__main__":
    main()
