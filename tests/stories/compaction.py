"""Compacted topics as clients see them: the newest value of every key stays, tombstones go in time, nothing else changes, whatever is
killed meanwhile; `__consumer_offsets` and `__transaction_state` stay small; Kafka's own tools create, fill, read and dump such a topic."""

import random
import re
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

import brokers  # noqa: E402
import load  # noqa: E402
import wire  # noqa: E402
from checks import Suite, equal, require, wait_until  # noqa: E402
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition  # noqa: E402
from kafka_tools import dump, dump_log_dir, tool  # noqa: E402

KEYS = 300
SETTINGS = {"log.cleaner.backoff.ms": "200", "offsets.topic.segment.bytes": "1048576", "offsets.topic.num.partitions": "1",
            "transaction.state.log.segment.bytes": "1048576", "transaction.state.log.num.partitions": "1",
            "log.segment.delete.delay.ms": "1000", "log.initial.task.delay.ms": "500"}
TABLE = {"cleanup.policy": "compact", "segment.bytes": 1048576, "min.cleanable.dirty.ratio": 0.01, "delete.retention.ms": 1500}


def text(data):
    return None if data is None else data.decode()


class Table:
    """What a topic must say: the last acknowledged value of each key."""

    def __init__(self, broker, topic):
        self.broker, self.topic, self.rows, self.version = broker, topic, {}, 0

    def update(self, keys, codec="none", value=None, patient=False):
        """Writes each key once; what is not acknowledged may or may not be there."""
        self.version += 1
        out = load.producer(self.broker.bootstrap, compression_type=codec, batch_size=65536)
        version = self.version

        def acknowledged(key, new):
            def done(error, _message):
                if error is None:
                    self.rows[key] = (version, new)
                elif not patient:
                    failures.append(error)
            return done

        failures = []
        for key in keys:
            new = value(key, version) if value else f"{key}:{version}:" + random.Random(f"{key}:{version}").randbytes(450).hex()
            while True:
                try:
                    out.produce(self.topic, key=key, value=new, on_delivery=acknowledged(key, new))
                    break
                except BufferError:
                    out.poll(0.05)
        left = out.flush(60)
        require(not failures and (patient or not left), f"produce: {failures[:2]}, {left} without an answer")

    def read(self):
        """Every record from the beginning: [(offset, key, value)]."""
        found = load.read_all(self.broker, self.topic, row=lambda m: (m.offset(), text(m.key()), text(m.value())))
        offsets = [offset for offset, _, _ in found]
        require(offsets == sorted(set(offsets)), "offsets are out of order")
        return found

    def check(self):
        """A reader's table is ours; returns the records that it read."""
        found = self.read()
        table = {}
        for _, key, value in found:
            table[key] = value
        seen = {key: value for key, value in table.items() if value is not None}
        expected = {key: value for key, (_, value) in self.rows.items() if value is not None}
        wrong = {key for key in seen.keys() | expected.keys() if seen.get(key) != expected.get(key)}
        require(not wrong, f"{len(wrong)} keys are wrong, for example {sorted(wrong)[:3]}")
        return found


def size(broker, topic):
    return sum(path.stat().st_size for files in broker.log_files(topic).values() for path in files)


def keys():
    return [f"key-{number}" for number in range(KEYS)]


def cleaned(table, most):
    """Waits until so few records are left."""
    return wait_until(lambda: len(table.check()) <= most, f"at most {most} records of {table.topic}", 60, interval=0.3)


def tools(broker):
    """Kafka's command-line tools create, fill and read a compacted topic."""
    options = [part for name, value in TABLE.items() for part in ("--config", f"{name}={value}")]
    tool("TopicCommand", "--bootstrap-server", broker.bootstrap, "--create", "--topic", "by-tools", "--partitions", 1, *options)
    said = tool("ConfigCommand", "--bootstrap-server", broker.bootstrap, "--describe", "--entity-type", "topics", "--entity-name", "by-tools")
    require("cleanup.policy=compact" in said, said)
    lines = [f"k{number % 7}\t{number}" for number in range(200)]
    tool("ConsoleProducer", "--bootstrap-server", broker.bootstrap, "--topic", "by-tools", "--reader-property", "parse.key=true",
         input="\n".join(lines) + "\n")
    # Whatever is read before or after its cleaning, the last of each key is there.
    said = tool("ConsoleConsumer", "--bootstrap-server", broker.bootstrap, "--topic", "by-tools", "--from-beginning", "--timeout-ms", 4000,
                "--formatter-property", "print.key=true", may_fail=True)
    last = dict(line.split("\t") for line in said.splitlines() if line.startswith("k"))
    equal(last, dict(line.split("\t") for line in lines), "the table that the console consumer saw")


