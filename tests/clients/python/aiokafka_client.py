"""aiokafka as an adapter."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from adapter import main, octets, taken, text


class Client:
    def create(self, *arguments):
        asyncio.run(self._create(*arguments))

    def produce(self, *arguments):
        asyncio.run(self._produce(*arguments))

    def consume(self, *arguments):
        return asyncio.run(self._consume(*arguments))

    def offsets(self, *arguments):
        return asyncio.run(self._offsets(*arguments))

    async def _create(self, topic, partitions, configs):
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        answer = await admin.create_topics([NewTopic(name=topic, num_partitions=partitions, replication_factor=1, topic_configs=configs)])
        await admin.close()
        for name, code, message, *_ in answer.topic_errors:
            if code:
                raise SystemExit(f"create {name}: error {code} {message}")

    async def _produce(self, topic, codec, rows):
        producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap, compression_type=None if codec == "none" else codec,
                                    enable_idempotence=True, linger_ms=20)
        await producer.start()
        sent = [await producer.send(topic, partition=row["partition"], key=octets(row["key"]), value=octets(row["value"]),
                                    timestamp_ms=row["timestamp"], headers=[(name, octets(value)) for name, value in row["headers"]])
                for row in rows]
        await asyncio.wait_for(asyncio.gather(*sent), 60)
        await producer.stop()

    async def _consume(self, topic, group, count, fetch_bytes, partition_bytes):
        sizes = {"fetch_max_bytes": fetch_bytes, "max_partition_fetch_bytes": partition_bytes} if fetch_bytes else {}
        consumer = AIOKafkaConsumer(topic, bootstrap_servers=self.bootstrap, group_id=group, auto_offset_reset="earliest",
                                    enable_auto_commit=False, check_crcs=True, **sizes)
        await consumer.start()
        rows = []
        while len(rows) < count:
            try:
                message = await asyncio.wait_for(consumer.getone(), 30)
            except TimeoutError:
                raise SystemExit(f"nothing more after {len(rows)} of {count} records") from None
            rows.append({"partition": message.partition, "offset": message.offset, "timestamp": message.timestamp,
                         "key": text(message.key), "value": text(message.value),
                         "headers": [(name, text(value)) for name, value in message.headers]})
        await consumer.commit({TopicPartition(topic, p): o for p, o in taken(rows).items()})
        await consumer.stop()
        return rows

    async def _offsets(self, topic, partition, timestamps):
        consumer = AIOKafkaConsumer(topic, bootstrap_servers=self.bootstrap)
        await consumer.start()
        where = TopicPartition(topic, partition)
        found = []
        for each in timestamps:
            if each == -1:
                found.append((await consumer.end_offsets([where]))[where])
            elif each == -2:
                found.append((await consumer.beginning_offsets([where]))[where])
            elif each >= 0:
                hit = (await consumer.offsets_for_times({where: each}))[where]
                found.append(hit.offset if hit else None)
            else:
                raise SystemExit(f"timestamp {each} is not in this client's interface")
        await consumer.stop()
        return found


if __name__ == "__main__":
    main(Client())
