"""Options and fixtures that all tests share."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tnvmc.backend.device import DeviceError, namespace_of


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backend",
        choices=("numpy", "strict", "cupy"),
        default="numpy",
        help="array library of the tests that take `xp`; strict is array-api-strict",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Networks are compiled fast and run slowly, but in the physics runs; Ctrl-C is not ignored.

    Before JAX is imported: compiling is three quarters of what a small network costs.  A shell that
    starts the tests in the background lets them ignore SIGINT, and the runs that they start.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if "slow" not in config.getoption("-m").replace("not slow", ""):
        os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With another array library than NumPy, run only the tests that use it."""
    if config.getoption("--backend") == "numpy":
        return
    others = [item for item in items if "xp" not in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if item not in set(others)]


@pytest.fixture(scope="session")
def xp(request: pytest.FixtureRequest) -> Any:
    """The array namespace chosen with --backend."""
    name = request.config.getoption("--backend")
    if name == "strict":
        return pytest.importorskip("array_api_strict")
    if name == "cupy":
        try:
            return namespace_of("gpu")
        except DeviceError as error:
            pytest.skip(str(error))
    return pytest.importorskip(name)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """The module's SETTINGS of a run of seconds, in the working directory; its picture is left out."""
    from tnvmc.app import run

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "energy_picture", lambda *_, **__: b"")
    path = tmp_path / "study.toml"
    path.write_text(request.module.SETTINGS)
    return path
