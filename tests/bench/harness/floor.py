"""The floor: what the same bytes cost without any broker (tests/bench/load/floor.c)."""

import json
import subprocess

from broker import TOOLS, die_with_parent
from checks import Failed

# name → arguments; the ones that write get a file on the brokers' device
MODES = {
    "receive": ("receive", "--prealloc", "1"),
    "receive-growing": ("receive",),
    "memory": ("memory",),
    "sendfile": ("sendfile",),
}


def run(folder, total):
    """{mode: metrics} for all modes, with pieces of 128 KiB."""
    found = {}
    for name, (mode, *more) in MODES.items():
        file = [] if mode == "memory" else ["--file", str(folder / "floor")]
        done = subprocess.run([str(TOOLS / "bin/bench-floor"), mode, "--bytes", str(total), "--piece", str(128 << 10), *file, *more],
                              capture_output=True, text=True, timeout=150, stdin=subprocess.DEVNULL, preexec_fn=die_with_parent)
        if done.returncode:
            raise Failed(f"floor {mode}: {done.stderr.strip()}")
        found[name] = json.loads(done.stdout)
    return found
