"""Compilation of kernels: who hears of it, what ends it."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import Any

import pytest

numba = pytest.importorskip("numba")

from numba.core import event, types

from tests.terminal import in_terminal
from tnvmc.backend import host, progress
from tnvmc.backend.host import absorption, strips
from tnvmc.backend.host.compilation import Announcement, Ended, numbers_of
from tnvmc.backend.host.elements import multiply


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
        listener.on_start(begun(absorption.absorb, strip_of(dtype)))
        listener.on_start(begun(strips.sample, strip_of(dtype), types.intp))
    listener.on_start(begun(multiply, types.float32[::1]))  # two seconds
    listener.on_start(begun(numba.njit(begun), strip_of(types.float32)))  # another's
    assert announced == ["float64", "complex64"]


def test_compilation_is_logged_where_nobody_has_asked(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(host, "_announce", host.log_compilation)
    host._announce("float32")
    assert [record.args for record in caplog.records] == [("float32",)]
    announced: list[str] = []
    host.announce_compilation(announced.append)
    host._announce("float32")
    assert announced == ["float32"] and len(caplog.records) == 1


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


SCRIPT = """
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
        script = ["-c", SCRIPT.format(dtype=dtype)]
        status, lines = in_terminal(script, tmp_path, 120, {"NUMBA_CACHE_DIR": str(tmp_path)})
        assert status == 0, lines
        shown.append([line for line in lines if "compiling" in line])
    assert [len(lines) for lines in shown] == [1, 0]
    assert dtype in shown[0][0]
