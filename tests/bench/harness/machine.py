"""On what it was measured. No path and no name of a host: the record is published."""

import os
import re
import subprocess
from pathlib import Path

from broker import ROOT


def describe(folder):
    cpu = Path("/proc/cpuinfo").read_text()
    model = re.search(r"^(?:model name|Processor)\s*: (.*)$", cpu, re.M)
    memory = int(re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())[1])
    system = re.search(r'PRETTY_NAME="(.*)"', Path("/etc/os-release").read_text())
    return {"cpu": model[1] if model else os.uname().machine, "cores": os.cpu_count(), "memory_gib": round(memory / 2**20, 1),
            "kernel": os.uname().release, "system": system[1] if system else None, "file_system": file_system(folder)}


def file_system(folder):
    """Kind of the file system that holds the data."""
    place = Path(folder).resolve()
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    holds = [(len(each[1]), each[2]) for each in mounts if place.is_relative_to(each[1])]
    return max(holds)[1] if holds else None


def gives_memory_back():
    """Whether this is a virtual machine whose free memory goes back to its host, block by block."""
    return Path("/sys/module/page_reporting").exists() and any(Path("/sys/bus/virtio/drivers/virtio_balloon").glob("virtio*"))


def commit():
    """The commit that is measured, with a + when the tree has changes."""
    def git(*words):
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else ""

    return (git("rev-parse", "--short=10", "HEAD") or "unknown") + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
