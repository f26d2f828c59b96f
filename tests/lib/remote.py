"""A broker that somebody else started: known by its addresses only."""

import urllib.request

import wire
from checks import wait_until
from strandline import parse_metrics


class Remote:
    kind = "remote"

    def __init__(self, bootstrap, http=None):
        self.bootstrap, self.http = bootstrap, http

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def complaints(self, allow=()):
        return []

    def log_files(self, topic):
        return None

    def metric(self, name, **labels):
        with urllib.request.urlopen(f"http://{self.http}/metrics", timeout=5) as answer:
            samples = parse_metrics(answer.read().decode())
        found = [value for each, have, value in samples if each == name and all(have.get(k) == v for k, v in labels.items())]
        return sum(found) if found else None

    def wait_cold(self, topic, partitions=1, timeout=90, segment_bytes=1 << 20):
        """As Broker.wait_cold, from the metrics: what is left locally fits into the active segments."""

        def cold():
            local = [wire.list_offset(self.bootstrap, topic, p, wire.EARLIEST_LOCAL) for p in range(partitions)]
            tiered = [wire.list_offset(self.bootstrap, topic, p, wire.LATEST_TIERED) for p in range(partitions)]
            ends = [wire.list_offset(self.bootstrap, topic, p, wire.LATEST) for p in range(partitions)]
            small = (self.metric("strandline_log_bytes", topic=topic) or 0) <= partitions * segment_bytes
            done = small and all(0 < start == last + 1 <= end for start, last, end in zip(local, tiered, ends))
            return list(zip(local, ends)) if done else None

        return wait_until(cold, f"{topic} to be tiered and locally gone", timeout, interval=0.2)
