"""Damaged files: segment objects, manifests, cache, indexes, snapshots, logs. A clear error or a repair, and never wrong data."""

import random
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

import brokers  # noqa: E402
import ledger  # noqa: E402
import load  # noqa: E402
import wire  # noqa: E402
from checks import Failed, Suite, equal, require, wait_until  # noqa: E402
from confluent_kafka import Consumer, TopicPartition  # noqa: E402
from kafka_tools import dump_log_dir  # noqa: E402

COUNT = 8000
COLD = {"segment_bytes": 1048576, "retention_ms": -1, "local_retention_ms": 1000, "remote_storage_enable": "true"}
HOT = {"segment_bytes": 1048576, "retention_ms": -1, "remote_storage_enable": "false"}


def damage(path, chance, places=20):
    data = bytearray(path.read_bytes())
    for _ in range(places):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


class Story:
    def __init__(self, suite, broker):
        self.suite, self.broker = suite, broker
        self.chance = random.Random(11)
        self.sent = ledger.rows(0, COUNT)

    def start(self):
        self.broker.start()
        for topic in ("hot", "cold"):
            wait_until(lambda: wire.list_offset(self.broker.bootstrap, topic, 0, wire.LATEST) >= 0, f"{topic} to answer", 20)

    def never_wrong(self, topic, start=0, seconds=6):
        """Reads what it can for a while, without the client's own checksum check; each record must be right. Returns the number of records."""
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": "judge", "enable.auto.commit": False, "check.crcs": False,
                             "auto.offset.reset": "error", "log_level": 0})
        consumer.assign([TopicPartition(topic, 0, start)])
        found, quiet = 0, 0
        while found < COUNT - start and quiet < seconds * 2:
            messages = [each for each in consumer.consume(2000, timeout=0.5) if not each.error()]
            quiet = 0 if messages else quiet + 1
            for message in messages:
                equal(message.offset(), start + found, "offset")
                row = load.row_of(message)
                want = self.sent[message.offset()]
                for field in ("key", "value", "timestamp", "headers"):
                    require(list(row[field] or ()) == list(want[field] or ()) if field == "headers" else row[field] == want[field],
                            f"offset {message.offset()}: wrong {field}: {str(row[field])[:100]}")
                found += 1
        consumer.close()
        require(self.broker.running, f"the broker is gone\n{self.broker.log_tail()}")
        return found

    def all_right(self, topic):
        ledger.compare(load.read_all(self.broker, topic), self.sent, topic)
        for n in (0, 1, COUNT // 2, COUNT - 1):
            equal(wire.list_offset(self.broker.bootstrap, topic, 0, ledger.timestamp(n)), n, f"offset by the time of {n}")

    def forget_cache(self):
        """Stops, removes the chunk cache, starts: the next reads go to the bucket."""
        self.broker.terminate()
        shutil.rmtree(self.broker.dir / "data" / "cache", ignore_errors=True)
        self.start()

    def objects(self, manifest=False):
        files = [path for path in self.broker.bucket_dir().rglob("*") if path.is_file() and ("manifest" in str(path.relative_to(self.broker.bucket_dir()))) == manifest]
        return sorted(files, key=lambda path: path.stat().st_mtime)

    def run(self):
        with self.suite.check("prepare a cold and a hot topic", needed=True):
            load.create(self.broker, "cold", **COLD)
            load.send(self.broker, "cold", self.sent, batch_size=32768)
            load.create(self.broker, "hot", **HOT)
            load.send(self.broker, "hot", self.sent, batch_size=32768, compression_type="zstd")
            self.broker.wait_cold("cold")
            self.all_right("cold")
            self.all_right("hot")
        for name in ("segment_objects", "missing_objects", "short_objects", "cache_files", "manifests", "indexes", "index_garbage_after_kill",
                     "snapshots", "lost_log_start", "checkpoints", "torn_tail", "damaged_log"):
            body = getattr(self, name)
            with self.suite.story(), self.suite.check(body.__doc__):
                body()

    def with_broken(self, files, breaking):
        """Breaks objects, reads, restores them, reads again: in between an error, afterwards everything."""
        kept = [(path, path.read_bytes()) for path in files]
        require(kept, "nothing found to break")
        for path in files:
            breaking(path)
        try:
            self.forget_cache()
            read = self.never_wrong("cold")
            require(read < COUNT, "all records were read, although objects are broken")
            require(self.never_wrong("hot") == COUNT, "the hot topic suffers")
        finally:
            for path, data in kept:
                path.write_bytes(data)
        wait_until(lambda: self.never_wrong("cold") == COUNT, "everything to be readable again", 60)
        self.all_right("cold")

    def large(self):
        return [path for path in self.objects() if path.stat().st_size > 500_000]

    def segment_objects(self):
        """segment objects with changed bits"""
        self.with_broken(self.large()[2:4], lambda path: damage(path, self.chance))

    def missing_objects(self):
        """a segment object that is gone"""
        self.with_broken(self.large()[2:3], lambda path: path.unlink())

    def short_objects(self):
        """a segment object cut short"""
        self.with_broken(self.large()[3:4], lambda path: path.write_bytes(path.read_bytes()[:path.stat().st_size // 2]))

    def cache_files(self):
        """cache files with changed bits: healed"""
        self.all_right("cold")
        self.broker.terminate()
        files = [path for path in (self.broker.dir / "data" / "cache").rglob("*") if path.is_file() and path.stat().st_size]
        for path in files:
            damage(path, self.chance, places=max(20, path.stat().st_size // 4096))
        self.start()
        self.all_right("cold")
        self.broker.kill()
        for path in files:
            path.write_bytes(self.chance.randbytes(min(path.stat().st_size, 1 << 20)) if path.exists() else b"")
        self.start()
        self.all_right("cold")

    def manifests(self):
        """a manifest with changed bits: an error, not a shorter or an empty history"""
        newest = self.objects(manifest=True)[-1]
        kept = newest.read_bytes()
        damage(newest, self.chance, places=5)
        self.broker.terminate()
        shutil.rmtree(self.broker.dir / "data" / "cache", ignore_errors=True)
        try:
            self.broker.start()
        except Failed as error:  # a refused start with a clear cause is right as well
            require("manifest" in str(error), str(error))
        except SystemExit as error:
            require("manifest" in str(error), str(error))
        if self.broker.running:
            self.never_wrong("cold")
            try:
                earliest = wire.list_offset(self.broker.bootstrap, "cold", 0, wire.EARLIEST)
            except (wire.OffsetError, wire.Closed, TimeoutError):
                earliest = 0
            equal(earliest, 0, "the log start, while the manifest cannot be read")
        newest.write_bytes(kept)
        self.broker.kill()
        self.start()
        self.all_right("cold")
        self.all_right("hot")

    def stopped(self, kill):
        if kill:
            self.broker.kill()
        else:
            self.broker.terminate()

    def each_index(self, kill):
        for how in (lambda p: p.write_bytes(self.chance.randbytes(p.stat().st_size // 8 * 8)), lambda p: p.unlink(),
                    lambda p: p.write_bytes(p.read_bytes()[:5]), lambda p: damage(p, self.chance, places=3), lambda p: p.write_bytes(b"")):
            self.stopped(kill)
            for topic in ("hot-0", "cold-0"):
                for path in [*(self.broker.log_dir() / topic).glob("*.index"), *(self.broker.log_dir() / topic).glob("*.timeindex")]:
                    if path.stat().st_size:
                        how(path)
            self.start()
            require(self.never_wrong("hot") == COUNT, "records are missing")
            self.all_right("hot")
            self.all_right("cold")

    def indexes(self):
        """indexes that are garbage, gone, cut, changed, empty, after a clean stop"""
        self.each_index(kill=False)

    def index_garbage_after_kill(self):
        """the same after kill -9"""
        self.each_index(kill=True)

    def snapshots(self):
        """producer snapshots that are garbage"""
        self.stopped(kill=False)
        for path in (self.broker.log_dir() / "hot-0").glob("*.snapshot"):
            path.write_bytes(self.chance.randbytes(max(path.stat().st_size, 50)))
        self.start()
        self.all_right("hot")

    def lost_log_start(self):
        """a lost log-start-offset-checkpoint neither hides nor deletes what is tiered"""
        before = self.broker.metric("strandline_tiered_bytes", topic="cold")
        for how in (lambda path: path.write_bytes(b"\xff\xfenonsense\n"), lambda path: path.unlink()):
            self.stopped(kill=True)
            path = self.broker.log_dir() / "log-start-offset-checkpoint"
            if path.exists():
                how(path)
            self.start()
            equal(wire.list_offset(self.broker.bootstrap, "cold", 0, wire.EARLIEST), 0, "log start")
            equal(self.broker.metric("strandline_tiered_bytes", topic="cold"), before, "tiered bytes")
            self.all_right("cold")

    def checkpoints(self):
        """checkpoint files that are garbage"""
        self.stopped(kill=True)
        for path in self.broker.log_dir().glob("*-checkpoint"):
            path.write_bytes(b"\xff\xfenonsense\n")
        (self.broker.log_dir() / "hot-0" / "leader-epoch-checkpoint").write_bytes(b"nonsense")
        self.start()
        self.all_right("hot")
        self.all_right("cold")

    def active_log(self, topic):
        return max((self.broker.log_dir() / f"{topic}-0").glob("*.log"))

    def torn_tail(self):
        """a torn tail after kill -9 is cut at the last whole batch, and writing goes on"""
        for tail in (b"\0" * 5000, self.chance.randbytes(3000), wire.batch(wire.record(0, None, b"x" * 500))[:300],
                     wire.batch(wire.record(0, None, b"y"), crc=1)):
            self.broker.kill()
            with open(self.active_log("hot"), "ab") as log:
                log.write(tail)
            self.start()
            equal(wire.list_offset(self.broker.bootstrap, "hot", 0, wire.LATEST), COUNT, "end of the log")
        more = ledger.rows(COUNT, COUNT + 50)
        load.send(self.broker, "hot", more)
        ledger.compare(load.read_all(self.broker, "hot"), self.sent + more)
        self.broker.terminate()
        dump_log_dir(self.broker.log_dir())
        self.start()

    def damaged_log(self):
        """a sealed segment of the hot log with changed bits: never wrong data"""
        self.broker.terminate()
        victim = sorted((self.broker.log_dir() / "hot-0").glob("*.log"))[1]
        damage(victim, self.chance, places=5)
        self.start()
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": "judge", "check.crcs": True, "auto.offset.reset": "error",
                             "enable.auto.commit": False, "log_level": 0})
        consumer.assign([TopicPartition("hot", 0, 0)])
        read, quiet = 0, 0
        while quiet < 6 and read < COUNT:
            messages = [each for each in consumer.consume(2000, timeout=0.5) if not each.error()]
            quiet = 0 if messages else quiet + 1
            for message in messages:
                require(load.row_of(message)["value"] == self.sent[message.offset()]["value"], f"wrong value at {message.offset()}")
                read += 1
        consumer.close()
        require(read >= int(victim.stem), f"only {read} records, the damage begins behind {int(victim.stem)}")
        require(self.broker.running, "the broker is gone")


def main():
    suite = Suite("corruption")
    broker = brokers.make()
    with suite.story(), broker:
        with suite.story():
            Story(suite, broker).run()
        brokers.check_log(suite, broker, allow=brokers.ONLY_PANICS)
    suite.finish()


if __name__ == "__main__":
    main()
