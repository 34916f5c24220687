"""What is installed, and what people are told to install."""

from __future__ import annotations

import configparser
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tnvmc import __version__

ROOT = Path(__file__).parents[1]
SETUP = configparser.ConfigParser()
SETUP.read(ROOT / "setup.cfg")
EXTRAS = dict(SETUP["options.extras_require"])
REQUIREMENTS = {
    line.split(";")[0].strip()
    for text in (SETUP["options"]["install_requires"], *EXTRAS.values())
    for line in text.split("\n")
    if line.strip()
}
PROSE = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *(path for kind in ("md", "ipynb") for path in ROOT.glob(f"docs/**/*.{kind}")),
    *ROOT.glob("scripts/*.sh"),
]
CODE = [*ROOT.glob("tnvmc/**/*.py"), *ROOT.glob("tnvmc/**/*.toml")]
BESIDE = {"pre-commit", "cupy-cuda12x"}
"""Packages that no extra brings: a tool, and the CuPy of the older CUDA."""
_PIP = re.compile(r"pip install ((?:-\S+ )*)((?:'[^']+'|[\w.\[][\w.\[\]-]*)(?: '[^']+')*)")


def pip_lines(path: Path) -> list[tuple[str, list[str]]]:
    """What stands behind ``pip install`` in a file: the whole, and what is to be installed."""
    text = re.sub(r'"\s*\n\s*f?"', "", path.read_text())  # sentences in code go over lines
    if "_build" in path.parts or "generated" in path.parts:
        return []
    return [(m[0], re.findall(r"'[^']+'|\S+", m[2])) for m in _PIP.finditer(text)]


def test_there_are_such_lines() -> None:
    assert sum(map(len, map(pip_lines, PROSE))) >= 5
    assert sum(map(len, map(pip_lines, CODE))) >= 3


def test_nobody_is_told_to_take_tnvmc_from_an_index() -> None:
    for path in (*PROSE, *CODE):
        assert "tnvmc[" not in path.read_text(), path
        for line, wanted in pip_lines(path):
            assert not any(re.match(r"'?tnvmc(?!-\d)", name) for name in wanted), line


@pytest.mark.parametrize("path", PROSE, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_prose_says_to_install_can_be_had(path: Path) -> None:
    for line, wanted in pip_lines(path):
        for name in wanted:
            if name.strip("'").startswith("."):
                found = re.fullmatch(r"'\.\[([\w,]+)\]'|\.", name)
                assert found, f"{line}: brackets need quotes in some shells"
                assert set((found[1] or "").split(",")) - {""} <= set(EXTRAS), line
            elif name not in BESIDE and not name.endswith(".whl"):
                assert_required(name, line)


def test_what_code_says_to_install_needs_no_clone() -> None:
    """Whoever reads an error may have installed a wheel: it names packages, not extras."""
    for line, wanted in (found for path in CODE for found in pip_lines(path)):
        for name in wanted:
            assert not name.strip("'").startswith("."), line
            if name not in BESIDE:
                assert_required(name, line)


def assert_required(name: str, line: str) -> None:
    """A requirement that setup.cfg has too, with the same limits if any are given."""
    plain = re.sub(r"\[\w+\]", "", name.strip("'"))
    bare = re.split(r"[<>=]", plain)[0]
    known = {re.split(r"[<>=]", each)[0]: each for each in REQUIREMENTS}
    assert bare in known, line
    assert plain in (bare, known[bare]), line


def test_the_citation_names_this_version() -> None:
    text = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^version: (\S+)$", text, flags=re.MULTILINE) == [__version__]
    assert re.findall(r"^license: (\S+)$", text, flags=re.MULTILINE) == [
        SETUP["metadata"]["license"]
    ]
    assert f"name: {SETUP['metadata']['author']}" in text


@pytest.mark.slow
def test_a_wheel_brings_the_examples(tmp_path: Path) -> None:
    """Built from a copy, since a build writes beside its source; needs setuptools from an index."""
    copy = tmp_path / "copy"
    files = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    for name in files:
        if not name.startswith(("tests/", "docs/", "records/", "benchmarks/")):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
    old = copy / "build/lib/tnvmc/old.py"  # of an earlier build
    old.parent.mkdir(parents=True)
    old.touch()
    pip = [sys.executable, "-m", "pip", "--quiet"]
    subprocess.run([*pip, "wheel", str(copy), "--no-deps", "-w", str(tmp_path)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"tnvmc/examples/{path.name}" for path in ROOT.glob("scripts/*.toml")} <= names
    assert not any(name.startswith(("tests/", "docs/")) for name in names)
    assert "tnvmc/old.py" not in names
    data = [p for p in ROOT.glob("tnvmc/**/*") if p.is_file() and "__pycache__" not in p.parts]
    assert {path.relative_to(ROOT).as_posix() for path in data} <= names
    # Unpacked, with the other packages of this environment.
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    out = subprocess.run(
        [sys.executable, "-P", "-m", "tnvmc", "examples"],
        cwd=tmp_path, env={"PYTHONPATH": str(tmp_path / "site")},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    examples = [*ROOT.glob("scripts/*.toml"), *ROOT.glob("scripts/my_*.py")]
    assert len(out.stdout.splitlines()) == len(examples)