def refusals(broker):
    for configs, what in [({"cleanup.policy": "compact", "remote.storage.enable": "true"}, "compacted and tiered"),
                          ({"cleanup.policy": "compact", "min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"}, "lags that cross")]:
        code, message = wire.create_topic(broker.bootstrap, "refused", 1, configs)
        equal(code, 40, f"error code for {what} ({message})")


def traffic(broker, table):
    """Producers and readers go on while the log is cleaned."""
    ended, wrong = threading.Event(), []

    def read():
        while not ended.is_set():
            try:
                before = dict(table.rows)
                seen = {}
                for _, key, value in table.read():
                    seen[key] = value
                lost = [key for key in before if key not in seen]
                if lost:
                    wrong.append(f"keys without any value: {lost[:3]}")
            except Exception as error:  # reported by the check below
                wrong.append(repr(error))
                return

    readers = [threading.Thread(target=read) for _ in range(2)]
    for each in readers:
        each.start()
    for codec in ("none", "gzip", "snappy", "lz4", "zstd") * 3:
        table.update(keys(), codec)
    ended.set()
    for each in readers:
        each.join()
    require(not wrong, str(wrong[:3]))


def end_offset(broker, topic):
    return wire.list_offset(broker.bootstrap, topic, 0, wire.LATEST)


def is_cleaning(broker, topic):
    """A cleaned segment is being written, or put in its place."""
    return any(path.suffix in (".cleaned", ".swap") for path in (broker.log_dir() / f"{topic}-0").iterdir())


def kills(broker, table):
    """kill -9 while it appends and cleans: in turn when so many records more are there, and when a cleaning is under way."""
    for number in range(6):
        killed = threading.Event()

        def write():
            while not killed.is_set():
                table.update(keys(), patient=True)

        before = end_offset(broker, table.topic)
        writer = threading.Thread(target=write)
        writer.start()
        if number % 2:
            wait_until(lambda: is_cleaning(broker, table.topic), "a cleaning", 60, interval=0.001)
        else:
            more = 1 + number * KEYS // 4
            wait_until(lambda: end_offset(broker, table.topic) >= before + more, f"{more} records more", 60, interval=0.001)
        broker.kill()
        killed.set()
        broker.start()
        writer.join()
        # What was sent and not acknowledged may have arrived: one more round settles every key.
        table.update(keys())
        table.check()


def committed_offsets(broker):
    """One group commits until its records fill segments; they are cleaned, and what was committed last is what is found."""
    load.create(broker, "read-by-groups", remote_storage_enable="false")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "committer", "enable.auto.commit": False, "log_level": 0})
    pad = "m" * 3000
    last = 0
    for last in range(1, 1601):
        consumer.commit(offsets=[TopicPartition("read-by-groups", 0, last, pad)], asynchronous=False)
    consumer.close()
    wait_until(lambda: size(broker, "__consumer_offsets") < 2_500_000, "__consumer_offsets to be cleaned", 60, interval=0.3)

    def found():
        reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "committer", "log_level": 0})
        offset = reader.committed([TopicPartition("read-by-groups", 0)], timeout=20)[0].offset
        reader.close()
        return offset

    equal(found(), last, "committed offset")
    broker.kill()
    broker.start()
    equal(found(), last, "committed offset after kill -9")


def by_transactions(broker):
    """Every second transaction is aborted; returns what a committed reader must find."""
    load.create(broker, "by-transactions", **{name.replace(".", "_"): value for name, value in TABLE.items()})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "table", "log_level": 0})
    producer.init_transactions(30)
    expected = {}
    for number in range(40):
        producer.begin_transaction()
        rows = {f"key-{key}": f"{number}:{key}:" + "v" * 2000 for key in range(60)}
        for key, value in rows.items():
            producer.produce("by-transactions", key=key, value=value)
        if number % 2 and number < 39:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
            expected = rows
    return expected


