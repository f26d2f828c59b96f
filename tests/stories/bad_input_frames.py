"""Hostile frames: whatever bytes arrive, the broker answers or closes, keeps serving others, and uses memory in proportion."""

import random
import socket
import struct
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

import brokers  # noqa: E402
import ledger  # noqa: E402
import load  # noqa: E402
import wire  # noqa: E402
from checks import Suite, equal, require, wait_until  # noqa: E402
from wire import Closed, Connection, Reader, compact, flexible, string, uvarint  # noqa: E402

MIB = 1 << 20
SEED = 20261129


class Story:
    def __init__(self, suite, broker):
        self.suite, self.broker, self.address = suite, broker, broker.bootstrap
        self.apis = wire.api_versions(self.address)
        self.jvm = broker.kind != "strandline"

    def alive(self):
        """Still the same process, and serving within a second."""
        require(self.broker.running, f"the broker is gone: exit {self.broker.process.returncode}\n{self.broker.log_tail()}")
        started = time.monotonic()
        equal(wire.api_versions(self.address), self.apis, "ApiVersions afterwards")
        require(time.monotonic() - started < 2, "ApiVersions took more than 2 s")

    def within(self, mib, what):
        """A context: the resident memory grows by less than `mib` MiB inside it (Kafka's JVM is not judged)."""
        return Memory(self.broker, mib, what)

    def settles(self, payload, length=None, timeout=10):
        """Sends one frame on a new connection; the broker has to answer it or to close. Returns the answer, or None."""
        with Connection(self.address, timeout) as connection:
            connection.frame(payload, length)
            try:
                return connection.receive()
            except Closed:
                return None
            except TimeoutError:
                raise AssertionError(f"neither answer nor close within {timeout} s for the frame {payload[:60].hex()}… of {len(payload)} bytes") from None

    def closes(self, payload, length=None):
        answer = self.settles(payload, length)
        require(answer is None, f"{payload[:40].hex()} was answered with {None if answer is None else answer[:60].hex()}")

    def run(self):
        for name in ("lengths", "truncated", "headers", "unknown_apis", "unknown_versions", "bytes_too_many", "api_versions_127", "api_versions_name",
                     "absurd_arrays", "garbage", "mutations", "announced_memory", "slow_loris", "byte_by_byte", "never_reads",
                     "named_often", "pipelined", "acks_zero", "acks_zero_error", "topic_names"):
            if self.jvm and name == "announced_memory":
                continue  # Kafka allocates what a frame announces, and runs out of memory
            body = getattr(self, name)
            with self.suite.check(body.__doc__):
                body()
                self.alive()

    def lengths(self):
        """frame lengths: negative, zero, above the limit"""
        for length in (-1, -(1 << 31), 0, 104857601, 0x7FFFFFFF):
            with Connection(self.address) as connection:
                connection.socket.sendall(struct.pack(">i", length))
                require(connection.closed(), f"a frame of length {length} did not close the connection")
        for text in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64)):
            with Connection(self.address) as connection:
                connection.socket.sendall(text)
                require(connection.closed(), f"{text[:12]} did not close the connection")

    def truncated(self):
        """truncated frames: the client goes away in the middle"""
        whole = struct.pack(">hhi", 3, 12, 1) + string("x") + b"\0" + uvarint(0) + b"\1\0\0"
        for cut in range(len(whole) + 4):
            with Connection(self.address) as connection:
                connection.socket.sendall((struct.pack(">i", len(whole)) + whole)[:cut])

    def headers(self):
        """broken request headers"""
        for head in (b"\0", b"\0\x03", b"\0\x03\0\x0c\0\0", struct.pack(">hhih", 3, 1, 1, 32767), struct.pack(">hhih", 3, 1, 1, -2) + b"x",
                     struct.pack(">hhi", 3, 12, 1) + string("x"), struct.pack(">hhi", 3, 12, 1) + string("x") + b"\xff\xff\xff\xff\xff",
                     struct.pack(">hhi", 3, 12, 1) + string("x") + b"\x01\x00\xff\xff\xff\xff\x0f",
                     struct.pack(">hhi", 3, 12, 1) + struct.pack(">h", 2) + b"\xff\xfe" + b"\0\0\1\0\0"):
            self.settles(head)

    def unknown_apis(self):
        """unknown API keys close the connection"""
        for key in [-1, -32768, 200, 999, 1000, 32767, *(key for key in range(94) if key not in self.apis)]:
            self.closes(struct.pack(">hhi", key, 0, 7) + string("x") + bytes(16))

    def unknown_versions(self):
        """unknown versions of known APIs close the connection"""
        for key, (low, high) in self.apis.items():
            for version in {high + 1, 99, 32767, -1} - {0}:
                if key != 18:
                    self.closes(struct.pack(">hhi", key, version, 7) + string("x") + b"\0" + bytes(16))

    def bytes_too_many(self):
        """bytes behind the last field are not read: librdkafka asks for all topics with three of them"""
        for version, body in ((13, "00000000010000"), (12, "00000000000102030405"), (1, "ffffffff01")):
            with Connection(self.address) as connection:
                require(connection.ask(3, version, bytes.fromhex(body)).data, f"an answer to Metadata {version}")

    def api_versions_127(self):
        """ApiVersions of an unknown version: error 35 in a v0 body, and the connection goes on"""
        with Connection(self.address) as connection:
            for version in (127, self.apis[18][1] + 1, 32767):
                connection.send(18, version, b"\0" + compact("future") + compact("9") + b"\0")
                reader = Reader(connection.receive())
                equal(reader.int32(), connection.correlation, "correlation id")
                equal(reader.int16(), 35, f"error for version {version}")
                listed = {reader.int16(): (reader.int16(), reader.int16()) for _ in range(reader.int32())}
                equal(listed.get(18), self.apis[18], "range of ApiVersions in the answer")
                equal(reader.at, len(reader.data), "length of the v0 body")
            reader = connection.ask(18, 3, compact("tests") + compact("1.0") + b"\0")
            equal(reader.int16(), 0, "error of the retry on the same connection")

    def api_versions_name(self):
        """ApiVersions with a client name that is not allowed: error 42, and the connection goes on"""
        with Connection(self.address) as connection:
            for name, version in (("", "1"), ("-x", "1"), ("with space", "1"), ("x", "1/2"), ("ä", "1")):
                equal(connection.ask(18, 3, compact(name) + compact(version) + b"\0").int16(), 42, f"error for {name!r} {version!r}")
            equal(connection.ask(18, 3, compact("good-name.1") + compact("1.0-x") + b"\0").int16(), 0, "error for a good name")

    def absurd_arrays(self):
        """absurd lengths at every place of every API"""
        with self.within(64, "absurd lengths"):
            for key, (low, high) in sorted(self.apis.items()):
                for version in {low, high, (low + high) // 2}:
                    lengths = (b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07") if flexible(key, version) else (
                        struct.pack(">i", 0x7FFFFFFF), struct.pack(">i", 100_000_000), struct.pack(">h", 32767), struct.pack(">i", -2))
                    for length in lengths:
                        for at in (*range(0, 16), 20, 21, 24, 29, 36):
                            self.request_settles(key, version, bytes(at) + length + bytes(8))

    def garbage(self):
        """random garbage frames"""
        chance = random.Random(SEED)
        with self.within(64, "garbage"):
            for _ in range(400):
                self.settles(chance.randbytes(chance.choice((1, 7, 20, 100, 4000))))
            for _ in range(1500):
                key = chance.choice(list(self.apis))
                version = chance.randint(*self.apis[key])
                self.request_settles(key, version, chance.randbytes(chance.choice((0, 3, 10, 40, 200))))

    def request_settles(self, key, version, body):
        """The request is answered or the connection closed; a Produce with acks=0 has no answer, but the request behind it has."""
        # (and Kafka never answers a Produce whose records are null)
        waits = key in (1, 11, 14) or key == 0 and self.jvm  # bent bytes can ask for a long poll, or wait for a member that never comes
        with Connection(self.address, timeout=1 if waits else 10) as connection:
            connection.send(key, version, body)
            if not waits:
                connection.send(18, 0, b"")
            try:
                connection.receive()
            except Closed:
                pass
            except TimeoutError:
                require(waits, f"API {key} v{version}: neither answer nor close for the body {body[:80].hex()} of {len(body)} bytes")

    def mutations(self):
        """good requests with a few bytes changed"""
        chance = random.Random(SEED + 1)
        code, message = wire.create_topic(self.address, "mutated")
        equal(code, 0, f"create topic ({message})")
        batch = wire.batch(wire.record(0, b"key", b"value"))
        metadata = uvarint(2) + bytes(16) + compact("mutated") + b"\0" + b"\1\0\0"
        offsets = struct.pack(">ib", -1, 0) + uvarint(2) + compact("mutated") + uvarint(2) + struct.pack(">iiq", 0, -1, -1) + b"\0\0\0"
        good = [(0, 9, wire.produce_body("mutated", 0, batch)), (3, 12, metadata), (2, 9, offsets), (1, 12, wire.fetch_body("mutated", max_wait=50)),
                (10, 4, b"\0" + uvarint(2) + compact("group") + b"\0"), (18, 3, compact("tests") + compact("1") + b"\0")]
        with self.within(64, "mutations"):
            for _ in range(1500):
                key, version, body = chance.choice(good)
                changed = bytearray(body)
                for _ in range(chance.randint(1, 4)):
                    changed[chance.randrange(len(changed))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
                if chance.random() < 0.2:
                    del changed[chance.randrange(len(changed)):]
                self.request_settles(key, version, bytes(changed))

    def announced_memory(self):
        """100 frames of 100 MB announced and not sent cost next to nothing"""
        with self.within(64, "announced frames"):
            waiting = [Connection(self.address) for _ in range(100)]
            for each in waiting:
                each.socket.sendall(struct.pack(">i", 104857600) + struct.pack(">hhi", 0, 9, 1) + bytes(1000))
            self.alive()
            time.sleep(0.3)  # for a broker that allocates late
        for each in waiting:
            each.socket.close()

    def slow_loris(self):
        """500 connections that send a byte and wait do not keep others out"""
        waiting = [Connection(self.address) for _ in range(500)]
        for each in waiting:
            each.socket.sendall(b"\0")
        for _ in range(20):
            self.alive()
        for each in waiting:
            each.socket.close()

    def byte_by_byte(self):
        """a request that arrives byte by byte is answered"""
        with Connection(self.address) as connection:
            connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            payload = struct.pack(">hhi", 18, 0, 5) + string("slow")
            for byte in struct.pack(">i", len(payload)) + payload:
                connection.socket.sendall(bytes([byte]))
            equal(Reader(connection.receive()).int32(), 5, "correlation id")

    def never_reads(self):
        """clients that ask for everything and never read: memory stays bounded"""
        load.create(self.broker, "unread", retention_ms=-1)
        load.send(self.broker, "unread", ledger.rows(0, 20000), batch_size=500_000)
        fetch = wire.fetch_body("unread", max_bytes=50 * MIB)
        with self.within(256, "unread answers"):
            waiting = [Connection(self.address) for _ in range(20)]
            for each in waiting:
                for _ in range(20):
                    each.send(1, 12, fetch)
            time.sleep(0.5)
            self.alive()
        for each in waiting:
            each.socket.close()

    def named_often(self):
        """a topic of 1,000 partitions that is named 14,000 times in 84 KB is described once"""
        equal(wire.create_topic(self.address, "wide", partitions=1000)[0], 0, "CreateTopics")
        asked = struct.pack(">i", 14_000) + string("wide") * 14_000
        with self.within(256, "an answer of what is named often"), Connection(self.address, timeout=30) as connection:
            connection.send(3, 1, asked)
            require(len(connection.receive()) < MIB, "the answer is as long as the list of names")
        self.alive()

    def pipelined(self):
        """60 pipelined requests, a long poll among them, are answered in order"""
        load.create(self.broker, "pipelined")
        offsets = struct.pack(">ib", -1, 0) + uvarint(2) + compact("pipelined") + uvarint(2) + struct.pack(">iiq", 0, -1, -1) + b"\0\0\0"
        fetch = wire.fetch_body("pipelined", max_wait=300, min_bytes=1 << 30)
        with Connection(self.address, timeout=20) as connection:
            sent, blob = [], b""
            for n in range(60):
                key, version, body = ((18, 0, b""), (2, 9, offsets), (0, 9, wire.produce_body("pipelined", 0, wire.batch(wire.record(0, None, b"%d" % n)))),
                                      (1, 12, fetch) if n % 20 == 3 else (3, 1, struct.pack(">i", -1)))[n % 4]
                payload = connection.header(key, version) + body
                blob += struct.pack(">i", len(payload)) + payload
                sent.append((connection.correlation, key))
            connection.socket.sendall(blob)
            bases = []
            for correlation, key in sent:
                reader = Reader(connection.receive())
                equal(reader.int32(), correlation, "correlation id")
                if key == 0:
                    reader.tags(), reader.uvarint(), reader.compact(), reader.uvarint(), reader.int32()
                    equal(reader.int16(), 0, "produce error")
                    bases.append(reader.int64())
            equal(bases, list(range(15)), "base offsets of the pipelined produces")

    def acks_zero(self):
        """acks=0 has no answer at all, and the record is there"""
        load.create(self.broker, "silent")
        with Connection(self.address) as connection:
            for n in range(5):
                connection.send(0, 9, wire.produce_body("silent", 0, wire.batch(wire.record(0, None, b"%d" % n)), acks=0))
            expected = connection.send(18, 0, b"")
            equal(Reader(connection.receive()).int32(), expected, "the first answer on the connection")
        wait_until(lambda: wire.list_offset(self.address, "silent", 0, wire.LATEST) == 5, "five records", 10)

    def acks_zero_error(self):
        """acks=0 with an error closes the connection"""
        with Connection(self.address) as connection:
            connection.send(0, 9, wire.produce_body("silent", 77, wire.batch(wire.record(0, None, b"x")), acks=0))
            require(connection.closed(), "the connection is open")

    def topic_names(self):
        """topic names that are not allowed"""
        before = sorted(each.name for each in self.broker.log_dir().iterdir())
        for name in ("", ".", "..", "a b", "a/b", "../../etc", "ä", "\0", "a\n", "x" * 250, "a" * 30000, "café", "a:b", "*"):
            code, _ = wire.create_topic(self.address, name)
            equal(code, 17, f"error for the name {name[:30]!r}")
            if len(name) < 1000:
                with Connection(self.address) as connection:  # Metadata v4 with auto-creation
                    reader = connection.ask(3, 4, struct.pack(">i", 1) + string(name) + b"\1")
                    require(reader.data, "an answer")
        after = sorted(each.name for each in self.broker.log_dir().iterdir())
        equal([name for name in after if name not in before and not name.startswith("__")], [], "new folders")
        equal(wire.create_topic(self.address, "a" * 249)[0], 0, "error for a name of 249 characters")


class Memory:
    def __init__(self, broker, mib, what):
        self.broker, self.limit, self.what = broker, mib * MIB, what

    def __enter__(self):
        self.before = self.broker.memory()

    def __exit__(self, kind, *_):
        after = self.broker.memory()
        # the high-water mark tells of a peak inside, unless an earlier one was higher
        grown = max(after[0] - self.before[0], after[1] - max(self.before[1], self.before[0]))
        if kind is None and self.broker.kind == "strandline":
            require(grown < self.limit, f"{self.what}: memory grew by {grown / MIB:.0f} MiB (limit {self.limit / MIB:.0f})")


IDLE_S = 1.5


def idle(suite):
    """W-10: an answer that is being taken is no idleness, however long it takes."""
    with brokers.make(settings={"connections.max.idle.ms": str(int(IDLE_S * 1000))}) as broker, suite.story():
        load.create(broker, "long", retention_ms=-1)
        load.send(broker, "long", ledger.rows(0, 40000), batch_size=500_000)
        fetch = wire.fetch_body("long", max_bytes=50 * MIB)
        with suite.check("idle connections: an answer that is taken slowly arrives as a whole"), slow(broker) as connection:
            connection.send(1, 12, fetch)
            length = struct.unpack(">i", connection.exactly(4))[0]
            require(length > 4 * MIB, f"an answer of only {length} bytes")
            piece = length // 20 + 1
            for at in range(0, length, piece):
                connection.exactly(min(piece, length - at))
                time.sleep(3 * IDLE_S / 20)
        with suite.check("idle connections: one whose answer is not taken is closed"), slow(broker) as connection:
            connection.send(1, 12, fetch)
            wait_until(lambda: broker.metric("strandline_connections") == 0, "the end of the connection", 20)
        with suite.check("idle connections: a silent one is closed"), Connection(broker.bootstrap) as connection:
            require(connection.closed(), "an idle connection was answered")


def slow(broker):
    """A connection that holds little of an answer."""
    return Connection(broker.bootstrap, receive_buffer=64 << 10)


def main():
    suite = Suite("bad-input-frames")
    broker = brokers.make()
    with suite.story(), broker:
        Story(suite, broker).run()
        # hostile clients are a reason for a warning, not for an error
        brokers.check_log(suite, broker, allow=[r"\bWARN\b"])
    if broker.kind == "strandline":  # whose metrics are asked
        idle(suite)
    suite.finish()


if __name__ == "__main__":
    main()
