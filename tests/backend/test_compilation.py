"""Compilation of kernels: who hears of it, what ends it, where the code is cached."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from threading import Event
from time import sleep
from typing import Any

import pytest

numba = pytest.importorskip("numba")

from numba.core import event, types

from tests.terminal import in_terminal
from tnvmc.backend import host, progress
from tnvmc.backend.host import compilation, strips
from tnvmc.backend.host.compilation import Announcement, Ended, numbers_of
from tnvmc.backend.host.elements import multiply
from tnvmc.backend.host.vectors import helper


def strip_of(dtype: Any) -> Any:
    """Numba's type of a `Strip`, as far as it is looked at."""
    return types.NamedTuple((types.intp, dtype[::1]), _Fields)


class _Fields:
    _fields = ("n_rows", "above")


def begun(kernel: Any, *arguments: Any) -> event.Event:
    """What Numba broadcasts when it begins to compile."""
    data = {"dispatcher": kernel, "args": arguments, "return_type": None}
    return event.Event("numba:compile", event.EventStatus.START, data)


def test_each_type_of_numbers_is_announced_once() -> None:
    announced: list[str] = []
    listener = Announcement(announced.append)
    for dtype in (types.float64, types.complex64, types.float64):
        listener.on_start(begun(strips.absorb, strip_of(dtype)))
        listener.on_start(begun(strips.sample, strip_of(dtype), types.intp))
    listener.on_start(begun(multiply, types.float32[::1]))  # two seconds
    listener.on_start(begun(numba.njit(begun), strip_of(types.float32)))  # another's
    assert announced == ["float64", "complex64"]


def test_the_time_of_kernels_within_each_other_counts_once() -> None:
    before, listener, noted = progress.compiled, Announcement(lambda dtype: None), []
    outer, inner = begun(strips.absorb), begun(multiply)
    listener.on_start(outer)
    sleep(0.01)
    for _ in range(2):
        listener.on_start(inner)
        sleep(0.01)
        listener.on_end(inner)
        noted.append(progress.compiled - before)
    listener.on_end(outer)
    noted.append(progress.compiled - before)
    assert 0.01 <= noted[0] <= noted[1] - 0.01 and noted[1] + 0.01 <= noted[2]


def test_the_first_rank_logs_that_kernels_are_compiled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    host.log_compilation("float32")
    monkeypatch.setenv("PMI_SIZE", "2")
    monkeypatch.setenv("PMI_RANK", "1")
    host.log_compilation("float64")
    assert [record.args for record in caplog.records] == [("float32",)]


def test_the_type_is_that_of_the_boundaries() -> None:
    assert numbers_of((strip_of(types.complex128),)) == "complex128"
    assert numbers_of((types.float64[::1],)) is None
    assert numbers_of(()) is None


def test_a_compilation_for_which_nobody_waits_ends_and_can_begin_again() -> None:
    def body(x: float) -> float:
        return 2 * x

    stop, double = Event(), numba.njit(body)
    stop.set()
    with event.install_listener("numba:run_pass", Ended()):
        with progress.stopped_by(stop), pytest.raises(progress.Stopped):
            double(3.0)
        assert not double.signatures
        assert double(3.0) == 6.0


def test_what_kernels_call_is_no_machine_code_of_its_own() -> None:
    @helper
    def double(x: float) -> float:
        return 2 * x

    @numba.njit
    def outer(x: float) -> float:
        return double(x) + double(x + 1)

    assert outer(3.0) == 14.0
    [(_, compiled)] = double.overloads.items()
    assert compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name) == 0


RUN = """
import numpy as np
from tnvmc import PEPS, SR, SRC, VMC, Sampler, heisenberg, square
operator = heisenberg(square(2, 3))
peps = PEPS(operator.lattice, D=2, scheme=SRC(4), dtype=np.{dtype})
vmc = VMC(operator, peps, Sampler(2, 4, threads=2), SR(), seed=0)
for record in vmc.run(1): pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_a_terminal_shows_that_kernels_are_compiled(dtype: str, tmp_path: Path) -> None:
    shown = []
    for _ in range(2):  # the second process finds them
        script = ["-c", RUN.format(dtype=dtype)]
        status, lines = in_terminal(script, tmp_path, 120, {"NUMBA_CACHE_DIR": str(tmp_path)})
        assert status == 0, lines
        shown.append([line for line in lines if "compiling" in line])
    assert [len(lines) for lines in shown] == [1, 0]
    assert dtype in shown[0][0]


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


COMPILED = """
from tnvmc import PEPS, VMC, Sampler, heisenberg, square
from tnvmc.backend import process
from tnvmc.backend.host import strips
process._SHARE[:] = [{cores}]
h = heisenberg(square(2, 2))
VMC(h, PEPS(h.lattice, 2, dtype="{dtype}"), Sampler(n_samples=128)).run(1, progress=False)
strips.compile_strips("{dtype}")
for kernel in (strips.absorb, strips.sample, strips.measure):
    print(len(kernel.signatures), sum(kernel.stats.cache_hits.values()))
"""


@pytest.mark.whole
@pytest.mark.parametrize(("cores", "dtype", "loaded"), [(2, "complex128", 1), (1, "float64", 0)])
def test_a_second_process_compiles_what_a_run_takes_next(
    cores: int, dtype: str, loaded: int, tmp_path: Path
) -> None:
    """For the types that a run has, no others, and the first one waits for it."""
    script = COMPILED.format(cores=cores, dtype=dtype)
    printed, _ = outcome(PACKAGE, script, NUMBA_CACHE_DIR=str(tmp_path))
    assert printed == ["1 0", f"1 {loaded}", f"1 {loaded}"]


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
