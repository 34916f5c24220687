"""Options and fixtures that all tests share."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import settings

from tnvmc.backend.device import DeviceError, namespace_of
from tnvmc.backend.process import give_back_freed_memory

settings.register_profile(
    "tnvmc", deadline=None
)  # a first example compiles, other programs run too
settings.load_profile("tnvmc")

COMPILED_FAST = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
"""Flags of XLA with which it compiles in half of the time: its older emitters of loops, in one piece."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backend",
        choices=("numpy", "strict", "cupy"),
        default="numpy",
        help="array library of the tests that take `xp`; strict is array-api-strict",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Set up JAX before it is imported, and let Ctrl-C through.

    Compiling is three quarters of what a small network costs: networks are compiled fast and run
    slowly, but in the physics runs, and what was compiled is kept in ``.pytest_cache`` for the next
    run (``pytest --cache-clear`` empties it).  Workers share it: an entry that was read while it was
    written is compiled again.  A shell that starts the tests in the background lets them ignore
    SIGINT, and the runs that they start.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if "slow" not in config.getoption("-m").replace("not slow", ""):
        os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
        os.environ.setdefault("XLA_FLAGS", COMPILED_FAST)
    if hasattr(config, "cache"):  # not with -p no:cacheprovider
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(config.cache.mkdir("jax")))
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")


LONG = (
    "test_compiled_strips.py",
    "test_against_netket.py",
    "test_rbm.py",
    "test_rnn.py",
    "test_vit.py",
    "test_patched_transformer.py",
    "test_ranks.py",
    "test_devices.py",
    "test_product_of_states.py",
    "test_docs.py",
    "test_readme.py",
)
"""Modules of which each takes a worker many seconds: the first, so that none is left for the end.  The
kernels for all types of numbers are compiled in the first of them; the networks need none, so that another
worker does not compile the same meanwhile."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long modules first; with another array library than NumPy, only the tests that use it."""
    order = {name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: order.get(item.path.name, len(LONG)))
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


@pytest.fixture(scope="module", autouse=True)
def programs_are_let_go() -> Iterator[None]:
    """What JAX compiled for a module of tests, up to a GiB; other modules read what they share from the disk."""
    yield
    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()
        give_back_freed_memory()


@pytest.fixture
def hangup_heard() -> Iterator[None]:
    """SIGHUP as in a terminal: tests that are run by nohup would hand on that it is ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def page_without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of text and tables: the pictures of a run take ten times as long."""
    nothing = SimpleNamespace(figures={}, left_out=[])
    monkeypatch.setattr("tnvmc.report.page.draw", lambda *_: nothing)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """The module's SETTINGS of a run of seconds, in the working directory; its picture is left out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tnvmc.report.plots.energy_picture", lambda *_, **__: b"")
    path = tmp_path / "study.toml"
    path.write_text(request.module.SETTINGS)
    return path
