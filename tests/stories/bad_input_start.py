"""Starts that are refused, each with its cause and an exit code; and a store that goes away while the broker runs."""

import contextlib
import json
import socket
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

import ledger  # noqa: E402
import load  # noqa: E402
import wire  # noqa: E402
from broker import free_ports  # noqa: E402
from brokers import ONLY_PANICS, check_log  # noqa: E402
from checks import Suite, equal, require, wait_until  # noqa: E402
from mounts import SmallDisk  # noqa: E402
from seaweed import SeaweedFS  # noqa: E402
from strandline import Strandline  # noqa: E402


@contextlib.contextmanager
def unstarted(settings=None, env=None, data_dir=None):
    broker = Strandline(settings, env, data_dir)
    try:
        yield broker
    finally:
        broker.close()


def refused(settings, names, code=None, env=None, data_dir=None, timeout=20):
    """A start with these settings ends by itself, and says each of `names`."""
    with unstarted(settings, env, data_dir) as broker:
        got, said = broker.refuses(timeout)
        for name in names:
            require(name.lower() in said.lower(), f"{name!r} is not in what it said (exit {got}):\n{said[-1500:]}")
        require(code in (None, got), f"exit code {got}, expected {code}:\n{said[-1500:]}")


def settings(suite):
    with suite.check("a wrong value: name, value, exit code 2"):
        refused({"num.partitions": "many"}, ["num.partitions", "many"], code=2)
        refused({"num.partitions": "0"}, ["num.partitions", "0"], code=2)
        refused({"log.cleanup.policy": "banana"}, ["log.cleanup.policy", "banana"], code=2)
        refused({"listeners": "nonsense"}, ["listeners", "nonsense"], code=2)
        refused({"strandline.http.listener": "127.0.0.1:banana"}, ["strandline.http.listener", "banana"], code=2)
        refused({"strandline.tier.max.delay.ms": "-7"}, ["strandline.tier.max.delay.ms", "-7"], code=2)
    with suite.check("an unknown name: exit code 2"):
        refused({"no.such.name": "1"}, ["no.such.name"], code=2)
        refused({"strandline.no.such.name": "1"}, ["strandline.no.such.name"], code=2)
        refused({}, ["STRANDLINE_NO_SUCH_NAME"], code=2, env={"STRANDLINE_NO_SUCH_NAME": "1"})
        refused({}, ["STRANDLINE_NUM_PARTITION", "STRANDLINE_NUM_PARTITIONS"], code=2, env={"STRANDLINE_NUM_PARTITION": "1"})
    with suite.check("a setting of Kafka's that is not served: a warning that names it"):
        with Strandline({"num.network.threads": "5"}) as broker:
            said = broker.log_path.read_text(errors="replace")
            require("num.network.threads" in said, f"no word about it:\n{broker.log_tail()}")
    with suite.check("settings from a file and from the environment"):
        with tempfile.NamedTemporaryFile("w", suffix=".properties") as file, unstarted() as broker:
            file.write("# as people have them\nnum.partitions=7\nlog.segment.bytes = 2097152\nbroker.id=1\n")
            file.flush()
            plain = broker.command()
            at = plain.index("num.partitions=4")
            del plain[at - 1:at + 1]
            broker.command = lambda: [*plain, "--config", file.name]
            broker.start()
            equal(wire.create_topic(broker.bootstrap, "from-file", -1)[0], 0, "create with the default")
            wait_until(lambda: wire.list_offset(broker.bootstrap, "from-file", 6, wire.LATEST) == 0, "partition 6", 10)
            broker.terminate()
            broker.command = lambda: plain
            broker.env["STRANDLINE_NUM_PARTITIONS"] = "3"
            broker.start()
            equal(wire.create_topic(broker.bootstrap, "from-env", -1)[0], 0, "create with the default")
            wait_until(lambda: wire.list_offset(broker.bootstrap, "from-env", 2, wire.LATEST) == 0, "partition 2", 10)
            with contextlib.suppress(wire.OffsetError):
                wire.list_offset(broker.bootstrap, "from-env", 3, wire.LATEST)
                raise AssertionError("there is a partition 3")
    with suite.check("a config file that is not there"):
        with unstarted() as broker:
            plain = broker.command()
            broker.command = lambda: [*plain, "--config", "/no/such/file.properties"]
            require("/no/such/file.properties" in broker.refuses()[1], broker.log_tail())


def directories(suite):
    with suite.check("a data directory in use"):
        with Strandline() as first:
            refused({}, [str(first.dir / "data")], data_dir=first.dir)
            equal(first.running, True, "the first broker runs on")
            wire.api_versions(first.bootstrap)
    with suite.check("a listener in use"):
        with socket.socket() as taken, unstarted() as broker:
            taken.bind(("127.0.0.1", broker.port))
            taken.listen()
            require(str(broker.port) in broker.refuses()[1], broker.log_tail())
    with suite.check("a data directory of another node, and of another cluster"):
        with Strandline({"node.id": "1"}) as broker:
            equal(broker.terminate(), 0, "exit code")
            refused({"node.id": "42"}, ["42", "1"], data_dir=broker.dir)
            meta = broker.log_dir() / "meta.properties"
            text = meta.read_text()
            ids = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
            meta.write_text(text.replace(ids["cluster.id"], "AAAAAAAAAAAAAAAAAAAAAQ"))
            refused({"node.id": "1"}, [ids["cluster.id"], "AAAAAAAAAAAAAAAAAAAAAQ"], data_dir=broker.dir)
            meta.write_text(text)
            broker.start()
            equal(broker.terminate(), 0, "exit code after all")
    with suite.check("a data directory that cannot be made"):
        with tempfile.NamedTemporaryFile() as file:
            refused({"strandline.data.dir": f"{file.name}/data"}, [file.name])
    with suite.check("SIGTERM ends a broker with waiting clients, with exit code 0"):
        with Strandline() as broker:
            load.create(broker, "waited-for")
            with wire.Connection(broker.bootstrap) as connection:
                connection.send(1, 12, wire.fetch_body("waited-for", max_wait=60_000, min_bytes=1000))
                equal(broker.terminate(timeout=15), 0, "exit code")


    with suite.check("the cause of a refused start is a line of JSON where the log is JSON"):
        with tempfile.NamedTemporaryFile() as file, unstarted({"strandline.log.format": "json", "strandline.data.dir": f"{file.name}/data"}) as broker:
            last = json.loads(broker.refuses()[1].splitlines()[-1])
            equal(last["level"], "ERROR", "level")
            require(file.name in json.dumps(last), f"the cause is not in {last}")


