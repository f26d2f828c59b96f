"""confluent-kafka (librdkafka) as an adapter."""

import re

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from adapter import main, octets, taken, text


class Client:
    def create(self, topic, partitions, configs):
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=configs)
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for future in admin.create_topics([new]).values():
            future.result(30)
        if topic not in admin.list_topics(timeout=30).topics:
            raise SystemExit(f"{topic} is not among all topics")

    def produce(self, topic, codec, rows):
        failures = []
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "compression.type": codec,
                             "batch.size": 32768, "linger.ms": 20, "delivery.timeout.ms": 60000})
        for row in rows:
            while True:
                try:
                    producer.produce(topic, partition=row["partition"], key=octets(row["key"]), value=octets(row["value"]),
                                     timestamp=row["timestamp"], headers=[(name, value) for name, value in row["headers"]],
                                     on_delivery=lambda error, _: failures.append(error) if error else None)
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
        left = producer.flush(60)
        if failures or left:
            raise SystemExit(f"{len(failures)} failed ({failures[:3]}), {left} left")

    def consume(self, topic, group, count, fetch_bytes, partition_bytes):
        settings = {"bootstrap.servers": self.bootstrap, "group.id": group, "auto.offset.reset": "earliest",
                    "enable.auto.commit": False, "check.crcs": True}
        if fetch_bytes:
            settings |= {"fetch.max.bytes": fetch_bytes, "message.max.bytes": min(fetch_bytes, 1 << 20),
                         "max.partition.fetch.bytes": partition_bytes,
                         "receive.message.max.bytes": max(fetch_bytes * 2, 100 << 20)}
        consumer = Consumer(settings)
        # By a pattern it asks for all topics, by the name for one.
        consumer.subscribe([topic if fetch_bytes else f"^{re.escape(topic)}$"])
        rows = []
        while len(rows) < count:
            message = consumer.poll(30)
            if message is None:
                raise SystemExit(f"nothing more after {len(rows)} of {count} records")
            if message.error():
                raise SystemExit(f"after {len(rows)} records: {message.error()}")
            rows.append({"partition": message.partition(), "offset": message.offset(), "timestamp": message.timestamp()[1],
                         "key": text(message.key()), "value": text(message.value()),
                         "headers": [(name, text(value)) for name, value in message.headers() or []]})
        consumer.commit(offsets=[TopicPartition(topic, p, o) for p, o in taken(rows).items()], asynchronous=False)
        consumer.close()
        return rows

    def offsets(self, topic, partition, timestamps):
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "offsets"})
        found = []
        for each in timestamps:
            if each < 0:
                spec = {-1: OffsetSpec.latest(), -2: OffsetSpec.earliest(), -3: OffsetSpec.max_timestamp()}[each]
                result = admin.list_offsets({TopicPartition(topic, partition): spec})
                found.append(next(iter(result.values())).result(30).offset)
            else:
                offset = consumer.offsets_for_times([TopicPartition(topic, partition, each)], timeout=30)[0].offset
                found.append(offset if offset >= 0 else None)
        return found


if __name__ == "__main__":
    main(Client())
