"""Producing, and reading back what was produced, from a warm broker."""

import struct

from .. import clients
from .base import Scenario, hot_metrics


BATCH = 64 << 10
# What the client sends of a partition at a time, so that batches are of one size however many partitions there are.
BATCHES = ("batch.num.messages=64",)
PACE = 200_000_000


def log_bytes(broker, topic):
    return sum(path.stat().st_size for files in broker.log_files(topic).values() for path in files)


def mean_batch_bytes(broker, topic, most=20_000):
    """Of the batches in the log, from their headers; much of what a record costs depends on it."""
    batches = total = 0
    for files in broker.log_files(topic).values():
        for path in files:
            with open(path, "rb") as log:
                while batches < most and len(head := log.read(12)) == 12:
                    length = struct.unpack(">i", head[8:])[0]
                    # reserved and not written
                    if length <= 0:
                        break
                    log.seek(length, 1)
                    batches, total = batches + 1, total + 12 + length
    return total / batches if batches else 0.0


def tail_bytes(broker):
    """What Strandline holds of the newest records on purpose; Kafka leaves that to the page cache."""
    return broker.metric("strandline_tail_bytes") or 0 if broker.kind == "strandline" else 0


def produce(name, what, partitions=6, size=1024, bytes_of=lambda sizes: sizes.hot, by_default=True, **load):
    def run(bench, broker):
        topic = bench.fresh_topic(name)
        clients.create_hot(broker, topic, partitions)
        if partitions > 6:
            # What the first records of a partition cost, files above all, is not what this is about.
            clients.produce(broker, topic, partitions * BATCH, size=size, partitions=partitions, **load)
        before = log_bytes(broker, topic)
        with bench.measured(broker, name) as span:
            found = clients.produce(broker, topic, bytes_of(bench.sizes), size=size, partitions=partitions, **load)
        metrics = hot_metrics(span, found)
        metrics["peak_without_tail_mib"] = (span.peak_bytes - tail_bytes(broker)) / 2**20
        metrics["written_per_byte"] = span.written_bytes / (log_bytes(broker, topic) - before)
        metrics["batch_kib"] = mean_batch_bytes(broker, topic) / 1024
        clients.delete(broker, topic)
        return metrics

    return Scenario(name, what, run, by_default=by_default)


def more(name, what, **options):
    """A produce of the matrix, which is not part of the usual run."""
    return produce(name, what, by_default=False, **options)


def small(sizes):
    return sizes.small


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
    produce("produce-100b", "100 B records, 6 partitions, acks=all, uncompressed", size=100, bytes_of=small),
    produce("produce-lz4", "1 KiB of JSON, 6 partitions, acks=all, lz4 by the client; bytes are counted before compression",
            codec="lz4", payload="json"),
    more("produce-zstd", "as produce-lz4, with zstd", codec="zstd", payload="json"),
    more("produce-100b-lz4", "100 B of JSON, 6 partitions, acks=all, lz4", size=100, bytes_of=small, codec="lz4", payload="json"),
    more("produce-100b-zstd", "100 B of JSON, 6 partitions, acks=all, zstd", size=100, bytes_of=small, codec="zstd", payload="json"),
    more("produce-10k", "10 KiB records, 6 partitions, acks=all, uncompressed", size=10240),
    more("produce-10k-lz4", "10 KiB of JSON, 6 partitions, acks=all, lz4", size=10240, codec="lz4", payload="json"),
    more("produce-10k-zstd", "10 KiB of JSON, 6 partitions, acks=all, zstd", size=10240, codec="zstd", payload="json"),
    more("produce-acks1", "as produce-6p, with acks=1", acks=1),
    more("produce-idempotent", "as produce-6p, by an idempotent producer", idempotent="true"),
    more("produce-16c", "as produce-6p, by 16 producers", producers=16),
    more("produce-200c", "as produce-6p, by 200 producers", producers=200),
    # The client visits each of many partitions seldom, so that its batches have 64 KiB; the first of these is 6 partitions with such batches.
    more("produce-6p-64k", "as produce-6p, with batches of 64 records: what the next two are compared with", properties=BATCHES),
    more("produce-100p", "1 KiB records, 100 partitions, batches of 64 records", partitions=100, properties=BATCHES),
    more("produce-1000p", "1 KiB records, 1,000 partitions, batches of 64 records", partitions=1000, properties=BATCHES),
    # A client that is slower, as it is with many partitions, leaves the broker waiting, and each frame then finds it asleep: these two come at one rate.
    more("produce-6p-paced", "as produce-6p-64k, 200 MB/s: what the next is compared with", properties=BATCHES, rate=PACE),
    more("produce-1000p-paced", "as produce-1000p, 200 MB/s", partitions=1000, properties=BATCHES, rate=PACE),
    catch_up(1),
    catch_up(4),
)