def stores(suite):
    with suite.check("store: an unknown scheme"):
        refused({"strandline.store.url": "ftp://host/bucket"}, ["strandline.store.url", "ftp"])
    with suite.check("store: a directory that cannot be"):
        with tempfile.NamedTemporaryFile() as file:
            refused({"strandline.store.url": f"file://{file.name}/bucket"}, [f"{file.name}/bucket"])
    with suite.check("store: a directory that cannot be written"):
        with SmallDisk(10) as disk:
            (disk.path / "bucket").mkdir()
            disk.read_only()
            refused({"strandline.store.url": f"file://{disk.path}/bucket"}, [f"{disk.path}/bucket"])
    with SeaweedFS() as s3:
        with suite.check("store: the good one is taken"):
            with Strandline(s3.settings(), s3.environment()) as broker:
                equal(broker.get("/readyz")[0], 200, "/readyz")
        with suite.check("store: a bucket that does not exist"):
            refused(s3.settings("s3://absent-bucket/tests"), ["absent-bucket"], env=s3.environment(), timeout=60)
        with suite.check("store: credentials that are wrong"):
            refused(s3.settings(), ["strandline"], env=s3.environment("nobody", "nothing"), timeout=60)
            refused(s3.settings(), ["strandline"], env=s3.environment(secret_key="wrong"), timeout=60)
        with suite.check("store: credentials that may only read"):
            refused(s3.settings(), ["strandline"], env=s3.environment("reader", "reader-secret"), timeout=60)
        with suite.check("store: an endpoint where nobody listens"):
            (port,) = free_ports(1)
            refused(s3.settings() | {"strandline.store.s3.endpoint": f"http://127.0.0.1:{port}"}, [str(port)], env=s3.environment(), timeout=90)
        away(suite, s3)


def silent_store(suite):
    """A store that takes connections and says nothing."""
    with suite.check("store: a start that waits for an answer says so, and SIGTERM ends it"), socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        settings = {"strandline.store.url": "s3://strandline/tests", "strandline.store.s3.endpoint": address, "strandline.store.s3.region": "us-east-1"}
        with unstarted(settings, SeaweedFS.environment()) as broker:
            broker.spawn()
            wait_until(lambda: "has not answered yet" in broker.log_path.read_text(errors="replace"), "a word about the store", 20)
            broker.process.terminate()
            equal(broker.process.wait(10), 0, "exit code")


def away(suite, s3):
    """The store goes away under a running broker, and comes back."""
    sent = ledger.rows(0, 6000)
    with Strandline(s3.settings("s3://strandline/away"), s3.environment()) as broker, suite.story():
        with suite.check("store gone: produce and hot consume go on, nothing is deleted locally", needed=True):
            load.create(broker, "patient", segment_bytes=1048576, retention_ms=-1, local_retention_ms=1000, remote_storage_enable="true")
            load.send(broker, "patient", sent[:3000])
            load.create(broker, "far", segment_bytes=1048576, retention_ms=-1, local_retention_ms=1000, remote_storage_enable="true")
            load.send(broker, "far", sent)
            broker.wait_cold("far")
            load.create(broker, "near", retention_ms=-1, remote_storage_enable="false")
            load.send(broker, "near", sent)
            s3.stop()
            load.send(broker, "patient", sent[3000:])
            equal(wire.list_offset(broker.bootstrap, "patient", 0, wire.LATEST), 6000, "end")
            local = wire.list_offset(broker.bootstrap, "patient", 0, wire.EARLIEST_LOCAL)
            got = load.read_all(broker, "patient") if local == 0 else None
            require(got is None or len(got) == 6000, "hot records")
            equal(broker.get("/livez")[0], 200, "/livez")
        with suite.check("store gone: a cold partition takes nothing from the hot one behind it (F-62)"):
            with wire.Connection(broker.bootstrap, timeout=60) as connection:
                places = [("far", 0, 0), ("near", 0, 0)]
                for _ in range(3):
                    _, found = wire.fetch_many(connection, places, max_wait=5000)
                    sizes = {topic: len(records) for topic, error, _, records in found}
                    require(sizes.get("near", 0) > 0, f"bytes of each: {sizes}")
                    equal(sizes.get("far", 0), 0, "bytes from the bucket")
        with suite.check("store gone: the lag shows in the metrics", needed=True):
            wait_until(lambda: (broker.metric("strandline_tier_lag_bytes", topic="patient") or 0) > 1 << 20, "a lag", 20)
        with suite.check("store back: everything is tiered and replayed"):
            s3.start()
            broker.wait_cold("patient", timeout=120)
            ledger.compare(load.read_all(broker, "patient"), sent)
        check_log(suite, broker, allow=ONLY_PANICS)


def main():
    suite = Suite("bad-input-start")
    for part in (settings, directories, stores, silent_store):
        with suite.story():
            part(suite)
    suite.finish()


if __name__ == "__main__":
    main()
