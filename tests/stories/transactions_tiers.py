"""Committed reads over both tiers: many interleaved transactions, read from every place in the history while it lies on the disk, in the
bucket, and across the border between them, and after restarts. What must come back is computed from what the producers did."""

import argparse
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

import brokers  # noqa: E402
import load  # noqa: E402
from checks import Failed, Suite, require, wait_until  # noqa: E402
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition  # noqa: E402
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource  # noqa: E402

TOPIC = "history"
TIMEOUT = 30
MIB = 1 << 20
PRODUCERS = 4


class History:
    """What was written to one partition: (offset, value, producer's transaction), and how each transaction ended."""

    def __init__(self, broker, seed):
        self.broker, self.random = broker, random.Random(seed)
        self.records, self.outcomes, self.open = [], {}, {}
        self.producers = {}
        self.next_transaction = 0

    def producer(self, number):
        if number not in self.producers:
            made = Producer({"bootstrap.servers": self.broker.bootstrap, "transactional.id": f"tiers-{number}", "linger.ms": 0, "log_level": 0,
                             "transaction.timeout.ms": 600000})
            made.init_transactions(TIMEOUT)
            self.producers[number] = made
        return self.producers[number]

    def write(self, number, count, size):
        """Records of the producer's transaction, which begins here if none is open."""
        producer = self.producer(number)
        if number not in self.open:
            producer.begin_transaction()
            self.open[number] = self.next_transaction
            self.next_transaction += 1
        transaction = self.open[number]

        def told(error, message):
            if error:
                raise KafkaException(error)
            self.records.append((message.offset(), message.value(), transaction))

        for _ in range(count):
            value = f"{transaction}:{len(self.records)}:{self.random.random()}".encode()
            producer.produce(TOPIC, value=value + b"." * self.random.randrange(size), partition=0, on_delivery=told)
        require(producer.flush(TIMEOUT) == 0, "records were not sent")

    def end(self, number, committed):
        if number in self.open:
            self.outcomes[self.open.pop(number)] = committed
            producer = self.producer(number)
            (producer.commit_transaction if committed else producer.abort_transaction)(TIMEOUT)

    def go_on(self, steps, size=3000):
        """Random steps; producer 0 keeps its transactions open for long."""
        for step in range(steps):
            number = 0 if step % 7 == 0 else self.random.randrange(1, PRODUCERS)
            self.write(number, self.random.randrange(1, 12), size)
            if number and self.random.random() < 0.5:
                self.end(number, self.random.random() < 0.5)
        for number in list(self.open):
            self.end(number, self.random.random() < 0.5)

    def committed(self, start=0, end=None):
        stable = self.stable()
        return [value for offset, value, transaction in sorted(self.records)
                if self.outcomes.get(transaction) and start <= offset < stable and (end is None or offset < end)]

    def stable(self):
        """First offset of an open transaction."""
        return min((offset for offset, _, transaction in self.records if transaction in self.open.values()), default=1 << 62)

    def everything(self, start=0):
        return [value for offset, value, _ in sorted(self.records) if offset >= start]

    def offsets(self):
        return [offset for offset, _, _ in sorted(self.records)]


class Reader:
    def __init__(self, broker, isolation, **settings):
        self.consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "tiers", "isolation.level": isolation, "log_level": 0,
                                  "enable.partition.eof": True, "enable.auto.commit": False, "fetch.wait.max.ms": 100, **settings})

    def read(self, start):
        """Everything from an offset on to the end that this reader may see."""
        self.consumer.assign([TopicPartition(TOPIC, 0, start)])
        values = []
        for _ in range(100000):
            message = self.consumer.poll(TIMEOUT)
            if message is None:
                raise Failed(f"no record and no end within {TIMEOUT} s, {len(values)} records after offset {start}")
            if not message.error():
                values.append(message.value())
            elif message.error().code() == KafkaError._PARTITION_EOF:
                return values
            else:
                raise KafkaException(message.error())
        raise Failed("it does not end")


