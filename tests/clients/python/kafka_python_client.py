"""kafka-python as an adapter."""

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.structs import OffsetAndMetadata

from adapter import main, octets, taken, text


class Client:
    def create(self, topic, partitions, configs):
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        admin.create_topics([NewTopic(name=topic, num_partitions=partitions, replication_factor=1, topic_configs=configs)])
        if topic not in admin.list_topics():
            raise SystemExit(f"{topic} is not among all topics")
        admin.close()

    def produce(self, topic, codec, rows):
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, compression_type=None if codec == "none" else codec,
                                 acks="all", linger_ms=20)
        sent = [producer.send(topic, partition=row["partition"], key=octets(row["key"]), value=octets(row["value"]),
                              timestamp_ms=row["timestamp"], headers=[(name, octets(value)) for name, value in row["headers"]])
                for row in rows]
        producer.flush(60)
        for future in sent:
            future.get(60)
        producer.close()

    def consume(self, topic, group, count, fetch_bytes, partition_bytes):
        sizes = {"fetch_max_bytes": fetch_bytes, "max_partition_fetch_bytes": partition_bytes} if fetch_bytes else {}
        consumer = KafkaConsumer(topic, bootstrap_servers=self.bootstrap, group_id=group, auto_offset_reset="earliest",
                                 enable_auto_commit=False, consumer_timeout_ms=30000, **sizes)
        rows = []
        for message in consumer:
            rows.append({"partition": message.partition, "offset": message.offset, "timestamp": message.timestamp,
                         "key": text(message.key), "value": text(message.value),
                         "headers": [(name, text(value)) for name, value in message.headers]})
            if len(rows) == count:
                break
        if len(rows) < count:
            raise SystemExit(f"nothing more after {len(rows)} of {count} records")
        consumer.commit({TopicPartition(topic, p): OffsetAndMetadata(o, "", -1) for p, o in taken(rows).items()})
        consumer.close()
        return rows

    def offsets(self, topic, partition, timestamps):
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap)
        where = TopicPartition(topic, partition)
        found = []
        for each in timestamps:
            if each == -1:
                found.append(consumer.end_offsets([where])[where])
            elif each == -2:
                found.append(consumer.beginning_offsets([where])[where])
            elif each >= 0:
                hit = consumer.offsets_for_times({where: each})[where]
                found.append(hit.offset if hit else None)
            else:
                raise SystemExit(f"timestamp {each} is not in this client's interface")
        consumer.close()
        return found


if __name__ == "__main__":
    main(Client())
