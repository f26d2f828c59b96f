"""A full disk: Kafka's code for it, a broker that lives on, and nothing acknowledged is lost once there is space again."""

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

import brokers  # noqa: E402
import load  # noqa: E402
import wire  # noqa: E402
from checks import Suite, equal, require  # noqa: E402
from mounts import SmallDisk  # noqa: E402
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


def verify(broker, topic, places, refused):
    """Every acknowledged record at its place, nothing else but perhaps the refused one, offsets dense."""
    found = load.read_all(broker, topic, row=lambda m: (m.offset(), m.value()))
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


def main():
    suite = Suite("bad-input-disk")
    for part in (hot, everything, read_only):
        with suite.story():
            part(suite)
    suite.finish()


if __name__ == "__main__":
    main()