def compare(history, broker, places=25, **settings):
    """Reads from the beginning and from many other places, at both levels."""
    # a reader that begins behind the last stable offset has no end to reach before it moves
    stable = [offset for offset in history.offsets() if offset < history.stable()]
    starts = [0, *history.random.sample(stable, places)]
    for isolation, expected in (("read_committed", history.committed), ("read_uncommitted", history.everything)):
        reader = Reader(broker, isolation, **settings)
        for start in starts if isolation == "read_committed" else starts[:4]:
            found, wanted = reader.read(start), expected(start)
            if found != wanted:
                at = next((i for i, (a, b) in enumerate(zip(found, wanted)) if a != b), min(len(found), len(wanted)))
                raise Failed(f"{isolation} from offset {start}: {len(found)} records, expected {len(wanted)}; they differ at {at}: "
                             f"{found[at:at + 2]} for {wanted[at:at + 2]}")
        reader.consumer.close()


def alter(broker, name, value):
    change = ConfigResource(ConfigResource.Type.TOPIC, TOPIC)
    change.add_incremental_config(ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.incremental_alter_configs([change]).values():
        future.result(TIMEOUT)


def local_start(broker):
    return min(int(each.stem) for each in broker.log_files(TOPIC)[f"{TOPIC}-0"])


def run(suite, broker, seed):
    history = History(broker, seed)
    check = suite.check
    with check("write a history", needed=True):
        load.create(broker, TOPIC, segment_bytes=MIB, retention_ms=-1, local_retention_ms=-1, remote_storage_enable="true")
        history.go_on(900)
        require(len(broker.log_files(TOPIC)[f"{TOPIC}-0"]) > 4, "too few segments for a test")
    with check("on the disk"):
        compare(history, broker)
    with check("on the disk, in small pieces"):
        compare(history, broker, places=8, **{"max.partition.fetch.bytes": 5000, "fetch.message.max.bytes": 5000})
    with check("on the disk after a clean restart"):
        broker.restart()
        compare(history, broker)
    with check("on the disk after kill -9"):
        broker.kill()
        broker.start()
        compare(history, broker)
    with check("an open transaction holds uploads and committed reads back", needed=True):
        history.write(0, 3, 100)
        first = history.stable()
        for _ in range(60):
            history.write(1, 10, 6000)
            history.end(1, history.random.random() < 0.5)
        alter(broker, "local.retention.ms", "1000")
        wait_until(lambda: local_start(broker) > 0, "local segments to leave", 60)
        compare(history, broker)
        require(local_start(broker) <= first, f"the disk begins at {local_start(broker)}, behind the open transaction at {first}")
    with check("across the border between the tiers"):
        # half of it is still here: the open transaction holds it
        compare(history, broker)
        compare(history, broker, places=8, **{"max.partition.fetch.bytes": 5000, "fetch.message.max.bytes": 5000})
    for committed in (False, True):
        with check(f"a transaction whose records are in the bucket and whose {'commit' if committed else 'abort'} is not"):
            history.write(0, 2, 10)
            history.write(1, 400, 6000)
            history.end(1, True)
            history.end(0, committed)
            history.write(2, 3, 10)
            wait_until(lambda: local_start(broker) > history.offsets()[0], "the border", 60)
            compare(history, broker)
            history.end(2, not committed)
    with check("in the bucket"):
        broker.wait_cold(TOPIC, timeout=60)
        compare(history, broker)
    with check("in the bucket after kill -9"):
        broker.kill()
        broker.start()
        compare(history, broker)
    with check("the transactional producers go on after it all"):
        history.go_on(60)
        compare(history, broker)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    seed = options.parse_args().seed
    suite = Suite("transactions-tiers")
    print(f"seed {seed}", flush=True)
    broker = brokers.make({"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "2"})
    with suite.story(), broker:
        run(suite, broker, seed)
        brokers.check_log(suite, broker)
    suite.finish()


if __name__ == "__main__":
    main()
