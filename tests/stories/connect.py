"""A Kafka Connect worker (distributed, as it is served) on the broker: a file goes in, the same file comes out, over clean stops and kills
of both; the worker's whole memory is three compacted topics, which are cleaned meanwhile."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

import brokers  # noqa: E402
import load  # noqa: E402
from broker import ROOT, TOOLS, die_with_parent, end_quietly, free_ports  # noqa: E402
from checks import Suite, equal, require, wait_until  # noqa: E402
from kafka_tools import tool  # noqa: E402

LIB = TOOLS / "kafka/lib-connect"
INTERNAL = ("connect-configs", "connect-offsets", "connect-status")
# Settings of the worker's topics, so that they are cleaned within a test and not within weeks.
QUICK = {"segment.ms": 400, "min.cleanable.dirty.ratio": 0.01, "delete.retention.ms": 1000}
SETTINGS = {"log.cleaner.backoff.ms": "200", "log.initial.task.delay.ms": "500"}


class Worker:
    """A Connect worker and its REST interface."""

    def __init__(self, broker):
        self.port = free_ports(1)[0]
        self.path = broker.dir / "worker.properties"
        self.log = broker.dir / "worker.log"
        settings = {
            "bootstrap.servers": broker.bootstrap, "group.id": "connect-test", "listeners": f"http://127.0.0.1:{self.port}",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "offset.storage.topic": "connect-offsets", "offset.storage.partitions": 2,
            "config.storage.topic": "connect-configs", "status.storage.topic": "connect-status", "status.storage.partitions": 2,
            "offset.flush.interval.ms": 300, "plugin.discovery": "service_load", "plugin.path": str(LIB), "session.timeout.ms": 10000,
            # otherwise the tasks of a worker that was killed may be kept for it, which comes back as another one, for five minutes
            "scheduled.rebalance.max.delay.ms": 0,
        }
        for kind in ("offset", "config", "status"):
            settings[f"{kind}.storage.replication.factor"] = 1
            settings.update({f"{kind}.storage.{name}": value for name, value in QUICK.items()})
        self.path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self.process = None

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                ["java", "-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Dlog4j2.configurationFile={ROOT / 'tests/kafka/log4j2.properties'}",
                 "-cp", f"{LIB}/*", "org.apache.kafka.connect.cli.ConnectDistributed", str(self.path)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent)
        wait_until(lambda: self.ask("GET", "/connectors") is not None, "the worker", 90, interval=0.3)

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=60)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def ask(self, method, path, body=None):
        """The answer as JSON; an error of the worker raises. While it starts or moves tasks it answers 409 or nothing: asked again by who waits."""
        if self.process.poll() is not None:
            raise SystemExit(f"the worker ended with {self.process.returncode}:\n{self.log.read_text()[-3000:]}")
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method, headers={"Content-Type": "application/json"},
                                         data=None if body is None else json.dumps(body).encode())
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                text = answer.read()
                return json.loads(text) if text else {}
        except urllib.error.HTTPError as error:
            if error.code in (404, 409, 500, 503):
                return None
            raise
        except OSError:
            return None

    def put(self, name, config):
        wait_until(lambda: self.ask("PUT", f"/connectors/{name}/config", config) is not None, f"connector {name}", 60, interval=0.5)

    def wait_connectors(self, *names):
        """A worker that has just started answers before it has read its topics."""
        wait_until(lambda: sorted(self.ask("GET", "/connectors") or []) == sorted(names), f"the connectors {names}", 60, interval=0.3)

    def wait_running(self, name):
        def running():
            status = self.ask("GET", f"/connectors/{name}/status") or {}
            return status.get("tasks") and all(task["state"] == "RUNNING" for task in status["tasks"])

        wait_until(running, f"the task of {name}", 60, interval=0.3)


class Files:
    """What goes in, and what comes out."""

    def __init__(self, folder):
        self.source, self.sink, self.lines = folder / "in.txt", folder / "out.txt", []
        self.source.touch()

    def add(self, count):
        new = [f"line {number} of the test" for number in range(len(self.lines), len(self.lines) + count)]
        with open(self.source, "a") as out:
            out.write("".join(line + "\n" for line in new))
        self.lines += new

    def arrived(self):
        return self.sink.read_text().splitlines() if self.sink.exists() else []

    def wait(self):
        wait_until(lambda: self.arrived()[-1:] == self.lines[-1:], f"line {len(self.lines)} to come out", 90, interval=0.2)
        equal(self.arrived(), self.lines, "what came out")

    def wait_after_kill(self):
        """Every line comes out, a part perhaps twice, from where the last commit was. The source keeps what it has read behind a full batch until
        the file grows, so it grows meanwhile."""
        count = len(self.lines)

        def is_out():
            if self.lines[count - 1] in self.arrived():
                return True
            self.add(1)
            return False

        wait_until(is_out, f"line {count} to come out", 90, interval=1)
        firsts = list(dict.fromkeys(self.arrived()))
        equal(firsts, self.lines[:max(count, len(firsts))], "what came out, repetitions aside")


def records(broker, topic, partitions):
    return len(load.read_all(broker, topic, partitions=partitions, row=lambda m: m.offset()))


def main():
    suite = Suite("connect")
    broker = brokers.make(SETTINGS)
    with suite.story(), broker:
        worker, files = Worker(broker), Files(broker.dir)
        load.create(broker, "lines")  # of one partition: only there the last line that goes in is the last that comes out
        try:
            with suite.check("a worker starts and makes its three compacted topics", needed=True):
                worker.start()
                for topic in INTERNAL:
                    said = tool("ConfigCommand", "--bootstrap-server", broker.bootstrap, "--describe", "--all", "--entity-type", "topics", "--entity-name", topic)
                    require("cleanup.policy=compact " in said, f"{topic}: {said}")
                    if broker.kind == "strandline":
                        require("remote.storage.enable=false " in said, f"{topic}: {said}")
            with suite.check("a file goes through the topic line by line", needed=True):
                worker.put("source", {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(files.source), "topic": "lines", "batch.size": "50"})
                worker.put("sink", {"connector.class": "FileStreamSink", "tasks.max": "1", "file": str(files.sink), "topics": "lines"})
                worker.wait_running("source")
                worker.wait_running("sink")
                for _ in range(20):
                    files.add(100)
                    files.wait()
            with suite.check("the worker's topics are cleaned meanwhile", needed=True):
                def cleaned():
                    files.add(1)  # an offset is committed, and the segment before it is rolled
                    files.wait()
                    end = sum(load.wire.list_offset(broker.bootstrap, "connect-offsets", p, load.wire.LATEST) for p in range(2))
                    return records(broker, "connect-offsets", 2) < end - 10

                wait_until(cleaned, "connect-offsets to be cleaned", 60, interval=0.5)
            with suite.check("after a clean stop of the worker nothing comes twice"):
                worker.stop()
                worker.start()
                files.add(100)
                files.wait()
            with suite.check("kill -9 of the worker: nothing is lost"):
                files.add(500)
                worker.kill()
                worker.start()
                files.add(100)
                files.wait_after_kill()
            with suite.check("kill -9 of the broker under a running worker: nothing is lost"):
                files.add(500)
                broker.kill()
                broker.start()
                files.add(100)
                files.wait_after_kill()
            with suite.check("kill -9 of both: the worker finds all that it knew in its topics"):
                worker.kill()
                broker.kill()
                broker.start()
                worker.start()
                worker.wait_connectors("sink", "source")
                files.add(100)
                files.wait_after_kill()
            with suite.check("a deleted connector stays deleted"):
                wait_until(lambda: worker.ask("DELETE", "/connectors/sink") is not None, "the deletion", 30, interval=0.5)
                worker.stop()
                worker.start()
                worker.wait_connectors("source")
                worker.stop()
        finally:
            end_quietly(worker.process)
        brokers.check_log(suite, broker)
    suite.finish()


if __name__ == "__main__":
    main()
