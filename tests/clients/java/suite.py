"""Runs one of the Java suites against a fresh broker, or against --bootstrap."""

import argparse
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from clients import JAVA  # noqa: E402  (also makes tests/lib importable)

import brokers  # noqa: E402
from broker import die_with_parent  # noqa: E402
from checks import Suite  # noqa: E402
from remote import Remote  # noqa: E402


NAMES = {"AdminSuite": "java-admin", "GroupSuite": "java-groups", "TransactionSuite": "java-transactions"}
# the clock of a transaction is looked at often enough for a test
SETTINGS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("suite", choices=NAMES)
    options.add_argument("--bootstrap")
    chosen = options.parse_args()
    suite = Suite(NAMES[chosen.suite])
    broker = Remote(chosen.bootstrap) if chosen.bootstrap else brokers.make(SETTINGS)
    with suite.story(), broker:
        java = subprocess.Popen([*JAVA, chosen.suite, broker.bootstrap], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                stdin=subprocess.DEVNULL, text=True,
                                preexec_fn=die_with_parent)
        for line in java.stdout:
            if line.startswith("ok "):
                suite.passed += 1
            elif line.startswith("FAIL"):
                suite.failed.append(line)
            if not line.rstrip().endswith(" failed"):
                print(line, end="", flush=True)
        if java.wait() != bool(suite.failed):
            with suite.check("runs to its end"):
                raise SystemExit(f"exit code {java.returncode}")
        brokers.check_log(suite, broker)
    suite.finish()


if __name__ == "__main__":
    main()
