"""A full disk: Kafka's code for it, a broker that lives on, and nothing acknowledged is lost once there is space again."""

import random
import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

import brokers  # noqa: E402
import load  # noqa: E402
import wire  # noqa: E402
from checks import Suite, equal, require, wait_until  # noqa: E402
from confluent_kafka import Producer  # noqa: E402
from mounts import SmallDisk  # noqa: E402
from strandline import ANSI  # noqa: E402
from wire import Connection, batch, produce, record  # noqa: E402

STORAGE_ERROR = 56


def value(n):
    return n.to_bytes(4, "big") + random.Random(n).randbytes(200_000)


def fill(broker, topic, first, most=600):
    """Produces one record after the other until one is refused; returns (acknowledged offsets by number, error)."""
    places = {}
    with Connection(broker.bootstrap, timeout=60) as connection:
        for n in range(first, first + most):
            error, base, _ = produce(connection, topic, 0, batch(record(0, None, value(n))))
            if error:
                return places, error
            places[n] = base
    return places, 0


def verify(broker, topic, places, refused, partition=0):
    """Every acknowledged record at its place, nothing else but perhaps the refused one, offsets dense."""
    rows = load.read_all(broker, topic, partitions=partition + 1, row=lambda m: (m.partition(), m.offset(), m.value()))
    found = [(offset, data) for of, offset, data in rows if of == partition]
    equal([offset for offset, _ in found], list(range(len(found))), "offsets")
    numbers = [int.from_bytes(data[:4], "big") for _, data in found]
    for (offset, data), n in zip(found, numbers):
        require(data == value(n), f"record {n} at {offset} has another value")
        require(n in places or n in refused, f"record {n} at {offset} was never sent, or twice")
    for n, offset in places.items():
        require(offset < len(numbers) and numbers[offset] == n, f"record {n} was acknowledged at {offset}, but it holds {numbers[offset:offset + 1]}")
    equal(len(set(numbers)), len(numbers), "different records")


def hot(suite):
    """Only the log directory is full."""
    with SmallDisk(48) as disk, brokers.make(settings={"log.dirs": str(disk.path / "log")}) as broker, suite.story():
        load.create(broker, "full", retention_ms=-1, remote_storage_enable="false", segment_bytes=4 << 20)
        with suite.check("full log directory: produce is refused with KAFKA_STORAGE_ERROR", needed=True):
            places, error = fill(broker, "full", 0)
            equal(error, STORAGE_ERROR, f"error after {len(places)} records")
            require(len(places) > 100, f"only {len(places)} records of 200 KB fit into 48 MiB")
        with suite.check("full log directory: the broker lives and says so"):
            require(broker.running, broker.log_tail())
            wire.api_versions(broker.bootstrap)
            equal(broker.get("/livez")[0], 200, "/livez")
            with Connection(broker.bootstrap) as connection:
                require(produce(connection, "full", 0, batch(record(0, None, value(9999))))[1] == -1, "produce went on")
        with suite.check("full log directory: with space and a restart, nothing acknowledged is lost"):
            disk.resize(200)
            broker.restart()
            verify(broker, "full", places, {max(places) + 1, 9999})
            more, error = fill(broker, "full", 10_000, most=20)
            equal((len(more), error), (20, 0), "(records, error) afterwards")
            verify(broker, "full", places | more, {max(places) + 1, 9999})
        with suite.check("full log directory: full again, and kill -9 while it is"):
            more2, error = fill(broker, "full", 20_000, most=2000)
            equal(error, STORAGE_ERROR, "error")
            broker.kill()
            disk.resize(400)
            broker.start()
            verify(broker, "full", places | more | more2, {max(places) + 1, 9999, max(more2) + 1})
        brokers.check_log(suite, broker, allow=brokers.ONLY_PANICS)


def pipelined(suite):
    """Many requests are under way when the directory fails: each gets its answer (P-81, P-84)."""
    with SmallDisk(24) as disk, brokers.make(settings={"log.dirs": str(disk.path / "log")}) as broker, suite.story():
        load.create(broker, "rushed", partitions=2, retention_ms=-1, remote_storage_enable="false")
        for acks in (1, -1):
            with suite.check(f"full log directory: every one of many requests with acks={acks} is answered", needed=True):
                records = [batch(record(0, None, value(n) * 2)) for n in range(100)]
                with Connection(broker.bootstrap, timeout=40) as connection:
                    sent = [connection.send(0, 9, wire.produce_body("rushed", n % 2, data, acks, timeout_ms=30_000)) for n, data in enumerate(records)]
                    codes = [wire.produce_answer(connection.answer(0, 9, number))[0] for number in sent]
                require(set(codes) <= {0, STORAGE_ERROR} and STORAGE_ERROR in codes, f"codes {sorted(set(codes))}")
                require(acks == -1 or 0 in codes, "nothing was stored before")
        brokers.check_log(suite, broker, allow=brokers.ONLY_PANICS)


