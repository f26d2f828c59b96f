"""Runs the rounds: floor, then each broker in turn (A B A B), warmed, through all chosen scenarios."""

import contextlib
import shutil
import subprocess
import time

from broker import TOOLS
from checks import Failed

from . import accounting, clients, floor, profile, subjects


class Bench:
    """What the scenarios share: sizes, a folder on the device under test, and the results."""

    def __init__(self, folder, sizes, rounds, kinds, keep_pages=False, profiles=None, prime_mib=0, late_ms=0):
        self.folder, self.sizes, self.rounds, self.kinds = folder, sizes, rounds, kinds
        self.keep_pages, self.profiles, self.prime_mib = keep_pages, profiles, prime_mib
        self.late_ms = late_ms
        self.results, self.failures = [], []
        self.topics = 0

    # for the scenarios

    def fresh_topic(self, name):
        self.topics += 1
        return f"{name}-{self.topics}"

    @contextlib.contextmanager
    def measured(self, broker, name=None, helpers=()):
        """Accounts for a broker, and takes its profile when one is asked for and the part has a name."""
        if self.prime_mib:
            prime(self.prime_mib)
        wanted = self.profiles and name and broker.kind == "strandline"
        with profile.Sampling(self.profiles, name, broker.process.pid) if wanted else contextlib.nullcontext():
            with accounting.measured(broker.process.pid, helpers) as span:
                yield span

    def warm(self, broker):
        """Moves data in and out over the paths that are measured: cold, a JVM needs three to four times as much CPU."""
        clients.create_hot(broker, "warm", 6)
        clients.produce(broker, "warm", self.sizes.warm, partitions=6)
        clients.consume(broker, "warm", self.sizes.warm, partitions=6)
        clients.delete(broker, "warm")

    # the rounds

    def run(self, scenarios):
        for number in range(self.rounds):
            if any(each.shares_broker for each in scenarios):
                self._floor(number)
            for kind in self.kinds:
                mine = [each for each in scenarios if kind in each.subjects]
                self._shared(number, kind, [each for each in mine if each.shares_broker])
                for each in mine:
                    if not each.shares_broker:
                        self._one(number, kind, each, kind)

    def _floor(self, number):
        say(f"round {number + 1}: floor")
        for mode, metrics in floor.run(self.folder, self.sizes.floor).items():
            self.results.append({"round": number, "subject": "floor", "scenario": mode, "metrics": metrics})

    def _shared(self, number, kind, scenarios):
        """The hot scenarios on one broker; it is replaced when one of them fails."""
        broker = None
        try:
            for each in scenarios:
                if broker is None:
                    broker = self._warm_broker(number, kind)
                if broker is None:
                    return
                if not self._one(number, kind, each, broker):
                    subjects.discard(broker)
                    broker = None
        finally:
            if broker is not None:
                subjects.discard(broker)

    def _warm_broker(self, number, kind):
        """Starts a broker and warms it."""
        say(f"round {number + 1}: {kind}, warmed with {self.sizes.warm / 1e6:.0f} MB")
        broker = subjects.make(kind, self.folder)
        try:
            broker.start()
            self.warm(broker)
            return broker
        except (Exception, SystemExit) as error:
            self._failed(number, kind, "warm", error, broker)
            subjects.discard(broker)
            return None

    def _one(self, number, kind, scenario, target):
        started = time.monotonic()
        try:
            metrics = scenario.run(self, target)
            complain_about_panics(target)
        except (Exception, SystemExit) as error:  # a failed scenario is a result; the others still run
            self._failed(number, kind, scenario.name, error, target)
            return False
        self.results.append({"round": number, "subject": kind, "scenario": scenario.name, "metrics": metrics})
        say(f"round {number + 1}: {kind} {scenario.name}: {short(metrics)} [{time.monotonic() - started:.1f} s]")
        return True

    def _failed(self, number, kind, name, error, target):
        text = f"{type(error).__name__}: {error}"
        say(f"round {number + 1}: {kind} {name} FAILED: {text}")
        if hasattr(target, "log_tail"):
            say(target.log_tail(12))
        self.failures.append({"round": number, "subject": kind, "scenario": name, "error": text})


def prime(mib):
    """Touches free memory, so that a virtual machine's host has it ready (see load/prime.c)."""
    done = subprocess.run([str(TOOLS / "bin/bench-prime"), str(mib)], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise Failed(f"prime: {done.stderr.strip()}")


def complain_about_panics(target):
    if hasattr(target, "log_tail") and "panicked at" in target.log_path.read_text(errors="replace"):
        raise Failed(f"the broker's log tells of a panic:\n{target.log_tail()}")


def short(metrics):
    shown = {"mb_per_s": "{:.0f} MB/s", "cpu_s_per_gb": "{:.3f} CPU s/GB", "of_loop": "{:.2f} of the plain loop", "ready_s": "ready {:.3f} s",
             "first_ack_s": "first record {:.3f} s", "idle_mib": "{:.1f} MiB", "p99_ms": "p99 {:.2f} ms", "kib_per_partition": "{:.2f} KiB per partition", "peak_mib": "peak {:.0f} MiB"}
    return ", ".join(form.format(metrics[name]) for name, form in shown.items() if name in metrics)


def say(text):
    print(text, flush=True)


@contextlib.contextmanager
def working_folder(parent):
    """An empty folder on the device under test, removed at the end."""
    parent.mkdir(parents=True, exist_ok=True)
    place = parent / "bench-data"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
