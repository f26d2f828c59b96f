"""What belongs to a log as a whole: compaction, and a restart of a broker that holds much."""

import time

import wire
from checks import wait_until

from .. import clients, subjects
from .base import Scenario
from .start import answers, seconds_until

RECORD = 1024
# So many values of each key: what is left is a quarter.
VALUES_OF_A_KEY = 4
CLEAN_SEGMENT = 64 << 20
PARTITIONS = 200


def cleaned_to(broker, topic):
    """How far the partition is cleaned, from the checkpoint that both brokers keep."""
    try:
        lines = (broker.log_dir() / "cleaner-offset-checkpoint").read_text().splitlines()[2:]
    except FileNotFoundError:
        return 0
    entries = [line.rsplit(" ", 2) for line in lines]
    return next((int(offset) for name, _, offset in entries if name == topic), 0)


def compaction(bench, kind):
    """A log of four values for each key, all of it dirty; its cleaning begins when the topic's lag is taken away, and nobody is served meanwhile."""
    # A cleaner that finds nothing to do rests for 15 s otherwise.
    broker = subjects.make(kind, bench.folder, settings={"log.cleaner.backoff.ms": "100"})
    try:
        broker.start()
        bench.warm(broker)
        topic, messages = bench.fresh_topic("compaction"), bench.sizes.hot // RECORD
        clients.create(broker, topic, 1, cleanup_policy="compact", remote_storage_enable="false", segment_bytes=min(CLEAN_SEGMENT, bench.sizes.hot // 8),
                       min_compaction_lag_ms=3_600_000, min_cleanable_dirty_ratio=0.01, file_delete_delay_ms=100)
        clients.produce(broker, topic, bench.sizes.hot, size=RECORD, partitions=1, keys=messages // VALUES_OF_A_KEY)
        # All but the active segment.
        active, size = max(segments(broker, topic)), sum(list(segments(broker, topic).values())[:-1])
        with bench.measured(broker, "compaction") as span:
            started = time.monotonic()
            clients.alter(broker, topic, min_compaction_lag_ms=0)
            wait_until(lambda: cleaned_to(broker, topic) >= active, "the log to be clean", 120)
            took = time.monotonic() - started
        left = sum(size for base, size in segments(broker, topic).items() if base < active)
        return {"clean_mb_per_s": size / 1e6 / took, "clean_mb_per_cpu_s": size / 1e6 / span.cpu_s, "clean_left": left / size,
                "peak_mib": span.peak_bytes / 2**20}
    finally:
        subjects.discard(broker)


def segments(broker, topic):
    """Sizes of the log files by base offset, in order."""
    paths = sorted(path for paths in broker.log_files(topic).values() for path in paths)
    return {int(path.stem): path.stat().st_size for path in paths}


def time_restart(broker, topic):
    """Seconds until the broker is ready, and until every partition answers."""
    started = time.monotonic()
    broker.spawn()
    ready = seconds_until(started, lambda: answers(broker), "ready", limit=300, broker=broker)

    def all_led():
        try:
            return min(clients.end_offsets(broker, topic, PARTITIONS)) >= 0
        except wire.OffsetError:
            return False  # not led yet

    return ready, seconds_until(started, all_led, "every partition", limit=300, broker=broker)


def restarts(bench, kind):
    broker = subjects.make(kind, bench.folder)
    try:
        broker.start()
        topic = bench.fresh_topic("restarts")
        clients.create_hot(broker, topic, PARTITIONS)
        clients.produce(broker, topic, bench.sizes.restart, partitions=PARTITIONS, size=RECORD, properties=("batch.size=65536",))
        before = clients.end_offsets(broker, topic, PARTITIONS)
        broker.kill()
        _, after_kill = time_restart(broker, topic)
        if clients.end_offsets(broker, topic, PARTITIONS) != before:
            raise AssertionError("the logs end elsewhere than before the kill")
        broker.terminate(timeout=120)
        _, after_stop = time_restart(broker, topic)
        return {"after_stop_s": after_stop, "after_kill_s": after_kill}
    finally:
        subjects.discard(broker)


SCENARIOS = (
    Scenario("compaction", "a log of one partition, 1 KiB records, four for each key, is cleaned while nothing else happens", compaction,
             shares_broker=False, by_default=False),
    Scenario("restarts", f"a broker with 10 GB in {PARTITIONS} partitions is started again, until each of them answers: after a kill -9 that follows the "
             "last acknowledgement, and after a stop", restarts, shares_broker=False, by_default=False),
)