def everything(suite):
    """Log, metadata, cache and bucket lie on the same full disk, and uploads run."""
    with SmallDisk(64) as disk, brokers.make(data_dir=disk.path / "broker") as broker, suite.story():
        load.create(broker, "tiered", retention_ms=-1, local_retention_ms=1000, segment_bytes=1 << 20, remote_storage_enable="true")
        with suite.check("full data directory, with uploads: produce is refused", needed=True):
            places, error = fill(broker, "tiered", 0)
            require(error in (STORAGE_ERROR, 44), f"error {error} after {len(places)} records")
        with suite.check("full data directory: with space and a restart, nothing acknowledged is lost"):
            require(broker.running, broker.log_tail())
            disk.resize(400)
            broker.restart()
            verify(broker, "tiered", places, {max(places) + 1})
        with suite.check("full data directory: uploads go on"):
            more, error = fill(broker, "tiered", 10_000, most=20)
            equal((len(more), error), (20, 0), "(records, error)")
            broker.wait_cold("tiered")
            verify(broker, "tiered", places | more, {max(places) + 1})
        brokers.check_log(suite, broker, allow=brokers.ONLY_PANICS)


def read_only(suite):
    """The log directory turns read-only under a running broker."""
    with SmallDisk(100) as disk, brokers.make(settings={"log.dirs": str(disk.path / "log")}) as broker, suite.story():
        load.create(broker, "frozen", retention_ms=-1, remote_storage_enable="false", segment_bytes=1 << 20)
        with suite.check("failing log directory: no segment can be made", needed=True):
            places, error = fill(broker, "frozen", 0, most=20)
            equal(error, 0, "error before")
            # new segments cannot be created any more; a read-only remount would need all files closed
            folder = broker.log_dir() / "frozen-0"
            moved = folder.with_name("moved-away")
            folder.rename(moved)
            more, error = fill(broker, "frozen", 100, most=100)
            moved.rename(folder)
            require(error == STORAGE_ERROR, f"error {error} after {len(more)} more records")
        with suite.check("failing log directory: after a restart all is there"):
            require(broker.running, broker.log_tail())
            broker.restart()
            verify(broker, "frozen", places | more, {max([*places, *more]) + 1})
        brokers.check_log(suite, broker, allow=brokers.ONLY_PANICS)


def restart_with_two(broker, disk):
    """What the broker has goes to a directory with room, and a second one on the small disk joins it; both."""
    broker.terminate()
    roomy, small = broker.dir / "roomy", disk.path / "log"
    shutil.move(broker.dir / "data" / "log", roomy)
    broker.settings["log.dirs"] = f"{roomy},{small}"
    broker.start()
    return roomy, small


