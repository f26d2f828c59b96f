"""Many partitions and connections that nobody uses: what each holds, what all of them cost, and how long a start with them takes."""

import time

import wire

from .. import accounting, clients, subjects
from .base import Scenario
from .start import answers, seconds_until

# A topic has at most so many: one CreateTopics of 20,000 partitions is no common thing.
OF_A_TOPIC = 1000
CONNECTIONS = 1000


def resident(broker):
    return accounting.memory_bytes(broker.process.pid, "VmRSS")


def create_all(broker, name, count):
    topics = []
    for first in range(0, count, OF_A_TOPIC):
        topics.append((f"{name}-{first}", min(OF_A_TOPIC, count - first)))
        code, message = wire.create_topic(broker.bootstrap, *topics[-1], {"remote.storage.enable": "false"})
        if code:
            raise AssertionError(f"create {topics[-1]}: error {code} {message}")
    for topic, partitions in topics:
        clients.wait_answers(broker, topic, partitions)


def idle_cpu(broker, seconds):
    before, started = accounting.cpu_seconds(broker.process.pid), time.monotonic()
    time.sleep(seconds)
    return (accounting.cpu_seconds(broker.process.pid) - before) / (time.monotonic() - started)


def connected(broker, count):
    """Connections that have said what a client says first, and then nothing."""
    found = []
    for _ in range(count):
        connection = wire.Connection(broker.bootstrap, timeout=30)
        connection.ask(18, 0, b"")
        found.append(connection)
    return found


def many(count, kinds):
    def run(bench, kind):
        sizes = bench.sizes
        partitions, connections = count // sizes.partitions_scale, CONNECTIONS // sizes.partitions_scale
        broker = subjects.make(kind, bench.folder)
        opened = []
        try:
            broker.start()
            # A few first, so that what a broker needs for its first requests is not counted for the others.
            create_all(broker, "first", 100 // sizes.partitions_scale)
            time.sleep(sizes.idle_s)
            before, started = resident(broker), time.monotonic()
            create_all(broker, "many", partitions)
            created = time.monotonic() - started
            time.sleep(sizes.idle_s)
            with_partitions = resident(broker)
            opened = connected(broker, connections)
            with_connections = resident(broker)
            # Ten times the usual: a task that wakes up each few seconds has to show.
            cpu = idle_cpu(broker, 10 * sizes.idle_s)
            for each in opened:
                each.socket.close()
            broker.terminate(timeout=120)
            started = time.monotonic()
            broker.spawn()
            ready = seconds_until(started, lambda: answers(broker), "ready", limit=300, broker=broker)
            clients.wait_answers(broker, "many-0", 1, timeout=300)
            restarted = resident(broker)
        finally:
            subjects.discard(broker)
        return {"create_s": created, "partitions_mib": with_partitions / 2**20,
                "kib_per_partition": max(0, with_partitions - before) / partitions / 1024,
                "kib_per_connection": max(0, with_connections - with_partitions) / connections / 1024,
                "partitions_cpu_share": cpu, "ready_s": ready, "restart_mib": restarted / 2**20}

    return Scenario(f"partitions-{count}", f"{count:,} idle partitions and {CONNECTIONS:,} idle connections: memory, idle CPU, start"
                    + ("" if "kafka" in kinds else " (without Kafka, which holds a file of each open)"), run,
                    shares_broker=False, subjects=kinds, by_default=False)


BOTH = ("strandline", "kafka")
SCENARIOS = (many(1000, BOTH), many(10000, BOTH), many(20000, BOTH[:1]))
