"""Reading back what is on the disk and nowhere else: not in the broker's memory, not in the page cache."""

from .. import clients, subjects
from ..raw_store import forget_pages
from .base import Scenario, hot_metrics


def from_disk(bench, kind):
    """The broker is restarted, which empties its memory, and warmed again over another topic: a cold JVM would be measured otherwise."""
    name, sizes = "catch-up-disk", bench.sizes
    broker = subjects.make(kind, bench.folder)
    try:
        broker.start()
        topic = bench.fresh_topic(name)
        clients.create_hot(broker, topic, 6)
        clients.produce(broker, topic, sizes.hot, partitions=6)
        broker.restart()
        clients.wait_answers(broker, topic, 6)
        bench.warm(broker)
        for folder in broker.log_dir().glob(f"{topic}-*"):
            forget_pages(folder)
        with bench.measured(broker, name) as span:
            found = clients.consume(broker, topic, sizes.hot, size=1024, partitions=6)
        return {**hot_metrics(span, found), "first_record_s": found["first_record_s"], "read_per_byte": span.read_bytes / found["bytes"]}
    finally:
        subjects.discard(broker)


SCENARIOS = (
    Scenario("catch-up-disk", "1 consumer reads from the beginning (6 partitions, 1 KiB) what is neither in memory nor in the page cache", from_disk,
             shares_broker=False, by_default=False),
)
