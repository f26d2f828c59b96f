"""Apache Kafka under the same suites: it is what the suites are checked against."""

import wire
from broker import ROOT, Broker
from confluent_kafka.admin import AdminClient


class Kafka(Broker):
    kind = "kafka"
    tiered = False
    start_timeout = 90

    def command(self):
        script = [str(ROOT / "tests/kafka/kafka.sh"), "server", str(self.port), str(self.dir)]
        return script + (["tiered"] if self.tiered else [])

    def environment(self):
        names = {name: value for name, value in self.settings.items() if not name.startswith("strandline.")}
        return {"CONTROLLER_PORT": str(self.second_port), "KAFKA_EXTRA": "\n".join(f"{k}={v}" for k, v in names.items())}

    def ready(self):
        """It answers before it leads its partitions, and its clients would wait; what asks by hand does not."""
        if 3 not in wire.api_versions(self.bootstrap):
            return False
        topics = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0}).list_topics(timeout=5).topics
        for name, topic in topics.items():
            for partition in topic.partitions:
                wire.list_offset(self.bootstrap, name, partition, wire.LATEST)  # raises while nobody leads it
        return True

    def log_dir(self):
        return self.dir / "logs"

    def complaints(self, allow=()):
        return []


class TieredKafka(Kafka):
    kind = "kafka-tiered"
    tiered = True


