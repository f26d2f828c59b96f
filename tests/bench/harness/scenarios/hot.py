"""Producing, and reading back what was produced, from a warm broker."""

from .. import clients
from .base import Scenario, hot_metrics


def log_bytes(broker, topic):
    return sum(path.stat().st_size for files in broker.log_files(topic).values() for path in files)


def tail_bytes(broker):
    """What Strandline holds of the newest records on purpose; Kafka leaves that to the page cache."""
    return broker.metric("strandline_tail_bytes") or 0 if broker.kind == "strandline" else 0


def produce(name, what, partitions=6, size=1024, bytes_of=lambda sizes: sizes.hot, **load):
    def run(bench, broker):
        topic = bench.fresh_topic(name)
        clients.create_hot(broker, topic, partitions)
        with bench.measured(broker, name) as span:
            found = clients.produce(broker, topic, bytes_of(bench.sizes), size=size, partitions=partitions, **load)
        metrics = hot_metrics(span, found)
        metrics["peak_without_tail_mib"] = (span.peak_bytes - tail_bytes(broker)) / 2**20
        metrics["written_per_byte"] = span.written_bytes / log_bytes(broker, topic)
        clients.delete(broker, topic)
        return metrics

    return Scenario(name, what, run)


def catch_up(consumers):
    name = f"catch-up-x{consumers}"

    def run(bench, broker):
        topic = bench.fresh_topic(name)
        clients.create_hot(broker, topic, 6)
        clients.produce(broker, topic, bench.sizes.hot, partitions=6)
        with bench.measured(broker, name) as span:
            found = clients.consume(broker, topic, bench.sizes.hot, size=1024, partitions=6, consumers=consumers)
        clients.delete(broker, topic)
        return {**hot_metrics(span, found), "first_record_s": found["first_record_s"]}

    return Scenario(name, f"{consumers} consumer(s) read everything just produced (6 partitions, 1 KiB) from the beginning", run)


SCENARIOS = (
    produce("produce-6p", "1 KiB records, 6 partitions, acks=all, uncompressed"),
    produce("produce-1p", "1 KiB records, 1 partition, acks=all, uncompressed", partitions=1),
    produce("produce-100b", "100 B records, 6 partitions, acks=all, uncompressed", size=100, bytes_of=lambda sizes: sizes.small),
    produce("produce-lz4", "1 KiB of JSON, 6 partitions, acks=all, lz4 by the client; bytes are counted before compression",
            codec="lz4", payload="json"),
    catch_up(1),
    catch_up(4),
)
