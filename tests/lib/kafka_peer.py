"""Apache Kafka under the same suites: it is what the suites are checked against."""

import wire
from broker import ROOT, Broker


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
        return 3 in wire.api_versions(self.bootstrap)

    def log_dir(self):
        return self.dir / "logs"

    def complaints(self, allow=()):
        return []


class TieredKafka(Kafka):
    kind = "kafka-tiered"
    tiered = True


