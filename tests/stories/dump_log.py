"""Kafka's own DumpLogSegments reads every file of the data directory and finds nothing wrong: live, after a stop, after kill -9."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

import brokers  # noqa: E402
import ledger  # noqa: E402
import load  # noqa: E402
from checks import Suite, equal, require  # noqa: E402
from confluent_kafka import Consumer, TopicPartition  # noqa: E402
from kafka_tools import dump_log_dir  # noqa: E402

COUNT = 3000


def fill(broker, rounds):
    """Two topics (one with small segments, one with two partitions) and a group, a bit more with each round."""
    for number, codec in enumerate(ledger.CODECS):
        first = (rounds * len(ledger.CODECS) + number) * COUNT
        load.send(broker, "small-segments", ledger.rows(first, first + COUNT), compression_type=codec, batch_size=32768)
    load.send(broker, "two-partitions", ledger.rows(0, COUNT, partitions=2), compression_type="lz4")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": f"group-{rounds}", "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition("two-partitions", 0, 10 + rounds)], asynchronous=False)
    consumer.close()


def expect(broker, rounds, what):
    found = dump_log_dir(broker.log_dir(), live=broker.running)
    equal(found["small-segments-0"], rounds * len(ledger.CODECS) * COUNT, f"records dumped {what}")
    equal(found["two-partitions-0"] + found["two-partitions-1"], rounds * COUNT, f"records of two partitions dumped {what}")
    require(len(broker.log_files("small-segments")["small-segments-0"]) > 3, "too few segments for a test")


def main():
    suite = Suite("dump-log")
    broker = brokers.make()
    with suite.story(), broker:
        with suite.check("produce", needed=True):
            load.create(broker, "small-segments", segment_bytes=1048576, retention_ms=-1, remote_storage_enable="false")
            load.create(broker, "two-partitions", partitions=2, retention_ms=-1, message_timestamp_type="LogAppendTime")
            fill(broker, 0)
        with suite.check("dump while the broker runs"):
            expect(broker, 1, "live")
        with suite.check("dump after a clean stop"):
            equal(broker.terminate(), 0 if broker.kind == "strandline" else 143, "exit code")
            expect(broker, 1, "after a stop")
        with suite.check("dump after kill -9, recovery and more records"):
            broker.start()
            fill(broker, 1)
            broker.kill()
            broker.start()
            fill(broker, 2)
            broker.terminate()
            expect(broker, 3, "after kill -9")
        brokers.check_log(suite, broker)
    suite.finish()


if __name__ == "__main__":
    main()
