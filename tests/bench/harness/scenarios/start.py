"""How long a broker takes until it works, and what it holds when it does nothing."""

import http.client
import statistics
import threading
import time

import wire
from checks import Failed

from .. import accounting, clients, subjects
from .base import Scenario

POLL_S = 0.001


def seconds_until(started, attempt, what, limit=60, broker=None):
    """Repeats `attempt` each millisecond until it is true; seconds since `started`. Ends when the broker does."""
    last = None
    while time.monotonic() - started < limit and (broker is None or broker.running):
        try:
            if attempt():
                return time.monotonic() - started
        except (OSError, AssertionError, wire.Closed) as error:
            last = error
        time.sleep(POLL_S)
    raise Failed(f"{what}: not within {limit} s, or the broker has ended; last: {last!r}")


def answers(broker):
    """Strandline: /readyz says yes. Kafka has no such page: ApiVersions is answered."""
    if broker.kind != "strandline":
        return 3 in wire.api_versions(broker.bootstrap)
    host, port = broker.http.split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    finally:
        connection.close()


def acknowledged(broker, topic, create):
    """One record to `topic` with acks=all; creates it first when asked, over again until it exists."""
    with wire.Connection(broker.bootstrap, timeout=5) as connection:
        if create:
            code, message = wire.create_topic(broker.bootstrap, topic)
            if code not in (0, 36):
                raise AssertionError(f"CreateTopics: {code} {message}")
        batch = wire.batch(wire.record(0, b"key", b"value"))
        seconds_until(time.monotonic(), lambda: wire.produce(connection, topic, 0, batch)[0] == 0, "a first record", 5)
        return True


def time_start(broker, topic, create):
    """Starts the broker; (seconds until ready, seconds until a record is acknowledged)."""
    ready = []
    started = time.monotonic()
    broker.spawn()
    probe = threading.Thread(target=lambda: ready.append(seconds_until(started, lambda: answers(broker), "ready", broker=broker)), daemon=True)
    probe.start()
    record = seconds_until(started, lambda: acknowledged(broker, topic, create), "the first acknowledged record", broker=broker)
    probe.join(60)
    if not ready:
        raise Failed("the broker never said that it is ready")
    return ready[0], record


def start_up(bench, kind):
    """First starts in an empty directory (Kafka's is formatted beforehand, which takes it seconds), then starts with a topic."""
    first, again = [], []
    for _ in range(min(bench.sizes.starts, 5 if kind == "strandline" else 2)):
        broker = subjects.make(kind, bench.folder)
        try:
            if kind == "kafka":
                broker.start()
                broker.terminate()
            first.append(time_start(broker, "first", create=True))
            broker.terminate()
            again.append(time_start(broker, "first", create=False))
        finally:
            subjects.discard(broker)
    middle = statistics.median
    return {"first_ready_s": middle(each[0] for each in first), "first_ack_s": middle(each[1] for each in first),
            "ready_s": middle(each[0] for each in again), "ack_s": middle(each[1] for each in again)}


def idle(bench, kind):
    """A fresh broker that nobody uses."""
    broker = subjects.make(kind, bench.folder)
    try:
        broker.start()
        time.sleep(bench.sizes.idle_s)
        fresh = accounting.memory_bytes(broker.process.pid, "VmRSS")
        before, started = accounting.cpu_seconds(broker.process.pid), time.monotonic()
        time.sleep(bench.sizes.idle_s)
        cpu = (accounting.cpu_seconds(broker.process.pid) - before) / (time.monotonic() - started)
        topic = bench.fresh_topic("idle")
        clients.create_hot(broker, topic, 6)
        clients.produce(broker, topic, min(bench.sizes.hot, 256_000_000), partitions=6)
        clients.delete(broker, topic)
        time.sleep(3 * bench.sizes.idle_s)
        return {"idle_mib": fresh / 2**20, "idle_cpu_share": cpu,
                "idle_after_work_mib": accounting.memory_bytes(broker.process.pid, "VmRSS") / 2**20}
    finally:
        subjects.discard(broker)


SCENARIOS = (
    Scenario("start-up", "from the start of the process until it is ready, and until a record is acknowledged with acks=all", start_up,
             shares_broker=False),
    Scenario("idle", "resident memory and CPU of a fresh broker with nothing to do, and of one that has worked", idle, shares_broker=False),
)
