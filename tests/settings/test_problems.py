"""The lines that tell problems of settings: the only tests of their words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.settings.complaints import problems
from tnvmc.settings.load import read_toml
from tnvmc.settings.problems import ConfigError, ConfigProblem

BASE: dict[str, Any] = {
    "lattice": {"shape": [4, 4]},
    "hamiltonian": {"model": "heisenberg"},
    "ansatz": {"D": 3},
}
STAGES = {**BASE, "stage": [{"D": 3}, {"D": 2}]}


@pytest.mark.parametrize(
    ("data", "override", "line"),
    [
        (BASE, "ansatz.d=3", "ansatz.d: unknown key; did you mean 'D'?"),
        (BASE, "ansatz.chi=8", "ansatz.chi: unknown key; it belongs to [contraction]"),
        (BASE, "contraction.x=8", "contraction.x: unknown key; known are scheme, chi"),
        (BASE, "ansatz.heads=2",
         "ansatz.heads: kind 'peps' has no such key; it takes dtype, init, init_noise, symmetrise, characters, D, bonds, sharing, edge, period"),
        (BASE, "hamiltonian.J2=0.5", "hamiltonian.J2: model 'heisenberg' has no such key; it takes J"),
        (BASE, "sampling.n=8", "[sampling]: unknown section; did you mean 'sampler'?"),
        (BASE, "ansatz.D=-3", "ansatz.D = -3: must be an integer >= 1"),
        (BASE, "ansatz.D=true", "ansatz.D = true: must be an integer >= 1"),
        (BASE, "ansatz.kind=PEPS", ("ansatz.kind = 'PEPS': must be one of peps, mps, periodic_mps, "
         "product, jastrow, slater, rbm, cnn, rnn, patched_transformer, vit, flax, own, product_of_states; did you mean 'peps'?")),
        (BASE, "ansatz.D", ("--set ansatz.D: must be section.key=value, as ansatz.D=4 "
         "(stage.2.D=4 for the second [[stage]])")),
        (BASE, "bonds=periodic", ("--set bonds=periodic: must be section.key=value, as ansatz.D=4 (stage.2.D=4 for the "
         "second [[stage]]); did you mean lattice.bonds=periodic or ansatz.bonds=periodic?")),
        ({**STAGES, "ansatz": {"sharing": True, "init": "product"}}, "stage.2.D=2",
         "stage.2.D = 2: smaller than 3, and shared tensors are not cut; take ansatz.sharing = false"),
        (STAGES, "ansatz.D=2",
         "--set ansatz.D=2: every stage has its own D; change stage.2.D, or another stage's"),
        ({**BASE, "stage": [3]}, "run.seed=1", "stage.1 = 3: must be a table, headed [[stage]]"),
        ({**BASE, "ansatz": 3}, "run.seed=1", "ansatz = 3: must be a section, [ansatz]"),
        ({**BASE, "ansatz": {}}, "run.seed=1",
         "ansatz.D: missing; must be the bond dimension, an integer >= 1"),
        ({**BASE, "lattice": {}}, "run.seed=1", "lattice.shape: missing; must be a list of 2 integers >= 1"),
    ],
)  # fmt: skip
def test_each_problem_in_one_line(data: dict[str, Any], override: str, line: str) -> None:
    (found,) = problems(data, [override])
    assert str(found) == line


def test_a_missing_section() -> None:
    (found,) = problems({"hamiltonian": {"model": "heisenberg"}})
    assert str(found) == "[lattice]: section missing; it must hold shape"


def test_several_problems_are_several_lines_each_told_once() -> None:
    one, two = ConfigProblem("a.b", "missing", "c"), ConfigProblem("x", "conflict", "y", [1])
    error = ConfigError(one, two, one)
    assert error.lines == ("a.b: missing; must be c", "x = [1]: y")
    assert str(error) == "a.b: missing; must be c; x = [1]: y"
    assert ConfigError("a sentence").lines == ("a sentence",)


def test_long_values_are_cut() -> None:
    assert len(str(ConfigProblem("a", "conflict", "b", [1] * 99))) < 70


def test_a_word_without_quotes(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    for value, hint in (("periodic", '; words have quotes: bonds = "periodic"'), ("4 4", "")):
        file.write_text(f"[ansatz]\nbonds = {value}  # around\n")
        with pytest.raises(ConfigError) as error:
            read_toml(file)
        (line,) = error.value.lines
        assert line.endswith(")" + hint)
