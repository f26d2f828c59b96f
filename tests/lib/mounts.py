"""A small file system of its own (tmpfs), to be filled, enlarged and made read-only; needs root."""

import subprocess
import tempfile
from pathlib import Path


class SmallDisk:
    def __init__(self, mib):
        self.path = Path(tempfile.mkdtemp(prefix="strandline-disk-"))
        self._mount("-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(self.path))

    def resize(self, mib):
        self._mount("-o", f"remount,size={mib}m", str(self.path))

    def read_only(self):
        self._mount("-o", "remount,ro", str(self.path))

    def writable(self):
        self._mount("-o", "remount,rw", str(self.path))

    @staticmethod
    def _mount(*arguments):
        subprocess.run(["mount", *arguments], check=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", "-l", str(self.path)], check=False)
        self.path.rmdir()
