"""Transactions of librdkafka, which speaks the first generation of the protocol (commits, aborts, fencing, timeouts, offsets, restarts), and
of franz-go and kafkajs."""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "clients"))

import brokers  # noqa: E402
from checks import Failed, Suite, equal, require, wait_until  # noqa: E402
from clients import Client  # noqa: E402
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition  # noqa: E402
from confluent_kafka.admin import AdminClient, NewTopic  # noqa: E402

TIMEOUT = 30
SETTINGS = {
    # the clock of a transaction is looked at often enough for a test
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.state.log.num.partitions": "4",
    # many small segments, so that aborted transactions lie in several of them and in the bucket
    "log.segment.bytes": str(1 << 20),
}


def producer(broker, transactional_id, **settings):
    made = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": transactional_id, "linger.ms": 1, "log_level": 0, **settings})
    made.init_transactions(TIMEOUT)
    return made


def send(target, topic, values, partition=0):
    failed = []

    def told(error, _):
        if error:
            failed.append(error)

    for value in values:
        target.produce(topic, value=str(value), partition=partition, on_delivery=told)
    left = target.flush(TIMEOUT)
    require(left == 0, f"{left} records were not sent")
    if failed:
        raise KafkaException(failed[0])


def read(broker, topic, count, isolation="read_committed", partition=0, start=0, patience=10.0):
    """Values from an offset on, until there are `count`; with None: until the end of what may be read."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reader", "isolation.level": isolation, "enable.auto.commit": False,
                         "enable.partition.eof": True, "log_level": 0})
    consumer.assign([TopicPartition(topic, partition, start)])
    values, deadline = [], time.monotonic() + patience
    while time.monotonic() < deadline and (count is None or len(values) < count):
        message = consumer.poll(0.2)
        if message is None:
            continue
        if message.error():
            if message.error().code() == KafkaError._PARTITION_EOF:
                if count is None:
                    break
                continue
            raise KafkaException(message.error())
        values.append(message.value().decode())
    consumer.close()
    return values


def offsets(broker, topic, isolation, partition=0):
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "offsets", "isolation.level": isolation, "log_level": 0})
    found = consumer.get_watermark_offsets(TopicPartition(topic, partition), TIMEOUT)
    consumer.close()
    return found


def make(broker, topic, partitions=1, **config):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for future in admin.create_topics([NewTopic(topic, partitions, 1, config={k.replace("_", "."): v for k, v in config.items()})]).values():
        future.result(TIMEOUT)


def code(error):
    return error.args[0].name()


def basics(suite, broker):
    make(broker, "basics")
    first = producer(broker, "basics-1")
    with suite.check("a committed transaction is read, an aborted one is not"):
        first.begin_transaction()
        send(first, "basics", ["a1", "a2"])
        equal(read(broker, "basics", None), [], "read_committed before the commit")
        equal(read(broker, "basics", 2, "read_uncommitted"), ["a1", "a2"], "read_uncommitted before the commit")
        equal(offsets(broker, "basics", "read_committed"), (0, 0), "the last stable offset")
        equal(offsets(broker, "basics", "read_uncommitted"), (0, 2), "the high watermark")
        first.commit_transaction(TIMEOUT)
        equal(read(broker, "basics", 2), ["a1", "a2"], "read_committed after the commit")
        first.begin_transaction()
        send(first, "basics", ["b1", "b2"])
        first.abort_transaction(TIMEOUT)
        first.begin_transaction()
        send(first, "basics", ["c1"])
        first.commit_transaction(TIMEOUT)
        equal(read(broker, "basics", 3), ["a1", "a2", "c1"], "read_committed")
        equal(read(broker, "basics", 5, "read_uncommitted"), ["a1", "a2", "b1", "b2", "c1"], "read_uncommitted")
        # markers take an offset each
        equal(offsets(broker, "basics", "read_committed"), (0, 8), "the last stable offset")
    with suite.check("a reader that begins in the middle of an aborted transaction gets none of it"):
        equal(read(broker, "basics", 1, start=4), ["c1"], "from offset 4")
    with suite.check("interleaved transactions: each is decided by itself"):
        make(broker, "interleaved")
        second, third = producer(broker, "basics-2"), producer(broker, "basics-3")
        first.begin_transaction(), second.begin_transaction(), third.begin_transaction()
        send(first, "interleaved", ["a"])
        send(second, "interleaved", ["b"])
        send(third, "interleaved", ["c"])
        send(first, "interleaved", ["a"])
        second.commit_transaction(TIMEOUT)
        equal(read(broker, "interleaved", None), [], "behind the oldest open transaction nothing is stable")
        first.abort_transaction(TIMEOUT)
        equal(read(broker, "interleaved", 1), ["b"], "up to the next open one")
        third.commit_transaction(TIMEOUT)
        equal(read(broker, "interleaved", 2), ["b", "c"], "all of them")


def fencing(suite, broker):
    make(broker, "fencing")
    with suite.check("a newer producer with the same id fences the older one, and aborts its transaction"):
        old = producer(broker, "zombie")
        old.begin_transaction()
        send(old, "fencing", ["old"])
        new = producer(broker, "zombie")
        try:
            send(old, "fencing", ["zombie"])
            old.commit_transaction(TIMEOUT)
            raise Failed("the zombie could commit")
        except KafkaException as error:
            require(code(error) in ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"), f"the zombie got {code(error)}")
            require(error.args[0].fatal(), "a fenced producer must not go on")
        new.begin_transaction()
        send(new, "fencing", ["new"])
        new.commit_transaction(TIMEOUT)
        equal(read(broker, "fencing", 1), ["new"], "read_committed")
    with suite.check("a transaction that takes too long is aborted, and its producer fenced"):
        make(broker, "slow")
        slow = producer(broker, "slow", **{"transaction.timeout.ms": 1000})
        slow.begin_transaction()
        send(slow, "slow", ["late"])
        wait_until(lambda: offsets(broker, "slow", "read_committed") == (0, 2), "the abort", 20)
        try:
            slow.commit_transaction(TIMEOUT)
            raise Failed("a transaction that was aborted could be committed")
        except KafkaException as error:
            require(error.args[0].fatal() or error.args[0].txn_requires_abort(), f"it got {code(error)}")
        equal(read(broker, "slow", None), [], "read_committed")


def send_offsets(suite, broker):
    make(broker, "input"), make(broker, "output")
    plain = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    send(plain, "input", range(20))
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "mover", "auto.offset.reset": "earliest", "enable.auto.commit": False,
                         "isolation.level": "read_committed", "log_level": 0, "session.timeout.ms": 6000})
    consumer.subscribe(["input"])
    mover = producer(broker, "mover")

    def take(count):
        values = []
        deadline = time.monotonic() + TIMEOUT
        while len(values) < count and time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is not None and not message.error():
                values.append(message.value().decode())
        equal(len(values), count, "records from the input")
        return values

    def committed():
        return consumer.committed([TopicPartition("input", 0)], TIMEOUT)[0].offset

    with suite.check("offsets of a group become visible with the commit, and not with an abort"):
        values = take(10)
        mover.begin_transaction()
        send(mover, "output", values)
        position = consumer.position([TopicPartition("input", 0)])
        mover.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), TIMEOUT)
        mover.abort_transaction(TIMEOUT)
        equal(committed(), -1001, "the group's offset after an abort")
        mover.begin_transaction()
        send(mover, "output", values)
        mover.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), TIMEOUT)
        mover.commit_transaction(TIMEOUT)
        equal(committed(), 10, "the group's offset after the commit")
        equal(read(broker, "output", 10), values, "the output")
    with suite.check("a member of an old generation cannot commit in a transaction"):
        metadata = consumer.consumer_group_metadata()
        consumer.close()
        mover.begin_transaction()
        try:
            mover.send_offsets_to_transaction([TopicPartition("input", 0, 20)], metadata, TIMEOUT)
            raise Failed("it could")
        except KafkaException as error:
            require(error.args[0].txn_requires_abort(), f"it got {code(error)}")
        mover.abort_transaction(TIMEOUT)


def other_clients(suite, broker):
    """franz-go (second generation) and kafkajs (first) move records from a topic to another, aborting every third transaction."""
    for name in ("franz-go", "kafkajs"):
        with suite.check(f"{name} moves records exactly once, with the offsets of its group"):
            source, target, group = (f"{name}-{each}" for each in ("from", "to", "group"))
            make(broker, source), make(broker, target)
            values = [str(each) for each in range(300)]
            send(Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0}), source, values)
            Client(name, broker.bootstrap).run("move", source, target, group, len(values))
            equal(read(broker, target, None), values, "the target, read_committed")
            require(len(read(broker, target, None, "read_uncommitted")) > len(values), "nothing was aborted")
            reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "log_level": 0})
            equal(reader.committed([TopicPartition(source, 0)], TIMEOUT)[0].offset, len(values), "the group's offset")
            reader.close()


def restarts(suite, broker):
    make(broker, "restarts")
    for how in ("clean restart", "kill -9"):
        with suite.check(f"a transaction goes on after a {how}"):
            going = producer(broker, f"restart {how}", **{"transaction.timeout.ms": 60000})
            going.begin_transaction()
            send(going, "restarts", [f"{how} 1"])
            before = offsets(broker, "restarts", "read_committed")
            if how == "clean restart":
                broker.restart()
            else:
                broker.kill()
                broker.start()
            equal(offsets(broker, "restarts", "read_committed"), before, "the last stable offset")
            send(going, "restarts", [f"{how} 2"])
            going.commit_transaction(TIMEOUT)
            expected = [f"{each} {i}" for each in ("clean restart", "kill -9")[:1 if how == "clean restart" else 2] for i in (1, 2)]
            equal(read(broker, "restarts", len(expected)), expected, "read_committed")
    with suite.check("aborted transactions are still left out after kill -9"):
        going.begin_transaction()
        send(going, "restarts", ["aborted"])
        going.abort_transaction(TIMEOUT)
        broker.kill()
        broker.start()
        equal(read(broker, "restarts", None), expected, "read_committed")


def main():
    suite = Suite("transactions")
    broker = brokers.make(SETTINGS)
    with suite.story(), broker:
        for part in (basics, fencing, send_offsets, other_clients, restarts):
            with suite.story():
                part(suite, broker)
        brokers.check_log(suite, broker)
    suite.finish()


if __name__ == "__main__":
    main()
