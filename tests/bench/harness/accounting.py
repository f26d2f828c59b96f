"""What a process costs: CPU seconds, memory and disk writes, as the kernel accounts them."""

import contextlib
import os
import re
import threading
import time
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    """User and system seconds of all threads of a process, ended ones included.

    The process's CPU clock has nanoseconds, where /proc/<pid>/stat has ticks of 10 ms; both count the same.
    """
    return time.clock_gettime(~pid << 3 | 2)


def system_seconds(pid):
    """The part of it that was spent in the kernel, in ticks."""
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[12]) / TICK


def memory_bytes(pid, key):
    """VmRSS (resident now) or VmHWM (highest since the start or `forget_peak`)."""
    return int(re.search(rf"^{key}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.M)[1]) * 1024


def forget_peak(pid):
    """Sets VmHWM to what is resident now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def written_bytes(pid):
    """Bytes that the process caused to be written to a disk, counted when a page gets dirty."""
    return int(re.search(r"^write_bytes: (\d+)", Path(f"/proc/{pid}/io").read_text(), re.M)[1])


def read_bytes(pid):
    """Bytes that the process caused to be fetched from a disk."""
    return int(re.search(r"^read_bytes: (\d+)", Path(f"/proc/{pid}/io").read_text(), re.M)[1])


def machine_busy_seconds():
    """CPU seconds that all processes of the machine have used."""
    user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICK


class Span:
    """What a broker used between the begin and the end of a measurement."""

    def __init__(self, pid, helpers=()):
        self.pid, self.helpers = pid, tuple(helpers)
        self.cpu_s = self.system_s = self.seconds = self.helpers_cpu_s = self.machine_s = 0.0
        self.peak_bytes = self.written_bytes = self.read_bytes = 0

    def _now(self):
        return {"cpu_s": cpu_seconds(self.pid), "system_s": system_seconds(self.pid), "seconds": time.monotonic(),
                "helpers_cpu_s": sum(map(cpu_seconds, self.helpers)), "machine_s": machine_busy_seconds(),
                "written_bytes": written_bytes(self.pid), "read_bytes": read_bytes(self.pid)}

    def begin(self):
        forget_peak(self.pid)
        self.before = self._now()
        return self

    def end(self):
        after = self._now()
        for name, value in after.items():
            setattr(self, name, value - self.before[name])
        self.peak_bytes = memory_bytes(self.pid, "VmHWM")
        return self

    def foreign_share(self, client_cpu_s=0.0):
        """Share of the machine's CPU that went to processes that have nothing to do with the measurement."""
        foreign = self.machine_s - self.cpu_s - self.helpers_cpu_s - client_cpu_s
        return max(0.0, foreign / (self.seconds * os.cpu_count())) if self.seconds else 0.0


@contextlib.contextmanager
def measured(pid, helpers=()):
    """Around a measurement; the Span has its figures afterwards."""
    span = Span(pid, helpers).begin()
    yield span
    span.end()


def limit_run(seconds):
    """Ends the whole harness, and by that all that it started, when it takes longer than this."""
    def late():
        os.write(2, f"bench: ended after {seconds} s\n".encode())
        os._exit(3)

    timer = threading.Timer(seconds, late)
    timer.daemon = True
    timer.start()
