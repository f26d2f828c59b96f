"""Bad record batches are refused with Kafka's codes, bombs cost little memory, and what is accepted can be recovered."""

import gzip
import random
import struct
import sys
import threading
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

import brokers  # noqa: E402
import load  # noqa: E402
import lz4.frame  # noqa: E402
import snappy  # noqa: E402
import wire  # noqa: E402
import zstandard  # noqa: E402
from bad_input_frames import MIB, Memory  # noqa: E402
from checks import Suite, equal, require, wait_until  # noqa: E402
from confluent_kafka.admin import AdminClient  # noqa: E402
from kafka_tools import dump_log_dir  # noqa: E402
from wire import Connection, batch, produce, record, uvarint, varint  # noqa: E402

CORRUPT, TOO_LARGE, RECORD_LIST, ACKS, TIMESTAMP, MAGIC, CODEC, INVALID = 2, 10, 18, 21, 32, 43, 76, 87
GOOD = record(0, b"key", b"value")
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4


def compressed(codec, data):
    return {0: lambda d: d, GZIP: gzip.compress, SNAPPY: snappy.compress, LZ4: lz4.frame.compress,
            ZSTD: zstandard.ZstdCompressor().compress}[codec](data)


def cases():
    """(what, batch bytes, codes that are right): Kafka's own code is among them, as checked against Kafka."""
    bad = {CORRUPT, INVALID}
    for magic in (0, 1, 3, 127, -1):
        yield f"magic {magic}", batch(GOOD, magic=magic), {CORRUPT, MAGIC, INVALID}
    yield "a wrong CRC", batch(GOOD, crc=0xDEADBEEF), {CORRUPT}
    yield "a batch length of 0", batch(GOOD, length=0), bad
    yield "a negative batch length", batch(GOOD, length=-1), bad
    yield "a batch length beyond the bytes", batch(GOOD, length=1000), bad
    yield "a batch length short of the bytes", batch(GOOD, length=50), bad
    yield "a batch of 2 GB by its length", batch(GOOD, length=0x7FFFFFFF), bad | {TOO_LARGE, RECORD_LIST}
    whole = batch(GOOD)
    for cut in (1, 11, 12, 16, 60, 61, len(whole) - 1):
        yield f"only {cut} bytes of a batch", whole[:cut], bad
    yield "bytes behind the batch", whole + b"\0\0\0", bad
    yield "two batches", whole + whole, {INVALID}
    yield "an empty blob", b"", {INVALID, CORRUPT}
    yield "a base offset", batch(GOOD, base_offset=5), {INVALID}
    yield "a record count of 0", batch(b"", count=0, last_offset_delta=0), {INVALID}
    yield "a negative record count", batch(GOOD, count=-1, last_offset_delta=0), {INVALID}
    yield "a record count above the records", batch(GOOD, count=2), bad
    yield "a record count below the records", batch(GOOD + record(1, None, b"x"), count=1), bad
    yield "a record count of 2^31-1", batch(GOOD, count=0x7FFFFFFF), bad
    yield "a last offset delta that does not fit", batch(GOOD, last_offset_delta=7), {INVALID}
    yield "a control batch", batch(GOOD, attributes=0x20), {INVALID}
    yield "LogAppendTime by the client", batch(GOOD, attributes=0x08), {TIMESTAMP, INVALID}
    yield "a producer id without a sequence", batch(GOOD, producer=(7, 0, -1)), bad
    yield "a producer id without an epoch", batch(GOOD, producer=(7, -1, 0)), bad
    for codec in (5, 6, 7):
        yield f"codec {codec}", batch(GOOD, codec=codec), {CORRUPT, INVALID, CODEC}
    for codec in (GZIP, SNAPPY, LZ4, ZSTD):
        data = compressed(codec, GOOD)
        yield f"codec {codec}: noise", batch(random.Random(codec).randbytes(200), codec=codec), bad
        yield f"codec {codec}: nothing", batch(b"", codec=codec), bad
        yield f"codec {codec}: cut short", batch(data[:len(data) // 2], codec=codec), bad
        yield f"codec {codec}: not compressed", batch(GOOD, codec=codec), bad
        yield f"codec {codec}: fewer records than said", batch(data, codec=codec, count=3), bad
        yield f"codec {codec}: more records than said", batch(compressed(codec, GOOD + record(1, None, b"x")), codec=codec), bad
        yield f"codec {codec}: another codec's bytes", batch(compressed(codec % 4 + 1, GOOD), codec=codec), bad
        yield f"codec {codec}: a record length of 2^31-1", batch(compressed(codec, varint(0x7FFFFFFF) + GOOD[1:]), codec=codec), bad
    for what, body in (
            ("a negative record length", varint(-5) + GOOD[1:]), ("a record length of 2^31-1", varint(0x7FFFFFFF) + GOOD[1:]),
            ("a record length that never ends", b"\xff" * 12), ("a key length of 2^31-1", varint(20) + b"\0\0\0" + varint(0x7FFFFFFF) + bytes(12)),
            ("a value length of 2^31-1", varint(20) + b"\0\0\0" + varint(-1) + varint(0x7FFFFFFF) + bytes(11)),
            ("a header count of 2^31-1", varint(12) + b"\0\0\0" + varint(-1) + varint(-1) + varint(0x7FFFFFFF) + bytes(2)),
            ("a negative header count", varint(6) + b"\0\0\0" + varint(-1) + varint(-1) + varint(-3)),
            ("a header without a name", varint(8) + b"\0\0\0" + varint(-1) + varint(-1) + varint(1) + varint(-1) + varint(-1))):
        yield what, batch(body), bad


def bombs():
    """(what, batch bytes): at most 1 MB that becomes hundreds of MB, as one valid record of zeros."""
    def zeros(size):
        head = b"\0\0\0" + varint(-1) + varint(size)
        yield varint(len(head) + size + 1) + head
        for _ in range(size // MIB):
            yield bytes(MIB)
        yield b"\0"  # no headers

    def stream(compressor, size):
        return b"".join([compressor.compress(piece) for piece in zeros(size)]) + compressor.flush()

    yield "gzip, 800 MiB", batch(stream(zlib.compressobj(9, zlib.DEFLATED, 31), 800 * MIB), codec=GZIP)
    yield "zstd, 2000 MiB", batch(stream(zstandard.ZstdCompressor(3).compressobj(), 2000 * MIB), codec=ZSTD)
    out = lz4.frame.LZ4FrameCompressor(block_size=lz4.frame.BLOCKSIZE_MAX4MB)
    yield "lz4, 200 MiB", batch(out.begin() + b"".join([out.compress(piece) for piece in zeros(200 * MIB)]) + out.flush(), codec=LZ4)
    yield "snappy, 16 MiB", batch(snappy.compress(b"".join(zeros(16 * MIB))), codec=SNAPPY)
    yield "zstd that claims 2^60 bytes", batch(b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 1 << 60) + b"\x01\0\0", codec=ZSTD)
    yield "zstd with a window of 2 GiB", batch(b"\x28\xb5\x2f\xfd\x00\xa8" + struct.pack("<I", 3 | 1000 << 3)[:3] + b"\0", codec=ZSTD)
    yield "snappy that claims 4 GiB", batch(uvarint(0xFFFFFFFF) + b"\0x", codec=SNAPPY)
    yield "xerial snappy that claims a block of 2 GiB", batch(b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, 0x7FFFFFFF) + b"x", codec=SNAPPY)
    yield "lz4 with a block of 2 GiB", batch(b"\x04\x22\x4d\x18\x60\x70\x73" + struct.pack("<I", 0x7FFFFFFF) + b"x", codec=LZ4)


# Kafka 4.4 takes these (it drops the bytes behind a batch, and does not look at the other two), and answers -1 where decompression fails.
KAFKA_TAKES = ("bytes behind the batch", "LogAppendTime by the client", "a producer id without an epoch")


class Story:
    def __init__(self, suite, broker):
        self.suite, self.broker = suite, broker
        self.good = 0
        self.jvm = broker.kind != "strandline"

    def produce_good(self):
        with Connection(self.broker.bootstrap) as connection:
            for codec in range(5):
                error, base, message = produce(connection, "batches", 0, batch(compressed(codec, GOOD), codec=codec))
                equal((error, base), (0, self.good), f"(error, offset) of a good batch with codec {codec} ({message})")
                self.good += 1

    def end(self):
        return wire.list_offset(self.broker.bootstrap, "batches", 0, wire.LATEST)

    def refused(self, what, body, codes):
        """Refused with one of these codes on a connection that stays, and nothing appended."""
        with Connection(self.broker.bootstrap) as connection:
            error, base, _ = produce(connection, "batches", 0, body)
            if self.jvm and error == 0 and what in KAFKA_TAKES:
                self.good += 1
                return
            require(error in codes or (self.jvm and error == -1), f"error {error}, expected one of {sorted(codes)}")
            equal(base, -1, "base offset of a refusal")
        equal(self.end(), self.good, "end of the log")

    def run(self):
        check = self.suite.check
        load.create(self.broker, "batches", retention_ms=-1)
        for topic in ("bombs", "mutated"):
            load.create(self.broker, topic, retention_ms=-1)
        with check("good batches of every codec", needed=True):
            self.produce_good()
        for what, body, codes in cases():
            with check(f"batch with {what}"):
                self.refused(what, body, codes)
        with check("bad requests around a good batch"):
            self.requests()
        with check("a null key on a compacted topic"):
            self.compacted()
        with check("a batch above max.message.bytes"):
            with Connection(self.broker.bootstrap) as connection:
                equal(produce(connection, "batches", 0, batch(record(0, None, bytes(2 * MIB))))[0], TOO_LARGE, "error")
        with check("random changes to good batches, with a good CRC"):
            self.mutations()
        with check("good batches are still taken"):
            self.produce_good()
        self.bombs()
        with check("what was accepted is recovered after kill -9"):
            self.broker.kill()
            self.broker.start()
            equal(self.end(), self.good, "end of the log")
            self.produce_good()
        with check("Kafka's DumpLogSegments reads what was accepted"):
            # the bombs that were taken are valid records of a GB, which the tool would read into memory; and Kafka takes records cut short
            gone = ["bombs", "mutated"] if self.jvm else ["bombs"]
            admin = AdminClient({"bootstrap.servers": self.broker.bootstrap, "log_level": 0})
            for future in admin.delete_topics(gone).values():
                future.result(30)
            self.broker.terminate()
            dump_log_dir(self.broker.log_dir())

    def compacted(self):
        code, message = wire.create_topic(self.broker.bootstrap, "compacted", 1, {"cleanup.policy": "compact"})
        equal(code, 0, f"create ({message})")
        wait_until(lambda: wire.list_offset(self.broker.bootstrap, "compacted", 0, wire.LATEST) == 0, "the topic", 20)
        with Connection(self.broker.bootstrap) as connection:
            equal(produce(connection, "compacted", 0, batch(record(0, None, b"x")))[0], INVALID, "error")
            equal(produce(connection, "compacted", 0, batch(GOOD))[0], 0, "error with a key")

    def requests(self):
        good = batch(GOOD)
        with Connection(self.broker.bootstrap) as connection:
            for acks in (2, -2, 100):
                equal(produce(connection, "batches", 0, good, acks=acks)[0], ACKS, f"error for acks={acks}")
            for partition in (1, -1, 0x7FFFFFFF):
                equal(produce(connection, "batches", partition, good)[0], 3, f"error for partition {partition}")
            for topic in ("absent", "a b", ""):
                error = produce(connection, topic, 0, good)[0]
                require(error in (3, 17), f"error {error} for the topic {topic!r}")
            equal(produce(connection, "__consumer_offsets", 0, good)[0] in (3, 17), True, "an internal topic is refused")
        equal(self.end(), self.good, "end of the log")

    def mutations(self):
        """A changed byte may give another valid batch; then it is stored. Otherwise a code of Kafka's, and never anything else."""
        chance = random.Random(5)
        whole = GOOD + record(1, None, b"second", 5) + record(2, b"third", None, 9)
        with Connection(self.broker.bootstrap) as connection:
            for _ in range(1500):
                codec = chance.randrange(5)
                data = bytearray(compressed(codec, whole))
                for _ in range(chance.randint(1, 3)):
                    data[chance.randrange(len(data))] = chance.randrange(256)
                error, _, message = produce(connection, "mutated", 0, batch(bytes(data), codec=codec, count=3))
                require(error in (0, CORRUPT, TOO_LARGE, TIMESTAMP, INVALID) or self.jvm, f"error {error} ({message}) for {bytes(data).hex()} with codec {codec}")

    def bombs(self):
        for what, body in bombs():
            with self.suite.check(f"bomb: {what} from {len(body) / 1024:.0f} KiB"):
                require(len(body) < 1048588, f"the bomb itself has {len(body)} bytes")
                with Memory(self.broker, 192, what):
                    answers = []

                    def attack():
                        with Connection(self.broker.bootstrap, timeout=60) as connection:
                            answers.append(produce(connection, "bombs", 0, body)[0])

                    threads = [threading.Thread(target=attack) for _ in range(4)]
                    for each in threads:
                        each.start()
                    for each in threads:
                        each.join()
                    equal(len(answers), 4, "answers")
                    allowed = {0, CORRUPT, INVALID, TOO_LARGE, RECORD_LIST} | ({-1} if self.jvm else set())
                    require(set(answers) <= allowed, f"errors {answers}")
                wire.api_versions(self.broker.bootstrap)


def main():
    suite = Suite("bad-input-batches")
    broker = brokers.make()
    with suite.story(), broker:
        with suite.story():
            Story(suite, broker).run()
        brokers.check_log(suite, broker, allow=[r"\bWARN\b"])
    suite.finish()


if __name__ == "__main__":
    main()
