"""A profile of the broker during the measured part of a scenario, by sampling with perf."""

import contextlib
import os
import select
import signal
import subprocess
import tempfile
from pathlib import Path

from checks import Failed

ANSWER_S = 30


class Sampling:
    """perf record on one process; afterwards FOLDER/NAME.perf and, as text, FOLDER/NAME.txt."""

    def __init__(self, folder, name, pid):
        folder.mkdir(parents=True, exist_ok=True)
        self.data, self.text = folder / f"{name}.perf", folder / f"{name}.txt"
        self.stack = contextlib.ExitStack()
        try:
            self._begin(pid)
        except BaseException:
            self.stack.close()
            raise

    def _begin(self, pid):
        place = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-perf-")))
        orders, answers = place / "orders", place / "answers"
        handles = []
        for fifo in (orders, answers):
            os.mkfifo(fifo)
            # Open for both directions: neither we nor perf wait for the other to open it.
            handles.append(os.open(fifo, os.O_RDWR | os.O_CLOEXEC))
            self.stack.callback(os.close, handles[-1])
        self.orders, self.answers = handles
        # The software clock works where a virtual machine has no counters. Nothing is sampled until perf is told to.
        self.process = subprocess.Popen(["perf", "record", "-q", "-e", "cpu-clock", "-F", "997", "-g", "-p", str(pid), "-o", str(self.data),
                                         "--delay=-1", f"--control=fifo:{orders},{answers}"],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.stack.callback(self._end_perf)
        self._order("enable")

    def _order(self, word):
        """Tells perf, and waits until it has done so."""
        os.write(self.orders, f"{word}\n".encode())
        if not select.select([self.answers], [], [], ANSWER_S)[0]:
            raise Failed(f"perf does not answer to {word}; it ended with {self.process.poll()}")
        said = os.read(self.answers, 64)
        if not said.startswith(b"ack"):
            raise Failed(f"perf answers {said!r} to {word}")

    def _end_perf(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=60)

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        with self.stack:
            if failure is None:
                self._order("disable")
        if failure is None:
            self._report()

    def _report(self):
        with open(self.text, "w") as out:
            subprocess.run(["perf", "report", "--stdio", "-i", str(self.data), "-g", "none", "--no-children", "--percent-limit", "0.3",
                            "--sort", "symbol"], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.DEVNULL, timeout=300)
