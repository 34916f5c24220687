"""A fixture that the tests of whole runs share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tnvmc.run import session


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """The module's SETTINGS of a run of seconds, in the working directory; its picture is left out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(session, "energy_picture", lambda *_, **__: b"")
    path = tmp_path / "study.toml"
    path.write_text(request.module.SETTINGS)
    return path
