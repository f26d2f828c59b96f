"""Where the two tiers, retention, deletion and restarts meet: each of these lost data, offsets or progress once."""

import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

import brokers  # noqa: E402
import ledger  # noqa: E402
import load  # noqa: E402
import wire  # noqa: E402
from checks import Suite, equal, require, wait_until  # noqa: E402
from confluent_kafka import Consumer, TopicPartition  # noqa: E402
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType  # noqa: E402

COUNT = 4000
COLD = {"segment_bytes": 1048576, "retention_ms": -1, "local_retention_ms": 1000, "remote_storage_enable": "true"}


class Story:
    def __init__(self, suite, broker):
        self.suite, self.broker = suite, broker
        # one for all: it takes its requests with it when it goes
        self.admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})

    def alter(self, topic, **values):
        entries = [ConfigEntry(name.replace("_", "."), str(value), incremental_operation=AlterConfigOpType.SET) for name, value in values.items()]
        for future in self.admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)]).values():
            future.result(20)

    def marks(self, topic):
        return tuple(wire.list_offset(self.broker.bootstrap, topic, 0, which) for which in (wire.EARLIEST, wire.LATEST))

    def restart_after_kill(self, topic):
        self.broker.kill()
        self.broker.start()
        wait_until(lambda: self.marks(topic)[1] >= 0, f"{topic} to answer", 20)

    def expire_all(self, topic, sent):
        """Everything is tiered, and then expires in both tiers; returns the offset where the log is empty."""
        load.create(self.broker, topic, **COLD, **{"strandline.tier.max.delay.ms": 500})
        load.send(self.broker, topic, sent)
        self.broker.wait_cold(topic)
        self.alter(topic, retention_ms=1000, local_retention_ms=1000)
        wait_until(lambda: self.marks(topic) == (len(sent), len(sent)), f"{topic} to expire", 60)

    def run(self):
        for name in ("start_follows_bucket", "lost_after_expiry", "records_deleted_ahead", "off_and_on", "cold_share", "catching_up",
                     "offsets_topic"):
            body = getattr(self, name)
            with self.suite.story(), self.suite.check(body.__doc__):
                body()

    def start_follows_bucket(self):
        """after an expiry and kill -9 the log start does not fall back"""
        self.expire_all("expired", ledger.rows(0, COUNT))
        self.restart_after_kill("expired")
        wait_until(lambda: self.marks("expired") == (COUNT, COUNT), "the start to follow the bucket", 20)
        more = ledger.rows(0, 100)
        self.alter("expired", retention_ms=-1)
        load.send(self.broker, "expired", more)
        ledger.compare(load.read_all(self.broker, "expired"), more, "expired", first_offset=COUNT)

    def lost_after_expiry(self):
        """a lost local copy of an expired log does not begin at 0 again"""
        self.broker.terminate()
        shutil.rmtree(self.broker.log_dir() / "expired-0")
        # the records that were only here are lost with the disk; what was given away before must not be given away again
        self.broker.start()
        wait_until(lambda: self.marks("expired")[1] >= 0, "the partition", 20)
        require(self.marks("expired")[1] >= COUNT, f"offsets begin at {self.marks('expired')} again")
        before = self.marks("expired")[1]
        load.send(self.broker, "expired", ledger.rows(0, COUNT))
        self.broker.wait_cold("expired")
        equal(self.marks("expired")[1], before + COUNT, "end")

    def records_deleted_ahead(self):
        """DeleteRecords beyond what is tiered: tiering goes on behind the hole"""
        load.create(self.broker, "trimmed", **COLD)
        load.send(self.broker, "trimmed", ledger.rows(0, COUNT))
        self.broker.wait_cold("trimmed")
        self.alter("trimmed", remote_log_copy_disable="true", local_retention_ms=-2)
        load.send(self.broker, "trimmed", ledger.rows(COUNT, 3 * COUNT))
        trim = 2 * COUNT + 900
        for future in self.admin.delete_records([TopicPartition("trimmed", 0, trim)]).values():
            future.result(20)
        wait_until(lambda: len(self.broker.log_files("trimmed")) < 7, "local segments below the start to go", 30)
        self.alter("trimmed", remote_log_copy_disable="false", local_retention_ms=1000)
        load.send(self.broker, "trimmed", ledger.rows(3 * COUNT, 4 * COUNT))
        self.broker.wait_cold("trimmed")
        ledger.compare(load.read_all(self.broker, "trimmed"), ledger.rows(trim, 4 * COUNT), "trimmed", first_offset=trim)

    def off_and_on(self):
        """tiering switched off with its data, and on again"""
        load.create(self.broker, "switched", **COLD)
        load.send(self.broker, "switched", ledger.rows(0, COUNT))
        self.broker.wait_cold("switched")
        self.alter("switched", remote_log_delete_on_disable="true", remote_storage_enable="false")
        wait_until(lambda: self.marks("switched")[0] > 0, "the log to begin on the disk", 30)
        start = self.marks("switched")[0]
        self.alter("switched", remote_storage_enable="true", remote_log_delete_on_disable="false")
        load.send(self.broker, "switched", ledger.rows(COUNT, 2 * COUNT))
        self.broker.wait_cold("switched")
        ledger.compare(load.read_all(self.broker, "switched"), ledger.rows(start, 2 * COUNT), "switched", first_offset=start)

    def cold_share(self):
        """a cold partition is not starved by a hot one of the same consumer"""
        load.create(self.broker, "mixed-cold", **COLD)
        load.send(self.broker, "mixed-cold", ledger.rows(0, COUNT))
        self.broker.wait_cold("mixed-cold")
        load.create(self.broker, "mixed-hot", remote_storage_enable="false", retention_ms=-1)
        load.send(self.broker, "mixed-hot", ledger.rows(0, 10 * COUNT))
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": "mixed", "auto.offset.reset": "earliest", "enable.auto.commit": False,
                             "fetch.max.bytes": 1 << 20, "message.max.bytes": 1 << 20, "max.partition.fetch.bytes": 1 << 20, "queued.min.messages": 1})
        consumer.assign([TopicPartition("mixed-cold", 0, 0), TopicPartition("mixed-hot", 0, 0)])
        counts, deadline = {"mixed-cold": 0, "mixed-hot": 0}, time.monotonic() + 60
        while counts["mixed-cold"] < 2000 and time.monotonic() < deadline:
            for message in consumer.consume(500, timeout=1.0):
                require(not message.error(), str(message.error()))
                counts[message.topic()] += 1
        consumer.close()
        require(counts["mixed-cold"] >= 2000 and counts["mixed-hot"] < 10 * COUNT, f"the hot partition went first: {counts}")

    def catching_up(self):
        """who catches up does not wait for more than there is room for (F-6)"""
        load.create(self.broker, "behind", remote_storage_enable="false", retention_ms=-1, segment_bytes=1 << 20)
        load.send(self.broker, "behind", ledger.rows(0, 10 * COUNT))
        with wire.Connection(self.broker.bootstrap, timeout=60) as connection:
            started = time.monotonic()
            error, _, records = wire.fetch(connection, "behind", max_bytes=200_000, min_bytes=150_000_000, max_wait=30_000)
            took = time.monotonic() - started
            require(not error and len(records) > 50_000, f"error {error}, {len(records)} bytes")
            require(took < 10, f"a fetch from a sealed segment took {took:.1f} s")
            # at the end of the log it does wait
            started = time.monotonic()
            equal(wire.fetch(connection, "behind", offset=10 * COUNT, min_bytes=1, max_wait=1000)[2], b"", "records behind the end")
            require(time.monotonic() - started > 0.9, "a fetch at the end did not wait")

    def offsets_topic(self):
        """groups go on after __consumer_offsets was deleted"""
        for attempt in range(2):
            consumer = Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": f"after-{attempt}", "auto.offset.reset": "earliest",
                                 "session.timeout.ms": 6000})
            consumer.subscribe(["mixed-hot"])
            wait_until(lambda: [m for m in consumer.consume(10, timeout=1.0) if not m.error()], "records in a group", 30)
            consumer.commit(asynchronous=False)
            consumer.close()
            if not attempt:
                for future in self.admin.delete_topics(["__consumer_offsets"]).values():
                    future.result(20)


def main():
    suite = Suite("tier-edges")
    broker = brokers.make()
    with suite.story(), broker:
        with suite.story():
            Story(suite, broker).run()
        # a lost folder is told to the operator
        brokers.check_log(suite, broker, allow=(r"the local copy is gone",))
    suite.finish()


if __name__ == "__main__":
    main()
