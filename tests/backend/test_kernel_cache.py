"""Where compiled kernels are cached, and who shares them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba")

from tnvmc.backend.host import compilation

PACKAGE = Path(compilation.__file__).parents[2]
SCRIPT = """
import warnings
warnings.simplefilter("always")
import numpy as np
from tnvmc.backend import host
from tnvmc.backend.host.compilation import cache_folder
from tnvmc.backend.host.slices import dots
for _ in range(2):
    print(host.available())
dots(np.ones((1, 2)), np.zeros(1, dtype=int), np.ones((1, 2)), np.zeros(1))
print(cache_folder().name, sum(dots.stats.cache_hits.values()))
"""


def outcome(package: Path, script: str = SCRIPT, **environment: str) -> tuple[list[str], str]:
    """Run a script with the tnvmc of a folder; give the lines that it prints, and its errors."""
    own = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "TNVMC_KERNELS")}
    done = subprocess.run(
        [sys.executable, "-P", "-c", script],
        env={**own, "PYTHONPATH": str(package.parent), **environment},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.splitlines(), done.stderr


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The package, copied to another place."""
    skipped = shutil.ignore_patterns("__pycache__")
    return Path(shutil.copytree(PACKAGE, tmp_path / "other" / "tnvmc", ignore=skipped))


@pytest.mark.whole
def test_copies_share_kernels_and_other_sources_do_not(tmp_path: Path, copy: Path) -> None:
    caches = {"XDG_CACHE_HOME": str(tmp_path / "caches")}
    (*_, first), _ = outcome(PACKAGE, **caches)
    folder, hits = first.split()
    assert hits == "0" and (tmp_path / "caches/tnvmc" / folder).is_dir()
    (*_, second), _ = outcome(copy, **caches)
    assert second.split() == [folder, "1"]
    assert list(copy.rglob("*.nb[ci]")) == []  # nothing beside the package
    with (copy / "backend/host/vectors.py").open("a") as file:
        file.write("# another kernel\n")
    (*_, third), _ = outcome(copy, **caches)
    assert third.split()[0] != folder and third.split()[1] == "0"


@pytest.mark.whole
def test_a_folder_that_cannot_be_written_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    script = SCRIPT.split("dots(")[0].replace("from tnvmc.backend.host.slices import dots", "")
    printed, errors = outcome(PACKAGE, script, NUMBA_CACHE_DIR=str(tmp_path / "file"))
    assert printed == ["False", "False"]
    assert errors.count("NUMBA_CACHE_DIR") == 1


def test_numbas_folder_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation.config, "CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert compilation.cache_root() == tmp_path / "tnvmc"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # which the convention says to ignore
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert compilation.cache_root() == tmp_path / "home/.cache/tnvmc"
    monkeypatch.setattr(compilation.config, "CACHE_DIR", str(tmp_path / "numba"))
    assert compilation.cache_root() == tmp_path / "numba/tnvmc"


def test_folders_not_used_for_longest_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation.config, "CACHE_DIR", str(tmp_path))
    for age in range(20):
        old = tmp_path / f"tnvmc/kernels-{age}"
        old.mkdir(parents=True)
        os.utime(old, (1e9 - age, 1e9 - age))
    make = compilation.cache_folder.__wrapped__
    folder = make()
    left = {path.name for path in folder.parent.iterdir()}
    youngest = {f"kernels-{age}" for age in range(compilation.MOST_FOLDERS - 1)}
    assert left == {folder.name, *youngest}
    assert make() == folder and len(list(folder.parent.iterdir())) == len(left)
