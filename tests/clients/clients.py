"""The clients by name: how each adapter is started, and what it cannot say."""

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))

from broker import TOOLS  # noqa: E402
from checks import Failed  # noqa: E402

PYTHON = str(TOOLS / "venv/bin/python")
KAFKA_LIB = os.environ.get("STRANDLINE_KAFKA_LIB", str(TOOLS / "kafka/lib"))
JAVA = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        f"-Dlog4j2.configurationFile={HERE.parent / 'kafka/log4j2.properties'}", "-cp", f"{TOOLS / 'java'}:{KAFKA_LIB}/*"]

COMMANDS = {
    "kcat": [PYTHON, str(HERE / "kcat/kcat_client.py")],
    "confluent-kafka": [PYTHON, str(HERE / "python/confluent_client.py")],
    "kafka-python": [PYTHON, str(HERE / "python/kafka_python_client.py")],
    "aiokafka": [PYTHON, str(HERE / "python/aiokafka_client.py")],
    "java": [*JAVA, "Client"],
    "franz-go": [str(TOOLS / "bin/franz-go-client")],
    "kafkajs": ["node", str(HERE / "node/client.js")],
}


class Client:
    """Runs one adapter; a failure shows what it wrote to stderr."""

    def __init__(self, name, bootstrap, timeout=120):
        self.name, self.bootstrap, self.timeout = name, bootstrap, timeout
        # kcat: topics only by auto-creation, one set of headers for a run, the clock's timestamps
        self.plain = name == "kcat"

    def run(self, verb, *arguments):
        command = [*COMMANDS[self.name], self.bootstrap, verb, *map(str, arguments)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=self.timeout, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"{self.name} {verb} {arguments}: no end within {self.timeout} s\n{(error.stderr or b'').decode()[-3000:]}") from None
        if done.returncode:
            raise Failed(f"{self.name} {verb} {arguments}: exit {done.returncode}\n{done.stderr.decode()[-3000:]}")
        return done.stdout.decode()

    def create(self, topic, partitions, **configs):
        self.run("create", topic, partitions, *(f"{name.replace('_', '.')}={value}" for name, value in configs.items()))

    def produce(self, topic, codec, path):
        self.run("produce", topic, codec, path)

    def consume(self, topic, group, path, count, fetch_bytes=None, partition_bytes=None):
        self.run("consume", topic, group, path, count, fetch_bytes or 0, partition_bytes or 0)

    def offsets(self, topic, partition, *timestamps):
        return json.loads(self.run("offsets", topic, partition, *timestamps))
