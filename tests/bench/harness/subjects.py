"""The brokers that are measured, each as its own people would run it: Strandline as it ships, Apache Kafka with Kafka's own JVM options."""

import os
import shutil

from broker import TOOLS, end_quietly
from kafka_peer import Kafka
from strandline import Strandline, binary

# What Kafka's own start script gives the JVM, with the 1 GiB heap that it gives a broker.
KAFKA_JVM = ("-server -Xms1g -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 "
             "-XX:+ExplicitGCInvokesConcurrent -XX:MaxInlineLevel=15 -Djava.awt.headless=true")
# What Kafka's own server.properties sets beside the defaults; the last one only lets the files of a deleted topic go at once.
# Its thread that deletes the folders of dropped topics first runs after 30 s by default: their pages would burden what comes next.
KAFKA_SETTINGS = {"num.network.threads": "3", "num.io.threads": "8", "socket.send.buffer.bytes": "102400",
                  "socket.receive.buffer.bytes": "102400", "log.segment.delete.delay.ms": "200",
                  "log.initial.task.delay.ms": "500"}


class StrandlineSubject(Strandline):
    """Strandline with its defaults: none of the short intervals that the suites ask for; and what `--set` asks for."""

    asked: dict = {}

    def command(self):
        settings = {"listeners": f"PLAINTEXT://127.0.0.1:{self.port}", "strandline.http.listener": self.http,
                    "strandline.data.dir": str(self.dir / "data"), **self.settings, **self.asked}
        return [binary(), "server", *(part for name, value in settings.items() for part in ("--set", f"{name}={value}"))]


class KafkaSubject(Kafka):
    def environment(self):
        return {**super().environment(), "KAFKA_HEAP": "1g", "KAFKA_JVM": KAFKA_JVM}

    def __init__(self, settings=None, env=None, data_dir=None):
        super().__init__({**KAFKA_SETTINGS, **(settings or {})}, env, data_dir)


SUBJECTS = {"strandline": StrandlineSubject, "kafka": KafkaSubject}


def make(kind, folder, settings=None, env=None):
    """A broker with an empty data directory below `folder`; not started."""
    place = folder / kind
    shutil.rmtree(place, ignore_errors=True)
    return SUBJECTS[kind](settings=settings, env=env, data_dir=place)


def discard(broker):
    """Ends a broker and removes what it left."""
    if broker.running:
        end_quietly(broker.process, timeout=20)
    broker.close()
    shutil.rmtree(broker.dir, ignore_errors=True)
    broker.log_path.unlink(missing_ok=True)


def versions():
    """What is measured and with what."""
    jar = next((TOOLS / "kafka/lib").glob("kafka_2.13-*.jar"), None)
    return {"strandline": os.popen(f"{binary()} --version").read().strip(),
            "kafka": jar.stem.removeprefix("kafka_2.13-") if jar else None,
            "java": os.popen("java -version 2>&1").readline().strip(),
            "librdkafka": os.popen(f"{TOOLS}/bin/bench-load version 2>&1").read().strip()}
