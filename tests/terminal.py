"""A terminal of some width in which a command is run, and what is seen in it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def in_terminal(
    arguments: Sequence[str],
    folder: Path,
    columns: int = 80,
    environment: Mapping[str, str] | None = None,
) -> tuple[int, list[str]]:
    """Run Python with arguments; give its exit status and every line that was drawn, in order."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    unset = {"COLUMNS", "LINES", "NO_COLOR", "TTY_COMPATIBLE", "CI"}
    own = {name: value for name, value in os.environ.items() if name not in unset}
    process = subprocess.Popen(
        [sys.executable, *arguments],
        stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder,
        env={**own, "TERM": "xterm", **(environment or {})},
    )  # fmt: skip
    os.close(theirs)
    drawn = b""
    while True:
        try:
            more = os.read(ours, 65536)
        except OSError:  # Linux says so where nobody holds the other end any more
            break
        if not more:
            break
        drawn += more
    os.close(ours)
    text = _SEQUENCE.sub("", drawn.decode())
    return process.wait(), [line.rstrip() for line in re.split(r"[\r\n]+", text) if line.strip()]
