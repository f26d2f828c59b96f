"""Producing and reading back in the harness itself, with confluent-kafka, for the stories that are about the broker and not about a client."""

import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

import wire
from checks import Failed, wait_until


def producer(bootstrap, **settings):
    """An idempotent producer with acks=all; dots of settings are written as underscores."""
    return Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "delivery.timeout.ms": 60000,
                     "socket.connection.setup.timeout.ms": 2000, "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 200,
                     "topic.metadata.refresh.interval.ms": 5000, "log_level": 0,
                     **{name if name.endswith("_cb") else name.replace("_", "."): value for name, value in settings.items()}})


def create(broker, topic, partitions=1, **configs):
    """Creates a topic and waits until its partitions answer."""
    code, message = wire.create_topic(broker.bootstrap, topic, partitions, {name.replace("_", "."): str(value) for name, value in configs.items()})
    if code:
        raise Failed(f"create {topic}: error {code} {message}")
    for partition in range(partitions):
        wait_until(lambda: wire.list_offset(broker.bootstrap, topic, partition, wire.LATEST) >= 0, f"{topic}-{partition}", 20)


def send(broker, topic, rows, **settings):
    """Produces rows (see ledger.py) and waits for every acknowledgement."""
    failures = []
    out = producer(broker.bootstrap, **settings)
    for row in rows:
        while True:
            try:
                out.produce(topic, partition=row["partition"], key=row["key"], value=row["value"], timestamp=row["timestamp"],
                            headers=[tuple(pair) for pair in row["headers"]],
                            on_delivery=lambda error, _: failures.append(error) if error else None)
                break
            except BufferError:
                out.poll(0.1)
    left = out.flush(90)
    if failures or left:
        raise Failed(f"produce to {topic}: {len(failures)} failed ({failures[:2]}), {left} without an answer")


def _text(data):
    return None if data is None else data.decode()


def row_of(message):
    return {"partition": message.partition(), "offset": message.offset(), "timestamp": message.timestamp()[1], "key": _text(message.key()),
            "value": _text(message.value()), "headers": [(name, _text(value)) for name, value in message.headers() or []]}


def read_all(broker, topic, partitions=1, timeout=120, row=row_of, **settings):
    """Every record from the beginning to the present end, without a group."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reader", "enable.auto.commit": False, "check.crcs": True,
                         "auto.offset.reset": "error", "log_level": 0, **{name.replace("_", "."): value for name, value in settings.items()}})
    starts = {p: wire.list_offset(broker.bootstrap, topic, p, wire.EARLIEST) for p in range(partitions)}
    ends = {p: wire.list_offset(broker.bootstrap, topic, p, wire.LATEST) for p in range(partitions)}
    consumer.assign([TopicPartition(topic, p, starts[p]) for p in range(partitions)])
    waiting = {p for p in range(partitions) if ends[p] > starts[p]}
    found, deadline = [], time.monotonic() + timeout
    while waiting:
        for message in consumer.consume(5000, timeout=1.0):
            if message.error():
                raise KafkaException(message.error())
            found.append(row(message))
            if message.offset() >= ends[message.partition()] - 1:
                waiting.discard(message.partition())
        if time.monotonic() > deadline:
            raise Failed(f"{topic}: {len(found)} records after {timeout} s; partitions {sorted(waiting)} have not reached {ends}")
    consumer.close()
    return found
