"""kill -9 during produce, again and again: no acknowledged record is lost, none is there twice, offsets stay dense.

    kill_loop.py [--kills 100] [--seed N]

One idempotent producer lives through all the kills, so what it sends again after each restart has to be recognised by the producer state
that the broker recovered. Segments are small and tiered at once: every other kill is aimed at the moment after a segment rolled, when
uploads and local deletions run.
"""

import argparse
import random
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

import brokers  # noqa: E402
import load  # noqa: E402
import wire  # noqa: E402
from checks import Suite, equal, require, wait_until  # noqa: E402

TOPIC, PARTITIONS = "kills", 3
BURST, PAUSE = 100, 0.025  # at most 4 MB/s
PADDING = "".join(random.Random(7).choices("abcdefghijklmnopqrstuvwxyz", k=4000))


def value(n):
    start = n * 31 % 3000
    return f"{n:010d}{PADDING[start:start + 500 + n % 500]}"


class Writer(threading.Thread):
    """Produces numbered records until told to stop; remembers where each was acknowledged."""

    def __init__(self, broker):
        super().__init__(daemon=True)
        self.producer = load.producer(broker.bootstrap, compression_type="lz4", delivery_timeout_ms=300_000,
                                      queue_buffering_max_messages=30_000, retry_backoff_ms=20, retry_backoff_max_ms=100,
                                      request_timeout_ms=5000, error_cb=self.error)
        self.stopping = threading.Event()
        self.acknowledged, self.failures, self.sent = {}, [], 0

    def error(self, error):
        if error.fatal():
            self.failures.append(f"fatal: {error}")

    def note(self, number):
        def callback(error, message):
            if error:
                self.failures.append(f"record {number}: {error}")
            else:
                self.acknowledged[number] = (message.partition(), message.offset())
        return callback

    def run(self):
        while not self.stopping.is_set():
            for _ in range(BURST):
                number = self.sent
                try:
                    self.producer.produce(TOPIC, partition=number % PARTITIONS, value=value(number), on_delivery=self.note(number))
                except BufferError:
                    break
                self.sent += 1
            self.producer.poll(PAUSE)

    def finish(self):
        self.stopping.set()
        self.join(30)
        equal(self.producer.flush(120), 0, "records without an answer")


def rolled(broker):
    return sum(int(path.stem) for paths in broker.log_files(TOPIC).values() for path in paths)


def kill_once(broker, writer, chance, aimed):
    """Lets at least one more record be acknowledged, then kills at a random moment, or just after a segment rolled."""
    before, deadline = len(writer.acknowledged), time.monotonic() + 30
    while len(writer.acknowledged) == before:
        require(time.monotonic() < deadline, f"nothing acknowledged for 30 s; {writer.failures[:2]}\n{broker.log_tail()}")
        time.sleep(0.005)
    if aimed:
        state, deadline = rolled(broker), time.monotonic() + 3
        while rolled(broker) == state and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(chance.uniform(0, 0.06))
    else:
        time.sleep(chance.uniform(0, 0.4))
    broker.kill()


def verify(broker, writer):
    require(not writer.failures, f"{len(writer.failures)} failures: {writer.failures[:3]}")
    equal(len(writer.acknowledged), writer.sent, "acknowledged records")
    found = load.read_all(broker, TOPIC, PARTITIONS, timeout=300, row=lambda m: (m.partition(), m.offset(), m.value()))
    places, following = {}, dict.fromkeys(range(PARTITIONS), 0)
    for partition, offset, data in found:
        equal(offset, following[partition], f"offset in partition {partition}")
        following[partition] += 1
        number = int(data[:10])
        require(number not in places, f"record {number} is at {places.get(number)} and at {(partition, offset)}")
        require(data == value(number).encode(), f"record {number} at {(partition, offset)} has another value")
        places[number] = (partition, offset)
    lost = [number for number in writer.acknowledged if number not in places]
    require(not lost, f"{len(lost)} acknowledged records are lost, the first: {lost[0] if lost else ''} at {writer.acknowledged.get(lost[0]) if lost else ''}")
    moved = [number for number, place in writer.acknowledged.items() if places[number] != place]
    require(not moved, f"{len(moved)} records lie elsewhere than acknowledged: {[(n, writer.acknowledged[n], places[n]) for n in moved[:3]]}")
    for partition in range(PARTITIONS):
        order = [number for number, (where, _) in sorted(places.items(), key=lambda item: item[1]) if where == partition]
        require(order == sorted(order), f"partition {partition} is out of order")


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--kills", type=int, default=100)
    options.add_argument("--seed", type=int, default=int(time.time()))
    chosen = options.parse_args()
    suite = Suite("kill-loop")
    chance = random.Random(chosen.seed)
    print(f"     {chosen.kills} kills, --seed {chosen.seed}", flush=True)
    broker = brokers.make()
    with suite.story(), broker:
        load.create(broker, TOPIC, PARTITIONS, segment_bytes=1048576, retention_ms=-1, local_retention_ms=1000,
                    remote_storage_enable=str(broker.kind != "kafka").lower())
        writer = Writer(broker)
        writer.start()
        longest = 0
        with suite.check(f"{chosen.kills} kills during produce", needed=True):
            for round_ in range(chosen.kills):
                kill_once(broker, writer, chance, aimed=round_ % 2 == 1)
                started = time.monotonic()
                broker.start()
                longest = max(longest, time.monotonic() - started)
                for partition in range(PARTITIONS):
                    start = wait_until(lambda: [wire.list_offset(broker.bootstrap, TOPIC, partition, wire.EARLIEST)], "the partition", 20)
                    equal(start, [0], f"log start in round {round_}")
        with suite.check("everything sent is acknowledged in the end", needed=True):
            writer.finish()
            print(f"     {writer.sent} records, longest restart {longest:.1f} s", flush=True)
        with suite.check("no acknowledged record lost, none twice, offsets dense, in order"):
            verify(broker, writer)
        if broker.kind != "kafka":
            with suite.check("the same when all is tiered and locally gone"):
                broker.wait_cold(TOPIC, PARTITIONS, timeout=120)
                verify(broker, writer)
        # a kill can fall between the removal of a log and that of its index
        brokers.check_log(suite, broker, allow=["an index without its log is removed"])
    suite.finish()


if __name__ == "__main__":
    main()
