#!/usr/bin/env python3
"""Runs the test suites against the built broker, each on a fresh one and with a time limit, and sums up.

    run.py [--only NAME]... [--quick] [--list] [--broker strandline|kafka|kafka-tiered]

STRANDLINE_BIN names the broker (target/release/strandline). --only takes a part of a name and may be repeated.
--quick leaves out what takes more than a minute or so. What cannot be run against the chosen broker is said to be skipped, and why.
The last line is "N passed, N failed".
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parent
PYTHON = Path(os.environ.get("STRANDLINE_TOOLS", TESTS.parent / ".tools")) / "venv/bin/python"
CLIENTS = ("kcat", "confluent-kafka", "kafka-python", "aiokafka", "java", "franz-go", "kafkajs")


class Suite:
    """A script, its limit in seconds, whether --quick runs it, and for each broker that it cannot be run against the reason."""

    def __init__(self, name, *command, limit=240, quick=True, **cannot):
        self.name, self.command, self.limit, self.quick = name, command, limit, quick
        self.cannot = {broker.replace("_", "-"): reason for broker, reason in cannot.items()}


NO_COLD_TIER = {"kafka": "it needs a cold tier: --broker kafka-tiered"}
NOTHING_COLD = {"kafka_tiered": "nothing in it is cold: --broker kafka"}


def ours(what):
    return {"kafka": what, "kafka_tiered": what}


SUITES = [
    *(Suite(each, "clients/suite.py", each, quick=each in ("kcat", "confluent-kafka", "java")) for each in CLIENTS),
    Suite("cross", "clients/cross.py", limit=300, quick=False),
    Suite("java-admin", "clients/java/suite.py", "AdminSuite"),
    Suite("java-groups", "clients/java/suite.py", "GroupSuite"),
    Suite("java-transactions", "clients/java/suite.py", "TransactionSuite"),
    Suite("transactions", "stories/transactions.py"),
    Suite("transactions-tiers", "stories/transactions_tiers.py", limit=400, quick=False, **NO_COLD_TIER),
    Suite("transactions-tools", "stories/transactions_tools.py", quick=False),
    Suite("streams", "stories/streams.py", limit=600, quick=False, **NOTHING_COLD),
    Suite("kafka-tools", "clients/kafka_tools/suite.py", limit=300, quick=False),
    Suite("dump-log", "stories/dump_log.py"),
    Suite("compaction", "stories/compaction.py", limit=400, **NOTHING_COLD),
    Suite("connect", "stories/connect.py", limit=500, quick=False, **NOTHING_COLD),
    Suite("flights-file", "stories/flights.py", "--store", "file", limit=400, **NO_COLD_TIER),
    Suite("flights-s3", "stories/flights.py", "--store", "s3", limit=400, quick=False, **ours("Kafka has no tier on S3 of its own")),
    Suite("kill-loop", "stories/kill_loop.py", "--kills", "10", limit=400),
    Suite("rebalance", "stories/rebalance.py", quick=False),
    Suite("everyday", "stories/everyday.py"),
    Suite("bad-input-frames", "stories/bad_input_frames.py"),
    Suite("bad-input-batches", "stories/bad_input_batches.py"),
    Suite("bad-input-disk", "stories/bad_input_disk.py", **ours("Kafka ends when a disk fails")),
    Suite("bad-input-start", "stories/bad_input_start.py", **ours("it gives settings and buckets that only this broker has")),
    Suite("tier-edges", "stories/tier_edges.py", quick=False, **ours("it watches and breaks this broker's bucket")),
    Suite("corruption", "stories/corruption.py", quick=False, **ours("it damages this broker's own files")),
]


def run(suite, broker):
    """Runs one suite in a session of its own, which ends with it; returns (passed, failed)."""
    started = time.monotonic()
    print(f"--- {suite.name}", flush=True)
    process = subprocess.Popen([str(PYTHON), str(TESTS / suite.command[0]), *suite.command[1:]], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
                               env={**os.environ, "STRANDLINE_TEST_BROKER": broker, "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"})
    late = []

    def stop():
        late.append(True)
        # first the stacks of its threads (see checks.py), then the end
        process.send_signal(signal.SIGUSR1)
        time.sleep(1)
        os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(suite.limit, stop)
    timer.start()
    passed, failed = 0, 0
    for line in process.stdout:
        passed += line.startswith("ok ")
        failed += line.startswith("FAIL")
        if not re.fullmatch(r"\d+ passed, \d+ failed\s*", line):
            print(line, end="", flush=True)
    code = process.wait()
    timer.cancel()
    took = time.monotonic() - started
    if late:
        print(f"FAIL {suite.name}: ended after {suite.limit} s", flush=True)
        failed += 1
    elif code != 0 and failed == 0 or passed + failed == 0:
        print(f"FAIL {suite.name}: exit code {code} with {passed} checks", flush=True)
        failed += 1
    print(f"--- {suite.name}: {passed} passed, {failed} failed in {took:.0f} s", flush=True)
    return passed, failed


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--only", action="append", default=[])
    options.add_argument("--quick", action="store_true")
    options.add_argument("--list", action="store_true")
    options.add_argument("--broker", default="strandline", choices=("strandline", "kafka", "kafka-tiered"))
    chosen = options.parse_args()
    asked = [each for each in SUITES if (each.quick or not chosen.quick or chosen.only)
             and (not chosen.only or any(part in each.name for part in chosen.only))]
    suites = [each for each in asked if chosen.broker not in each.cannot]
    skipped = [each for each in asked if chosen.broker in each.cannot]
    if chosen.list:
        print("\n".join(f"{each.name:<20} {each.limit:>4} s{'' if each.quick else '  not with --quick'}" for each in suites))
        for each in skipped:
            print(f"{each.name:<20} skipped: {each.cannot[chosen.broker]}")
        return
    if not PYTHON.exists():
        sys.exit(f"no {PYTHON}: run tests/install.sh first")
    started = time.monotonic()
    results = [(each.name, *run(each, chosen.broker)) for each in suites]
    for each in skipped:
        print(f"SKIPPED {each.name}, not with --broker {chosen.broker}: {each.cannot[chosen.broker]}")
    for name, _, failed in results:
        if failed:
            print(f"failed: {name} ({failed})")
    passed, failed = sum(each[1] for each in results), sum(each[2] for each in results)
    print(f"{len(results)} suites in {time.monotonic() - started:.0f} s" + (f", {len(skipped)} skipped" if skipped else ""))
    print(f"{passed} passed, {failed} failed", flush=True)
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
