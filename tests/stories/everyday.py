"""What a user meets in the first afternoon: retention that happens, empty partitions, quiet logs, few requests, no open doors."""

import os
import struct
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

import brokers  # noqa: E402
import ledger  # noqa: E402
import load  # noqa: E402
import logfile  # noqa: E402
import wire  # noqa: E402
from checks import Suite, equal, require, wait_until  # noqa: E402
from confluent_kafka import Consumer, KafkaError, TopicPartition  # noqa: E402

MIB = 1 << 20


def now_rows(count, age_ms=0):
    """Rows with timestamps of today, `age_ms` ago."""
    base = int(time.time() * 1000) - age_ms
    return [{**row, "timestamp": base + n} for n, row in enumerate(ledger.rows(0, count))]


class Story:
    def __init__(self, suite, broker):
        self.suite, self.broker = suite, broker
        self.strandline = broker.kind == "strandline"

    def start_of(self, topic):
        return wire.list_offset(self.broker.bootstrap, topic, 0, wire.EARLIEST)

    def segments(self, topic):
        return self.broker.log_files(topic)[f"{topic}-0"]

    def run(self):
        names = ["retention_by_time", "retention_by_size", "roll_by_time"]
        if self.broker.kind != "kafka":
            names += ["tiered_retention_by_size", "tiered_retention_by_time", "tiered_delete_records"]
        names += ["empty_partitions", "fetch_progress"]
        if self.strandline:
            names += ["requests", "quiet_log", "idle", "doors"]
        for name in names:
            body = getattr(self, name)
            with self.suite.story(), self.suite.check(body.__doc__):
                body()

    def retention_by_time(self):
        """retention.ms deletes old segments of a topic that is not tiered, and the log start moves"""
        load.create(self.broker, "by-time", segment_bytes=MIB, retention_ms=3_600_000, remote_storage_enable="false")
        load.send(self.broker, "by-time", now_rows(4000, age_ms=7_200_000))
        load.send(self.broker, "by-time", now_rows(100))
        end = wire.list_offset(self.broker.bootstrap, "by-time", 0, wire.LATEST)
        equal(end, 4100, "end")
        wait_until(lambda: self.start_of("by-time") > 2000, "the log start to move", 30)
        found = load.read_all(self.broker, "by-time")
        equal([row["offset"] for row in found], list(range(self.start_of("by-time"), end)), "offsets left")
        wait_until(lambda: int(self.segments("by-time")[0].stem) == self.start_of("by-time"), "the files to be gone", 30)

    def retention_by_size(self):
        """retention.bytes keeps the newest bytes of a topic that is not tiered"""
        load.create(self.broker, "by-size", segment_bytes=MIB, retention_bytes=2 * MIB, retention_ms=-1, remote_storage_enable="false")
        load.send(self.broker, "by-size", ledger.rows(0, 8000))
        wait_until(lambda: sum(path.stat().st_size for path in self.segments("by-size")) <= 3 * MIB, "3 MiB or less on disk", 30)
        start = self.start_of("by-size")
        require(start > 0, "the log start did not move")
        ledger.compare(load.read_all(self.broker, "by-size"), ledger.rows(0, 8000)[start:], first_offset=start)

    def roll_by_time(self):
        """segment.ms rolls a segment whose records span more time"""
        load.create(self.broker, "rolled", segment_ms=60_000, retention_ms=-1, remote_storage_enable="false")
        for n in range(3):
            load.send(self.broker, "rolled", [{**row, "timestamp": ledger.FIRST_TIMESTAMP + n * 120_000} for row in ledger.rows(0, 10)])
        equal([int(path.stem) for path in self.segments("rolled")], [0, 10, 20], "base offsets of the segments")

    def cold(self, topic, count=8000, **configs):
        load.create(self.broker, topic, segment_bytes=MIB, local_retention_ms=1000, remote_storage_enable="true", **{"retention_ms": -1, **configs})
        load.send(self.broker, topic, ledger.rows(0, count), batch_size=32768)
        self.broker.wait_cold(topic)

    def alter(self, topic, name, value):
        body = wire.uvarint(2) + b"\x02" + wire.compact(topic) + wire.uvarint(2) + wire.compact(name) + b"\0" + wire.compact(value) + b"\0\0\0\0"
        with wire.Connection(self.broker.bootstrap) as connection:
            reader = connection.ask(44, 1, body)
            reader.int32(), reader.uvarint()
            equal((reader.int16(), reader.compact()), (0, None), f"alter {name}")

    def tiered_retention_by_size(self):
        """retention.bytes of a tiered topic counts both tiers and moves the log start through the cold one"""
        self.cold("cold-by-size")
        equal(self.start_of("cold-by-size"), 0, "log start before")
        self.alter("cold-by-size", "local.retention.bytes", "100000")
        self.alter("cold-by-size", "retention.bytes", str(4 * MIB))
        start = wait_until(lambda: self.start_of("cold-by-size"), "the log start to move", 40)
        wait_until(lambda: self.start_of("cold-by-size") > 2000, "the log start to reach its place", 40)
        start = self.start_of("cold-by-size")
        require(start < 6500, f"too much is gone: the log starts at {start}")
        ledger.compare(load.read_all(self.broker, "cold-by-size"), ledger.rows(0, 8000)[start:], first_offset=start)
        if self.strandline:
            self.broker.kill()
            self.broker.start()
            start = self.start_of("cold-by-size")
            ledger.compare(load.read_all(self.broker, "cold-by-size"), ledger.rows(0, 8000)[start:], first_offset=start)

    def tiered_retention_by_time(self):
        """retention.ms of a tiered topic empties the cold tier, and writing goes on"""
        self.cold("cold-by-time")
        self.alter("cold-by-time", "local.retention.ms", "1000")
        self.alter("cold-by-time", "retention.ms", "60000")
        wait_until(lambda: self.start_of("cold-by-time") > 6000, "the old records to go", 40)
        load.send(self.broker, "cold-by-time", now_rows(10))
        found = load.read_all(self.broker, "cold-by-time")
        equal(found[-1]["offset"], 8009, "last offset")

    def tiered_delete_records(self):
        """DeleteRecords into the cold tier, kept over kill -9"""
        self.cold("cut")
        body = wire.uvarint(2) + wire.compact("cut") + wire.uvarint(2) + struct.pack(">iq", 0, 3333) + b"\0\0" + struct.pack(">i", 10000) + b"\0"
        with wire.Connection(self.broker.bootstrap) as connection:
            reader = connection.ask(21, 2, body)
            reader.int32(), reader.uvarint(), reader.compact(), reader.uvarint(), reader.int32()
            equal((reader.int64(), reader.int16()), (3333, 0), "(low watermark, error)")
        equal(self.start_of("cut"), 3333, "log start")
        ledger.compare(load.read_all(self.broker, "cut"), ledger.rows(0, 8000)[3333:], first_offset=3333)
        if self.strandline:
            self.broker.kill()
            self.broker.start()
            start = self.start_of("cut")
            # whatever it is, everything from there on is readable
            ledger.compare(load.read_all(self.broker, "cut"), ledger.rows(0, 8000)[start:], first_offset=start)
            equal(start, 3333, "log start after kill -9")

    def empty_partitions(self):
        """empty partitions beside a full one: librdkafka reads it all and sees the end of each"""
        load.create(self.broker, "mostly-empty", partitions=12, retention_ms=-1)
        load.send(self.broker, "mostly-empty", [{**row, "partition": 7} for row in ledger.rows(0, 500)])
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": "ends", "enable.partition.eof": True,
                             "enable.auto.commit": False, "auto.offset.reset": "earliest", "log_level": 0})
        consumer.assign([TopicPartition("mostly-empty", p, 0) for p in range(12)])
        ends, count, deadline = set(), 0, time.monotonic() + 20
        while (len(ends) < 12 or count < 500) and time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is None:
                continue
            if message.error():
                equal(message.error().code(), KafkaError._PARTITION_EOF, f"error ({message.error()})")
                ends.add(message.partition())
            else:
                count += 1
        consumer.close()
        equal((len(ends), count), (12, 500), "(partitions with an end, records)")

    def fetch_progress(self):
        """every single fetch, at every size and from every border, makes progress with whole batches"""
        topics = ["progress"] if self.broker.kind == "kafka" else ["progress", "cold-progress"]
        load.create(self.broker, "progress", segment_bytes=MIB, retention_ms=-1, remote_storage_enable="false")
        load.send(self.broker, "progress", ledger.rows(0, 8000), batch_size=32768)
        if len(topics) > 1:
            self.cold("cold-progress")
        borders = [int(path.stem) for path in self.segments("progress")]
        last = {base: end for path in self.segments("progress") for base, end, *_ in logfile.batches(path)}
        for topic in topics:
            for size in (1, 1000, 40_000, MIB - 1, MIB, MIB + 1, 3 * MIB, 64 * MIB):
                with wire.Connection(self.broker.bootstrap) as connection:
                    for offset in {0, 1, 4444, 7999, *borders, *(each - 1 for each in borders if each), *(each + 1 for each in borders)}:
                        for _ in range(10):  # a cold read that takes longer than the broker waits is answered empty
                            error, high, data = wire.fetch(connection, topic, offset, max_bytes=size, max_wait=1000)
                            if data or error:
                                break
                        where = f"{topic}: fetch of {size} bytes at {offset}"
                        equal((error, high), (0, 8000), f"{where}: (error, high watermark)")
                        base, length = struct.unpack_from(">qi", data) if len(data) >= 12 else (-1, 0)
                        require(0 <= base <= offset and len(data) >= length + 12, f"{where}: {len(data)} bytes that begin at {base}")
                        self.follow(data, offset, where)
        require(len(last) > 100, "too few batches for a test")

    @staticmethod
    def follow(data, offset, where):
        """Batches lie back to back; the first holds the offset, and a partial one may only be the last."""
        at, following = 0, None
        while at + 61 <= len(data):
            base, length = struct.unpack_from(">qi", data, at)
            delta = struct.unpack_from(">i", data, at + 23)[0]
            if at + 12 + length > len(data):
                break
            if following is None:
                require(base <= offset <= base + delta, f"{where}: the first batch is {base}..{base + delta}")
            else:
                equal(base, following, f"{where}: base offset of the next batch")
            following, at = base + delta + 1, at + 12 + length
        require(following is not None, f"{where}: no whole batch")

    def requests(self):
        """few requests per segment; small batches are not read again and again"""
        load.create(self.broker, "small-batches", segment_bytes=MIB, retention_ms=-1, local_retention_ms=1000, remote_storage_enable="true")
        puts = self.broker.metric("strandline_store_requests_total", op="put") or 0
        load.send(self.broker, "small-batches", ledger.rows(0, 8000), batch_size=1, batch_num_messages=1)
        self.broker.wait_cold("small-batches")
        tiered = self.broker.metric("strandline_tiered_bytes", topic="small-batches")
        count = tiered / MIB
        puts = self.broker.metric("strandline_store_requests_total", op="put") - puts
        self.broker.restart()
        got = load.read_all(self.broker, "small-batches", fetch_max_bytes=4096, message_max_bytes=4096, max_partition_fetch_bytes=4096,
                            receive_message_max_bytes=100 * MIB)
        ledger.compare(got, ledger.rows(0, 8000))
        gets = self.broker.metric("strandline_store_requests_total", op="get")
        read = self.broker.metric("strandline_store_bytes_total", op="get")
        print(f"     {count:.0f} segments: {puts:.0f} PUT; replay at 4 KiB: {gets:.0f} GET, {read / tiered:.2f} times the tiered bytes", flush=True)
        require(puts <= 3 * count + 3, f"{puts:.0f} PUTs for {count:.0f} segments")
        require(read <= 1.5 * tiered, f"GETs of {read:.0f} bytes for {tiered:.0f} that are tiered")

    def quiet_log(self):
        """requests leave no lines in the log"""
        before = len(self.broker.log_path.read_text().splitlines())
        load.create(self.broker, "chatty", retention_ms=-1)
        with wire.Connection(self.broker.bootstrap) as connection:
            for n in range(500):
                wire.produce(connection, "chatty", 0, wire.batch(wire.record(0, None, b"x")))
                wire.fetch(connection, "chatty", n)
                connection.ask(18, 0, b"")
        lines = self.broker.log_path.read_text().splitlines()[before:]
        require(len(lines) < 10, f"{len(lines)} lines, among them {lines[:3]}")

    def idle(self):
        """an idle broker costs next to no processor time, and little memory"""
        def ticks():
            fields = Path(f"/proc/{self.broker.process.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        self.broker.restart()
        wait_until(lambda: self.broker.get("/readyz")[0] == 200, "ready", 10)
        time.sleep(1)
        before = ticks()
        time.sleep(3)
        used = (ticks() - before) / 3
        print(f"     idle: {used:.3f} of a core, {self.broker.memory()[0] / MIB:.0f} MiB resident", flush=True)
        require(used < 0.1, f"{used:.2f} of a core when idle")

    def doors(self):
        """the process listens on what it was told, and on nothing else"""
        inodes = {os.readlink(fd)[8:-1] for fd in Path(f"/proc/{self.broker.process.pid}/fd").iterdir() if os.readlink(fd).startswith("socket:")}
        listening = set()
        for table in ("tcp", "tcp6"):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and fields[9] in inodes:
                    address, port = fields[1].split(":")
                    listening.add((address, int(port, 16)))
        equal(listening, {("0100007F", self.broker.port), ("0100007F", self.broker.second_port)}, "listening sockets")


def main():
    suite = Suite("everyday")
    broker = brokers.make()
    with suite.story(), broker:
        Story(suite, broker).run()
        brokers.check_log(suite, broker)
    suite.finish()


if __name__ == "__main__":
    main()
