"""Strandline under test: start, stop, kill, metrics, and a log in which nothing unexpected may stand."""

import os
import re
import subprocess
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

from broker import ROOT, Broker
from checks import Failed

# Lines of level WARN or ERROR that are part of normal life in these tests, each with its reason.
EXPECTED_LINES = [
    # the same settings go to Kafka and to Strandline; the ones that Strandline does not serve yet are named in a warning
    r"not served|not supported yet|is ignored|has no effect",
    # a machine that is busy with the clients can be slow to read a chunk; the client asks again
    r"the bucket is slow, or does not answer: a fetch got nothing",
]
# The kernel ends a write where a kill comes: what was not acknowledged may be there in part, at the end of a log.
TORN_BY_A_KILL = r"the log was cut at its last valid batch .*(the batch is longer than the file|less than a batch header is left).* deleted_segments=0"
COMPLAINT = re.compile(r"\b(WARN|ERROR)\b|panicked at|\"level\":\"(WARN|ERROR)\"")
ANSI = re.compile(r"\x1b\[[0-9;]*m")

DEFAULTS = {
    "group.initial.rebalance.delay.ms": "0",
    "num.partitions": "4",
    "offsets.topic.num.partitions": "4",
    "log.retention.check.interval.ms": "500",
    "remote.log.manager.task.interval.ms": "500",
    "remote.log.storage.system.enable": "true",
}


def binary():
    path = Path(os.environ.get("STRANDLINE_BIN", ROOT / "target/release/strandline"))
    if not path.exists():
        raise SystemExit(f"no broker at {path}: build it or set STRANDLINE_BIN")
    return str(path)


class Strandline(Broker):
    kind = "strandline"

    def command(self):
        settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "strandline.http.listener": self.http,
            "strandline.data.dir": str(self.dir / "data"),
            **DEFAULTS, **self.settings,
        }
        return [binary(), "server", *(part for name, value in settings.items() for part in ("--set", f"{name}={value}"))]

    @property
    def http(self):
        return f"127.0.0.1:{self.second_port}"

    def ready(self):
        return self.get("/readyz")[0] == 200

    def refuses(self, timeout=20):
        """Starts a broker that has to end by itself with an error; returns (exit code, what it said)."""
        self.log_path.write_text("")
        self.spawn()
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed(f"it did not end within {timeout} s:\n{self.log_tail()}") from None
        said = ANSI.sub("", self.log_path.read_text(errors="replace"))
        if code == 0 or code < 0 or "panicked" in said:
            raise Failed(f"exit code {code}:\n{said[-2000:]}")
        return code, said

    def get(self, path):
        """(status, text) of a page of the HTTP listener."""
        try:
            with urllib.request.urlopen(f"http://{self.http}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(errors="replace")

    def log_dir(self):
        return Path(self.settings.get("log.dirs", self.dir / "data" / "log"))

    def bucket_dir(self):
        return self.dir / "data" / "bucket"

    def metrics(self):
        """All samples as [(name, labels, value)]."""
        status, text = self.get("/metrics")
        if status != 200:
            raise Failed(f"/metrics answered {status}")
        return parse_metrics(text)

    def metric(self, name, **labels):
        """The sum of the samples of `name` that carry these labels; None when there is none."""
        found = {tuple(sorted(have.items())): value for each, have, value in self.metrics()
                 if each == name and all(have.get(key) == want for key, want in labels.items())}
        return sum(found.values()) if found else None

    def metrics_problems(self):
        """What a scraper would refuse: samples or TYPE lines that occur twice, and names without a TYPE."""
        status, text = self.get("/metrics")
        samples = [line.rsplit(" ", 1)[0] for line in text.splitlines() if line and not line.startswith("#")]
        types = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
        problems = [] if status == 200 else [f"/metrics answered {status}"]
        problems += [f"twice: {each}" for found in (samples, types) for each, count in Counter(found).items() if count > 1]
        known = re.compile(r"(_total|_bucket|_sum|_count|_created|_info)?$")
        problems += sorted({f"no TYPE: {name}" for name in (each.split("{")[0] for each in samples)
                            if name not in types and known.sub("", name, count=1) not in types})
        return problems + [f"an empty label: {each}" for each in samples if '=""' in each]

    def complaints(self, allow=()):
        """Log lines of level WARN or ERROR, and panics, that no pattern allows."""
        torn = [TORN_BY_A_KILL] if self.was_killed else []
        patterns = [re.compile(each) for each in (*EXPECTED_LINES, *torn, *allow)]
        lines = (ANSI.sub("", line) for line in self.log_path.read_text(errors="replace").splitlines())
        return [line for line in lines if COMPLAINT.search(line) and not any(each.search(line) for each in patterns)]


_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def parse_metrics(text):
    samples = []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            match = _SAMPLE.match(line)
            if not match:
                raise Failed(f"not a Prometheus sample: {line!r}")
            samples.append((match[1], dict(_LABEL.findall(match[2] or "")), float(match[3])))
    return samples
