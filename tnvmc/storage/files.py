"""Files that are replaced as a whole or not at all, and reading nothing but files."""

import contextlib
import errno
import os
import stat
import time
import zlib
from pathlib import Path

_OURS, _UNDER_WAY = ".tnvmc.", ".tmp"  # how names of temporary files begin and end
_OLD = 3600.0  # seconds after which nobody writes to one any more


def write_atomically(path: Path, content: bytes | memoryview) -> None:
    """Replace a file: temporary file in the same folder, fsync, rename, fsync of the folder.

    After an OSError the old file is still in place.
    """
    clear_leftovers(path.parent)
    name = f"{_OURS}{zlib.crc32(path.name.encode()):08x}.{os.getpid()}{_UNDER_WAY}"
    temporary = path.with_name(name)  # as short for a long name
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def clear_leftovers(folder: Path) -> None:
    """Remove the temporary files of killed processes: nobody has written to them for an hour."""
    for path in folder.glob(f"{_OURS}*{_UNDER_WAY}"):
        with contextlib.suppress(OSError):  # gone meanwhile, or not ours to remove
            if time.time() - path.lstat().st_mtime > _OLD:
                path.unlink()


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
