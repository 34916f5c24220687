"""Files that are replaced as a whole or not at all, and reading nothing but files."""

from __future__ import annotations

import errno
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_OURS, _UNDER_WAY = ".tnvmc.", ".tmp"  # how names of temporary files begin and end


def write_atomically(path: Path, content: bytes | memoryview) -> None:
    """Replace a file: temporary file in the same folder, fsync, rename, fsync of the folder.

    The temporary file is locked while its process lives, as `clear_leftovers` asks.  After an
    OSError the old file is still in place.
    """
    clear_leftovers(path.parent)
    name = f"{_OURS}{zlib.crc32(path.name.encode()):08x}.{os.getpid()}{_UNDER_WAY}"
    temporary = path.with_name(name)  # as short for a long name
    with _locked_file(temporary) as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    _sync_folder(path.parent)


@contextmanager
def _locked_file(path: Path) -> Iterator[IO[bytes]]:
    """Make a file that is locked from the moment on in which others can see that it is not."""
    while True:
        with open(path, "wb") as file:
            # Whoever clears leftovers may have removed it before it was locked.
            locked = _lock(file) and path.exists()
            if locked and os.path.samestat(path.stat(), os.fstat(file.fileno())):
                yield file
                return


def _lock(file: IO[bytes]) -> bool:
    """Try to lock a file; True too where the system has no locks."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):  # a system, or a file system, without them
        return True
    return True


def clear_leftovers(folder: Path) -> None:
    """Remove the temporary files that killed processes left in a folder; nobody else's."""
    if os.name != "posix":
        return
    for path in folder.glob(f"{_OURS}*{_UNDER_WAY}"):
        try:
            with open(path, "rb+") as file:
                if not path.is_symlink() and _lock(file):
                    path.unlink()
        except OSError:  # gone meanwhile, or not ours to remove
            continue


def read_plain(path: Path, *, anywhere: bool = False) -> bytes:
    """Read a whole file; OSError for a folder, pipe, device, or a link to another folder.

    With `anywhere` such a link is followed, as for a file that people name.
    """
    if not anywhere and path.is_symlink():
        target = Path(os.path.realpath(path))
        if target.parent != Path(os.path.realpath(path.parent)):
            raise OSError(errno.EXDEV, "a link to another folder, which is not followed", str(path))
    # Without waiting for the other end of a pipe; and what is looked at is what is read.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with open(path, "rb", opener=lambda name, _: os.open(name, flags)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "a pipe or a device, not a file", str(path))
        return file.read()


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
