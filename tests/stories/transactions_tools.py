"""Kafka's own tools for transactions: kafka-transactions lists, describes, finds what hangs and aborts it; DumpLogSegments decodes the state."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

import brokers  # noqa: E402
import load  # noqa: E402
import wire  # noqa: E402
from checks import Suite, equal, require, wait_until  # noqa: E402
from confluent_kafka import Consumer, Producer, TopicPartition  # noqa: E402
from kafka_tools import dump, dump_log_dir, tool  # noqa: E402

TIMEOUT = 30
SETTINGS = {
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
    # so that a transaction can be made to hang at all
    "transaction.partition.verification.enable": "false",
}
OLD = 1_700_000_000_000


def producer(broker, transactional_id):
    made = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": transactional_id, "linger.ms": 0, "log_level": 0})
    made.init_transactions(TIMEOUT)
    return made


def send(made, topic, *values):
    made.begin_transaction()
    for value in values:
        made.produce(topic, value=value, partition=0)
    require(made.flush(TIMEOUT) == 0, "records were not sent")


def hang(broker, topic):
    """A transactional record that no transaction knows, as a client without AddPartitionsToTxn sends it; returns its producer id."""
    with wire.Connection(broker.bootstrap) as connection:
        init = connection.ask(22, 1, wire.string("ghost") + (60000).to_bytes(4, "big"))
        init.int32()
        equal(init.int16(), 0, "InitProducerId")
        pid, epoch = init.int64(), init.int16()
        records = wire.batch(wire.record(0, b"k", b"v"), attributes=0x10, base_timestamp=OLD, producer=(pid, epoch, 0))
        body = (wire.compact("ghost") + (-1).to_bytes(2, "big", signed=True) + (10000).to_bytes(4, "big") + wire.uvarint(2) + wire.compact(topic)
                + wire.uvarint(2) + (0).to_bytes(4, "big") + wire.compact_bytes(records) + b"\0\0\0")
        answer = connection.ask(0, 9, body)
        answer.uvarint(), answer.compact(), answer.uvarint(), answer.int32()
        equal(answer.int16(), 0, "Produce")
        return pid


def rows(said):
    """The table that the tool prints, as dictionaries."""
    lines = [line.split() for line in said.splitlines() if line.strip() and "WARN" not in line]
    return [dict(zip(lines[0], line)) for line in lines[1:]] if lines else []


def run(suite, broker):
    check = suite.check

    def transactions(*arguments, **options):
        return tool("TransactionsCommand", "--bootstrap-server", broker.bootstrap, *arguments, **options)

    with check("transactions in several states", needed=True):
        for topic in ("first", "second"):
            load.create(broker, topic, retention_ms=-1, remote_storage_enable="false")
        done = producer(broker, "committed")
        send(done, "first", b"a", b"b")
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "tools", "log_level": 0})
        done.send_offsets_to_transaction([TopicPartition("first", 0, 1)], consumer.consumer_group_metadata(), TIMEOUT)
        done.commit_transaction(TIMEOUT)
        undone = producer(broker, "aborted")
        send(undone, "first", b"c")
        undone.abort_transaction(TIMEOUT)
        ongoing = producer(broker, "ongoing")
        send(ongoing, "first", b"d")
    with check("kafka-transactions list"):
        states = {"committed": "CompleteCommit", "aborted": "CompleteAbort", "ongoing": "Ongoing"}
        wait_until(lambda: {row["TransactionalId"]: row["TransactionState"] for row in rows(transactions("list"))} == states, "the states", 20)
        equal(rows(transactions("list", "--duration-filter", 3_600_000)), [], "transactions older than an hour")
    with check("kafka-transactions describe"):
        row = rows(transactions("describe", "--transactional-id", "ongoing"))[0]
        equal((row["TransactionState"], row["TransactionTimeoutMs"], row["TopicPartitions"]), ("Ongoing", "60000", "first-0"), "the ongoing one")
        said = transactions("describe", "--transactional-id", "never", may_fail=True)
        require("TransactionalIdNotFound" in said or "could not be found" in said, said)
    with check("kafka-transactions describe-producers"):
        found = {row["ProducerId"]: row for row in rows(transactions("describe-producers", "--topic", "first", "--partition", 0))}
        equal(len(found), 3, "producers")
        equal(sorted(row["CurrentTransactionStartOffset"] for row in found.values()), ["5", "None", "None"], "starts of open transactions")
    with check("kafka-transactions find-hanging finds nothing in a healthy topic"):
        equal(rows(transactions("find-hanging", "--topic", "first")), [], "hanging transactions")
    with check("a transaction that hangs is found, counted, and aborted"):
        pid = hang(broker, "second")
        equal(wire.list_offset(broker.bootstrap, "second", 0, wire.LATEST, isolation=1), 0, "the last stable offset")
        if broker.kind == "strandline":
            equal(broker.metric("strandline_partitions_with_late_transactions"), 1.0, "partitions with late transactions")
        row = rows(transactions("find-hanging", "--topic", "second", "--partition", 0))[0]
        equal((row["Topic"], row["Partition"], row["ProducerId"], row["StartOffset"]), ("second", "0", str(pid), "0"), "what hangs")
        transactions("abort", "--topic", "second", "--partition", 0, "--start-offset", 0)
        equal(wire.list_offset(broker.bootstrap, "second", 0, wire.LATEST, isolation=1), 2, "the last stable offset")
        equal(rows(transactions("find-hanging", "--topic", "second", "--partition", 0)), [], "what hangs after the abort")
        if broker.kind == "strandline":
            equal(broker.metric("strandline_partitions_with_late_transactions"), 0.0, "partitions with late transactions")
    with check("DumpLogSegments reads the state of the transactions, and everything else"):
        broker.terminate()
        dump_log_dir(broker.log_dir())
        logs = [each for folder in sorted(broker.log_dir().glob("__transaction_state-*")) for each in sorted(folder.glob("*.log"))
                if each.stat().st_size]
        lines = dump(logs, "--transaction-log-decoder")
        last = {}
        for line in lines:
            found = re.search(r'"transactionalId":"(\w+)".*"transactionStatus":"(\w+)"', line)
            if found:
                last[found[1]] = found[2]
        require(last, "no line of a transaction in:\n" + "\n".join(lines[:10]))
        equal(last, {**states, "ghost": "Empty"}, "the last state of each id")
    with check("the ongoing transaction goes on after the stop"):
        broker.start()
        ongoing.commit_transaction(TIMEOUT)
        wait_until(lambda: wire.list_offset(broker.bootstrap, "first", 0, wire.LATEST, isolation=1) == 7, "the last stable offset", 20)


def main():
    suite = Suite("transactions-tools")
    broker = brokers.make(SETTINGS)
    with suite.story(), broker:
        run(suite, broker)
        brokers.check_log(suite, broker)
    suite.finish()


if __name__ == "__main__":
    main()