def one_of_two(suite):
    """Two log directories, of which one is full: its partitions are offline, the others serve on."""
    with SmallDisk(48) as disk, brokers.make() as broker, suite.story():
        roomy, small = restart_with_two(broker, disk)
        with suite.check("two log directories: partitions are spread", needed=True):
            load.create(broker, "spread", partitions=2, retention_ms=-1, remote_storage_enable="false", segment_bytes=4 << 20)
            in_small = [int(folder.name[-1]) for folder in small.glob("spread-*")]
            equal((len(in_small), len(list(roomy.glob("spread-*")))), (1, 1), "partitions in each")
            lost, kept = in_small[0], 1 - in_small[0]
        with suite.check("two log directories: one fails, the other serves on", needed=True):
            places = {0: {}, 1: {}}
            with Connection(broker.bootstrap, timeout=60) as connection:
                error, n = 0, 0
                while not error:
                    for partition in (kept, lost):
                        error, base, _ = produce(connection, "spread", partition, batch(record(0, None, value(n))))
                        if not error:
                            places[partition][n] = base
                    n += 1
                equal(error, STORAGE_ERROR, "error of the full one")
                require(n > 100, f"only {n} records of 200 KB fit into 48 MiB")
                for more in range(n, n + 20):
                    error, base, _ = produce(connection, "spread", kept, batch(record(0, None, value(more))))
                    equal(error, 0, "error of the other")
                    places[kept][more] = base
                equal(produce(connection, "spread", lost, batch(record(0, None, value(1))))[0], STORAGE_ERROR, "error, still")
            equal(broker.get("/readyz")[0], 200, "/readyz")
            equal(broker.metric("strandline_offline_log_directories"), 1, "offline directories")
            load.create(broker, "new", partitions=3, remote_storage_enable="false")
            equal(len(list(small.glob("new-*"))), 0, "new partitions in the failed directory")
        with suite.check("two log directories: a start without one of them makes nothing anew"):
            broker.terminate()
            hidden = small.with_name("hidden")
            disk.resize(60)
            small.rename(hidden)
            small.write_text("no directory")
            broker.start()
            equal(broker.metric("strandline_offline_log_directories"), 1, "offline directories")
            with Connection(broker.bootstrap, timeout=60) as connection:
                equal(produce(connection, "spread", lost, batch(record(0, None, value(1))))[0], STORAGE_ERROR, "error of the missing one")
                error, base, _ = produce(connection, "spread", kept, batch(record(0, None, value(7777))))
                equal(error, 0, "error of the other")
                places[kept][7777] = base
            broker.terminate()
            small.unlink()
            hidden.rename(small)
        with suite.check("two log directories: with both and with space, nothing acknowledged is lost"):
            disk.resize(200)
            broker.start()
            for partition, refused in ((kept, set()), (lost, {n - 1})):
                verify(broker, "spread", places[partition], refused, partition)
        brokers.check_log(suite, broker, allow=brokers.ONLY_PANICS)


def late_marker(suite):
    """A transaction ends while one of its partitions lies in a directory that failed: the end is decided, the others have their markers, and
    somebody is told that one is late; with the directory it comes."""
    settings = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}
    with SmallDisk(48) as disk, brokers.make(settings=settings) as broker, suite.story():
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "split", "log_level": 0, "transaction.timeout.ms": 600_000})
        producer.init_transactions(30)  # its state lies in the directory that stays
        roomy, small = restart_with_two(broker, disk)

        def stable(partition):
            return wire.list_offset(broker.bootstrap, "split", partition, wire.LATEST, isolation=1)

        with suite.check("a failed directory and a transaction: it is open in both directories", needed=True):
            load.create(broker, "split", partitions=2, retention_ms=-1, remote_storage_enable="false", segment_bytes=4 << 20)
            lost = [int(folder.name[-1]) for folder in small.glob("split-*")][0]
            producer.begin_transaction()
            for partition in (0, 1):
                producer.produce("split", value(partition), partition=partition)
            equal(producer.flush(30), 0, "records without an answer")
        with suite.check("a failed directory and a transaction: it commits where it can, and a marker is late", needed=True):
            with Connection(broker.bootstrap, timeout=60) as connection:
                sent = 0
                while produce(connection, "split", lost, batch(record(0, None, value(7))))[0] == 0:
                    sent += 1
            equal((stable(1 - lost), broker.metric("strandline_partitions_without_marker")), (0, 0), "before the end")
            producer.commit_transaction(30)
            wait_until(lambda: stable(1 - lost) == 2, "the marker of the other partition")
            wait_until(lambda: broker.metric("strandline_partitions_without_marker") == 1, "a partition without its marker")
            wait_until(lambda: re.search(rf"WARN .*markers cannot be written.*partition=split-{lost}\b", plain_log(broker)), "somebody to be told", 30)
            equal(len(re.findall("markers cannot be written", plain_log(broker))), 1, "lines about it in the first minute")
        with suite.check("a failed directory and a transaction: with the directory the marker comes"):
            disk.resize(200)
            broker.restart()
            wait_until(lambda: stable(lost) >= sent + 2, "the last stable offset of the partition that was lost", 30)
            equal(stable(lost), wire.list_offset(broker.bootstrap, "split", lost, wire.LATEST), "the last stable offset, at the end")
            wait_until(lambda: broker.metric("strandline_partitions_without_marker") == 0, "all markers")
        brokers.check_log(suite, broker, allow=brokers.ONLY_PANICS)


def plain_log(broker):
    return ANSI.sub("", broker.log_path.read_text(errors="replace"))


def main():
    suite = Suite("bad-input-disk")
    for part in (hot, pipelined, everything, read_only, one_of_two, late_marker):
        with suite.story():
            part(suite)
    suite.finish()


if __name__ == "__main__":
    main()