def committed_table(broker):
    """How many records a committed reader gets, and the table that they make."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reader", "isolation.level": "read_committed", "log_level": 0,
                         "enable.partition.eof": True, "enable.auto.commit": False})
    consumer.assign([TopicPartition("by-transactions", 0, 0)])
    count, rows = 0, {}
    while True:
        message = consumer.poll(30)
        require(message is not None, f"nothing after {count} records")
        if message.error():
            equal(message.error().code(), KafkaError._PARTITION_EOF, "error")
            consumer.close()
            return count, rows
        count += 1
        rows[text(message.key())] = text(message.value())


def transactions(broker):
    """Aborted records go and committed ones stay; the state of the transactions is cleaned, too, and who has which epoch is not forgotten."""
    expected = by_transactions(broker)

    def is_cleaned():
        count, found = committed_table(broker)
        equal(found, expected, "the committed table")
        return count < 10 * len(expected)

    wait_until(is_cleaned, "by-transactions to be cleaned", 60, interval=0.3)
    long_id, last = "x" * 3000, -1

    def initialise():
        with wire.Connection(broker.bootstrap) as connection:
            answer = connection.ask(22, 1, wire.string(long_id) + (60000).to_bytes(4, "big"))
            answer.int32()
            return answer.int16(), answer.int64(), answer.int16()

    for _ in range(1600):
        error, pid, epoch = initialise()
        equal((error, epoch), (0, last + 1), "InitProducerId")
        last = epoch
    wait_until(lambda: size(broker, "__transaction_state") < 2_500_000, "__transaction_state to be cleaned", 60, interval=0.3)
    broker.kill()
    broker.start()
    wait_until(lambda: initialise()[0] == 0, "the coordinator", 60)
    equal(initialise()[1:], (pid, last + 2), "producer id and epoch after kill -9")
    equal(committed_table(broker)[1], expected, "the committed table after kill -9")


def transaction_log(broker):
    """Kafka's decoder reads what cleaning left of the transactions' state."""
    lines = dump([each for each in sorted((broker.log_dir() / "__transaction_state-0").glob("*.log")) if each.stat().st_size],
                 "--transaction-log-decoder", gaps=True)
    found = {match[1]: match[2] for match in (re.search(r'"transactionalId":"(\w+)".*"transactionStatus":"(\w+)"', line) for line in lines) if match}
    equal(found, {"table": "CompleteCommit", "x" * 3000: "Empty"}, "the last state of each id")


def main():
    suite = Suite("compaction")
    broker = brokers.make(SETTINGS)
    with suite.story(), broker:
        table = Table(broker, "table")
        with suite.check("create", needed=True):
            load.create(broker, "table", **{name.replace(".", "_"): value for name, value in TABLE.items()})
        with suite.check("contradicting settings are refused with INVALID_CONFIG"):
            refusals(broker)
        with suite.check("Kafka's tools create, fill and read a compacted topic"):
            tools(broker)
        with suite.check("every key has its newest value while producers and readers go on", needed=True):
            traffic(broker, table)
        with suite.check("what was replaced is gone", needed=True):
            before = table.version * KEYS
            cleaned(table, before // 3)
            require(size(broker, "table") < 6_000_000, f"{size(broker, 'table')} bytes are left")
        if broker.kind == "strandline":
            with suite.check("the metrics tell of it"):
                require(broker.metric("strandline_log_cleaner_runs_total") > 0, "no round was counted")
                equal(broker.metric("strandline_log_cleaner_uncleanable_partitions"), 0, "uncleanable partitions")
        with suite.check("a deleted key's tombstone is seen, and then gone", needed=True):
            gone = keys()[::2]
            table.update(gone, value=lambda key, version: None)
            require(any(value is None for _, _, value in table.check()), "the tombstones were not there")

            def no_tombstone():
                table.update([f"other-{number}" for number in range(1100)])  # fills a segment, so that the one before is cleaned
                return all(value is not None for _, _, value in table.check())

            wait_until(no_tombstone, "the tombstones to go", 60, interval=0.5)
        with suite.check("kill -9 while it appends and cleans loses nothing", needed=True):
            kills(broker, table)
        with suite.check("__consumer_offsets is compacted and forgets nothing"):
            committed_offsets(broker)
        with suite.check("transactions in a compacted topic; __transaction_state is compacted and forgets nothing"):
            transactions(broker)
        with suite.check("DumpLogSegments reads every file, the decoders of offsets and of transactions included"):
            broker.terminate()  # a file that is cleaned away while the tool looks for it would be its end
            found = dump_log_dir(broker.log_dir(), gaps=True, kafkas=broker.kind != "strandline")
            require(0 < found["table-0"] < table.version * KEYS, f"{found['table-0']} records dumped")
            transaction_log(broker)
        with suite.check("everything is there after a clean stop"):
            broker.start()
            table.check()
        brokers.check_log(suite, broker)
    suite.finish()


if __name__ == "__main__":
    main()
