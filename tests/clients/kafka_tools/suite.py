"""Kafka's command-line tools run unchanged against the broker."""

import argparse
import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "lib"))

import brokers  # noqa: E402
from checks import Suite, equal, require, wait_until  # noqa: E402
from kafka_tools import tool  # noqa: E402
from remote import Remote  # noqa: E402


class Tools:
    def __init__(self, suite, broker, folder):
        self.suite, self.server, self.folder = suite, ("--bootstrap-server", broker.bootstrap), folder

    def topics(self, *arguments, **options):
        return tool("TopicCommand", *self.server, *arguments, **options)

    def configs(self, *arguments, **options):
        return tool("ConfigCommand", *self.server, *arguments, **options)

    def groups(self, *arguments, **options):
        return tool("ConsumerGroupCommand", *self.server, *arguments, **options)

    def get_offsets(self, time, topic="tools"):
        lines = tool("GetOffsetShell", *self.server, "--topic", topic, "--time", time).split()
        return [int(each.rsplit(":", 1)[1]) for each in sorted(lines) if each.startswith(f"{topic}:") and each.rsplit(":", 1)[1]]

    def consume(self, *arguments):
        return tool("ConsoleConsumer", *self.server, "--timeout-ms", 20000, *arguments)

    def run(self):
        check = self.suite.check
        for name, body in (
                ("kafka-topics: create, list, describe", self.create),
                ("kafka-topics: alter partitions, delete", self.alter),
                ("kafka-topics: what is refused", self.refused),
                ("kafka-console-producer and -consumer", self.console),
                ("kafka-console-consumer: group, formatter properties", self.console_group),
                ("kafka-get-offsets", self.offsets),
                ("kafka-consumer-groups: list, describe", self.describe_groups),
                ("kafka-consumer-groups: reset-offsets, delete-offsets, delete", self.reset_groups),
                ("kafka-configs: topic", self.topic_configs),
                ("kafka-configs: broker", self.broker_configs),
                ("kafka-delete-records", self.delete_records),
                ("kafka-log-dirs", self.log_dirs),
                ("kafka-broker-api-versions", self.api_versions)):
            with check(name):
                body()

    def create(self):
        said = self.topics("--create", "--topic", "tools", "--partitions", 3, "--replication-factor", 1, "--config", "retention.ms=-1")
        require("Created topic tools" in said, said)
        wait_until(lambda: "tools" in self.topics("--list").split(), "the topic in the list", 20)
        said = self.topics("--describe", "--topic", "tools")
        require("PartitionCount: 3" in said and "ReplicationFactor: 1" in said and "retention.ms=-1" in said, said)
        equal(len(re.findall(r"Partition: \d+\s+Leader: \d+\s+Replicas: \d+\s+Isr: \d+", said)), 3, "partitions with a leader")
        equal(self.topics("--describe", "--unavailable-partitions").strip(), "", "unavailable partitions")
        equal(self.topics("--describe", "--under-replicated-partitions").strip(), "", "under-replicated partitions")

    def alter(self):
        self.topics("--create", "--topic", "altered")
        self.topics("--alter", "--topic", "altered", "--partitions", 6)
        wait_until(lambda: "PartitionCount: 6" in self.topics("--describe", "--topic", "altered"), "six partitions", 20)
        self.topics("--delete", "--topic", "altered")
        wait_until(lambda: "altered" not in self.topics("--list").split(), "the topic to be gone", 20)
        require("already exists" not in self.topics("--create", "--if-not-exists", "--topic", "tools"), "--if-not-exists complained")

    def refused(self):
        said = self.topics("--create", "--topic", "tools", may_fail=True)
        require("already exists" in said, said)
        said = self.topics("--create", "--topic", "bad", "--config", "foo=bar", may_fail=True)
        require("InvalidConfiguration" in said or "nknown topic config" in said, said)
        said = self.topics("--create", "--topic", "bad", "--replication-factor", 3, may_fail=True)
        require("ReplicationFactor" in said or "eplication factor" in said, said)
        require("bad" not in self.topics("--list").split(), "a refused topic exists")

    def console(self):
        lines = [f"key{n}\tvalue {n}" for n in range(300)]
        tool("ConsoleProducer", *self.server, "--topic", "tools", "--reader-property", "parse.key=true", "--compression-codec", "snappy",
             input="\n".join(lines) + "\n")
        said = self.consume("--topic", "tools", "--from-beginning", "--max-messages", 300, "--formatter-property", "print.key=true")
        equal(sorted(line for line in said.splitlines() if line.startswith("key")), sorted(lines), "lines read back")

    def console_group(self):
        said = self.consume("--topic", "tools", "--group", "shell", "--from-beginning", "--max-messages", 300,
                            "--formatter-property", "print.partition=true", "--formatter-property", "print.offset=true",
                            "--formatter-property", "print.timestamp=true", "--formatter-property", "print.headers=true")
        rows = [line for line in said.splitlines() if line.startswith("CreateTime:")]
        equal(len(rows), 300, "records with their metadata")
        require(all(re.match(r"CreateTime:\d{13}\tPartition:[0-2]\tOffset:\d+\tNO_HEADERS\tvalue \d+$", row) for row in rows), rows[0])

    def offsets(self):
        equal(self.get_offsets(-2), [0, 0, 0], "earliest")
        equal(sum(self.get_offsets(-1)), 300, "records by the latest offsets")
        equal(self.get_offsets("earliest"), [0, 0, 0], "earliest by name")
        equal(self.get_offsets("0"), [0, 0, 0], "by time")
        equal(self.get_offsets("earliest-local"), [0, 0, 0], "earliest local")
        require(max(self.get_offsets("max-timestamp")) >= 0, "maximum timestamp")
        self.get_offsets("latest-tiered")

    def describe_groups(self):
        require("shell" in self.groups("--list").split(), "the group in the list")
        said = self.groups("--describe", "--group", "shell")
        rows = re.findall(r"^shell\s+tools\s+(\d)\s+(\d+)\s+(\d+)\s+(\d+)", said, re.MULTILINE)
        equal(sum(int(row[1]) for row in rows), 300, f"committed offsets in\n{said}\n")
        equal(sum(int(row[3]) for row in rows), 0, "lag")
        said = self.groups("--describe", "--group", "shell", "--state")
        require(re.search(r"^shell\s+.*Empty\s+0", said, re.MULTILINE), said)
        self.groups("--describe", "--group", "shell", "--members")
        said = self.groups("--list", "--state")
        require(re.search(r"^shell\s+.*Empty", said, re.MULTILINE), said)

    def reset_groups(self):
        self.groups("--reset-offsets", "--group", "shell", "--topic", "tools", "--to-earliest", "--execute")
        rows = re.findall(r"^shell\s+tools\s+\d\s+(\d+)\s+\d+\s+(\d+)", self.groups("--describe", "--group", "shell"), re.MULTILINE)
        equal((sum(int(row[0]) for row in rows), sum(int(row[1]) for row in rows)), (0, 300), "offsets and lag after the reset")
        self.groups("--reset-offsets", "--group", "shell", "--topic", "tools:0", "--shift-by", 5, "--execute")
        self.groups("--reset-offsets", "--group", "shell", "--topic", "tools:1", "--to-datetime", "2020-01-01T00:00:00.000", "--execute")
        require("Successful" in self.groups("--delete-offsets", "--group", "shell", "--topic", "tools:2"), "delete-offsets")
        said = self.groups("--delete", "--group", "shell")
        require("success" in said, said)
        require("shell" not in self.groups("--list").split(), "the deleted group is in the list")

    def topic_configs(self):
        entity = ("--entity-type", "topics", "--entity-name", "tools")
        self.configs("--alter", *entity, "--add-config", "max.message.bytes=123456,segment.bytes=2097152")
        said = wait_until(lambda: (lambda text: text if "max.message.bytes=123456" in text else None)(self.configs("--describe", *entity)), "the new values", 20)
        require("segment.bytes=2097152" in said and "DYNAMIC_TOPIC_CONFIG" in said, said)
        self.configs("--alter", *entity, "--delete-config", "segment.bytes")
        wait_until(lambda: "segment.bytes=2097152" not in self.configs("--describe", *entity), "the default again", 20)
        said = self.configs("--alter", *entity, "--add-config", "cleanup.policy=banana", may_fail=True)
        require("banana" in said and "Completed" not in said, said)
        require("retention.bytes=-1" in self.configs("--describe", "--all", *entity), "describe --all")

    def broker_configs(self):
        broker_id = re.search(r"\(id: (\d+) ", tool("BrokerApiVersionsCommand", *self.server))[1]
        said = self.configs("--describe", "--all", "--entity-type", "brokers", "--entity-name", broker_id)
        require("num.partitions=4" in said and "STATIC_BROKER_CONFIG" in said, said[-3000:])

    def delete_records(self):
        ends = self.get_offsets(-1)
        partition = max(range(3), key=lambda each: ends[each])
        path = Path(self.folder) / "delete.json"
        path.write_text(f'{{"partitions": [{{"topic": "tools", "partition": {partition}, "offset": {ends[partition] // 2}}}], "version": 1}}')
        said = tool("DeleteRecordsCommand", *self.server, "--offset-json-file", path)
        require(f"low_watermark: {ends[partition] // 2}" in said, said)
        equal(self.get_offsets(-2)[partition], ends[partition] // 2, "earliest")
        said = self.consume("--topic", "tools", "--from-beginning", "--max-messages", 300 - ends[partition] // 2)
        equal(len([line for line in said.splitlines() if line.startswith("value")]), 300 - ends[partition] // 2, "records left")

    def log_dirs(self):
        said = tool("LogDirsCommand", *self.server, "--describe", "--topic-list", "tools")
        require('"partition":"tools-0"' in said and '"error":null' in said, said)

    def api_versions(self):
        said = tool("BrokerApiVersionsCommand", *self.server)
        require(re.search(r"Produce\(0\): 0 to \d+", said) and re.search(r"Fetch\(1\): \d+ to \d+", said), said)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--bootstrap")
    chosen = options.parse_args()
    suite = Suite("kafka-tools")
    broker = Remote(chosen.bootstrap) if chosen.bootstrap else brokers.make()
    with suite.story(), broker, tempfile.TemporaryDirectory() as folder:
        Tools(suite, broker, folder).run()
        brokers.check_log(suite, broker)
    suite.finish()


if __name__ == "__main__":
    main()
