"""What every broker under test has in common: a process, a data directory, a bootstrap address, a log that is read at the end."""

import ctypes
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import wire
from checks import Failed, wait_until

ROOT = Path(__file__).resolve().parents[2]
TOOLS = Path(os.environ.get("STRANDLINE_TOOLS", ROOT / ".tools"))


def free_ports(count):
    """Ports that nobody listens on now; all are held together so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def die_with_parent():
    """In a child before exec: be killed when the test that started it ends, however it ends (prctl PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def inherited():
    """The environment for a broker: settings come as STRANDLINE_..., so the harness's own names of that form stay out."""
    return {name: value for name, value in os.environ.items() if not name.startswith("STRANDLINE_")}


class Broker:
    """A broker process on free loopback ports with a data directory that outlives restarts."""

    kind = "broker"

    def __init__(self, settings=None, env=None, data_dir=None):
        self.settings = dict(settings or {})
        self.env = dict(env or {})
        self.owns_dir = data_dir is None
        self.dir = Path(data_dir or tempfile.mkdtemp(prefix=f"strandline-{self.kind}-"))
        self.dir.mkdir(parents=True, exist_ok=True)
        self.log_path = Path(tempfile.mkstemp(prefix=f"{self.kind}-", suffix=".log")[1])
        self.process = None
        self.was_killed = False
        self.port, self.second_port = free_ports(2)

    # the parts that differ
    def command(self):
        raise NotImplementedError

    def ready(self):
        raise NotImplementedError

    def log_dir(self):
        """The folder that holds one folder per partition."""
        raise NotImplementedError

    http = None
    start_timeout = 20

    @property
    def bootstrap(self):
        return f"127.0.0.1:{self.port}"

    def spawn(self):
        """Starts the process and does not wait for it."""
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                preexec_fn=die_with_parent, env={**inherited(), **self.environment(), **self.env}, cwd=self.dir)

    def start(self):
        """Starts the process and returns when it is ready; a process that ends early raises with its last log lines."""
        self.spawn()

        def ready():
            if self.process.poll() is not None:
                raise SystemExit(f"{self.kind} ended with {self.process.returncode} at start:\n{self.log_tail()}")
            return self.ready()

        try:
            wait_until(ready, f"{self.kind} to be ready", self.start_timeout)
        except Failed as error:
            self.kill()
            raise Failed(f"{error}\n{self.log_tail()}") from None
        return self

    def environment(self):
        return {}

    @property
    def running(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        """kill -9 of the process and whatever it started."""
        if self.process is None:
            return
        if self.running:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.was_killed = True
        self.process.wait(timeout=30)

    def terminate(self, timeout=30):
        """SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed(f"{self.kind} did not stop within {timeout} s of SIGTERM:\n{self.log_tail()}") from None

    def restart(self):
        if self.running:
            self.terminate()
        return self.start()

    def close(self):
        """Ends the process and removes what it left on disk."""
        self.kill()
        if self.owns_dir and not os.environ.get("STRANDLINE_KEEP"):
            shutil.rmtree(self.dir, ignore_errors=True)
            self.log_path.unlink(missing_ok=True)
        elif self.owns_dir:
            print(f"kept {self.dir} and {self.log_path}", flush=True)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.close()

    def memory(self):
        """(resident bytes now, highest resident bytes) of the process."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return tuple(int(re.search(rf"{key}:\s+(\d+)", status)[1]) * 1024 for key in ("VmRSS", "VmHWM"))

    def log_tail(self, lines=25):
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])

    # cold data

    def log_files(self, topic):
        """The live .log files of a topic, by partition folder."""
        return {folder.name: sorted(folder.glob("*.log")) for folder in sorted(self.log_dir().glob(f"{topic}-*"))
                if re.fullmatch(re.escape(topic) + r"-\d+", folder.name)}

    def wait_cold(self, topic, partitions=1, timeout=90):
        """Waits until all but the active segment of each partition are tiered and locally gone; returns [(local start, end)]."""

        def cold():
            found = []
            files = self.log_files(topic)
            for partition in range(partitions):
                local = wire.list_offset(self.bootstrap, topic, partition, wire.EARLIEST_LOCAL)
                tiered = wire.list_offset(self.bootstrap, topic, partition, wire.LATEST_TIERED)
                end = wire.list_offset(self.bootstrap, topic, partition, wire.LATEST)
                segments = files.get(f"{topic}-{partition}", [])
                found.append((local, tiered, end, len(segments)))
            self.cold_state = found
            return [(local, end) for local, _, end, _ in found] if all(
                0 < local == tiered + 1 <= end and segments == 1 for local, tiered, end, segments in found) else None

        try:
            return wait_until(cold, f"{topic} to be tiered and locally gone", timeout, interval=0.2)
        except Failed as error:
            state = getattr(self, "cold_state", None)
            raise Failed(f"{error}; (local start, latest tiered, end, local segments) = {state}") from None


def end_quietly(process, timeout=10):
    """Ends a helper process that may already be gone."""
    if process is not None and process.poll() is None:
        process.terminate()
        deadline = time.monotonic() + timeout
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        if process.poll() is None:
            process.kill()
        process.wait()
