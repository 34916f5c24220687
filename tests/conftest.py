"""Options and fixtures that all tests share."""

from __future__ import annotations

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
