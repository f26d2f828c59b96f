"""One client's whole story: create, every codec, groups, offsets by time, and replay of hot and cold data at several fetch sizes.

    suite.py CLIENT [--bootstrap HOST:PORT [--http HOST:PORT]]

Without --bootstrap a fresh broker is started (STRANDLINE_TEST_BROKER chooses which). A running broker without --http, or an Apache
Kafka without tiered storage, has no cold data: the cold checks are then left out.
"""

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lib"))

import brokers  # noqa: E402
import ledger  # noqa: E402
import logfile  # noqa: E402
import wire  # noqa: E402
from checks import Suite, equal, require, wait_until  # noqa: E402
from clients import COMMANDS, Client  # noqa: E402
from remote import Remote  # noqa: E402

PER_CODEC = 400
REPLAY = 12000  # 12 MB of values, with every codec; more than six segments of 1 MiB
COLD = {"segment.bytes": "1048576", "retention.ms": "-1", "local.retention.ms": "1000", "remote.storage.enable": "true"}
HOT = {"segment.bytes": "1048576", "retention.ms": "-1"}


class Story:
    def __init__(self, suite, broker, client, folder):
        self.suite, self.broker, self.client, self.folder = suite, broker, client, folder
        # kcat says neither timestamps nor headers per record, and creates topics only by producing
        self.fields = ("key", "value") if client.plain else ("timestamp", "key", "value", "headers")

    def file(self, name):
        return ledger.scratch(self.folder, name)

    def create(self, topic, partitions, configs):
        """For clients that cannot set configs the harness does it."""
        if self.client.plain:
            code, message = wire.create_topic(self.broker.bootstrap, topic, partitions, configs)
            equal(code, 0, f"create {topic} ({message})")
        else:
            self.client.create(topic, partitions, **{name.replace(".", "_"): value for name, value in configs.items()})

    def consume(self, topic, group, count, sizes=(None, None)):
        path = self.file("consumed.json")
        self.client.consume(topic, group, path, count, *sizes)
        return ledger.read(path)

    def run(self, cold):
        check = self.suite.check
        with check("create topic", needed=True):
            self.client.create("made", 4)
            for partition in range(4):
                wait_until(lambda: wire.list_offset(self.broker.bootstrap, "made", partition, wire.LATEST) == 0, f"partition {partition}", 10)
        for codec in ledger.CODECS:
            with check(f"produce with {codec}, consume by group"):
                self.codec(codec)
        with check("resume after commit"):
            self.resume()
        with check("resume after commit, many partitions at once"):
            self.resume_small()
        with check("replay hot: produce", needed=True):
            sent = self.fill("hot", HOT)
        self.replays("hot", sent)
        if cold:
            with check("replay cold: produce", needed=True):
                sent = self.fill("cold", COLD)
            with check("replay cold: tiered and locally gone", needed=True):
                ((local, end),) = self.broker.wait_cold("cold")
                require(local > REPLAY // 2, f"only {local} of {end} records are cold")
            self.replays("cold", sent)

    def codec(self, codec):
        topic = f"codec-{codec}"
        sent = ledger.rows(0, PER_CODEC)
        if self.client.plain:
            sent = [{**row, "headers": [["h", "1"], ["empty", ""]]} for row in sent]
        self.create(topic, 1, {"retention.ms": "-1"})
        self.client.produce(topic, codec, ledger.write(self.file("rows.json"), sent))
        fields = ("key", "value", "headers") if self.client.plain else self.fields
        ledger.compare(self.consume(topic, f"group-{codec}", PER_CODEC), sent, codec, fields)
        stored = logfile.codecs(self.broker, topic)
        if stored is not None:
            # a batch that a codec does not make smaller is sent plain by some clients
            require(codec in stored and stored <= {codec, "none"}, f"produced with {codec}, but the log holds {stored}")

    def resume(self):
        """A second consumer goes on exactly where the first one committed."""
        sent = ledger.rows(0, 1000, partitions=3)
        self.create("resume", 3, {"retention.ms": "-1"})
        self.client.produce("resume", "lz4", ledger.write(self.file("rows.json"), sent))
        first = self.consume("resume", "resumes", 300)
        second = self.consume("resume", "resumes", 700)
        equal(len(first), 300, "records of the first consumer")
        ledger.compare(first + second, sent, "both consumers", self.fields)

    def resume_small(self):
        """One record after the other, each by a new instance: no gap and no repetition."""
        sent = ledger.rows(0, 6, partitions=2)
        self.create("steps", 2, {"retention.ms": "-1"})
        self.client.produce("steps", "none", ledger.write(self.file("rows.json"), sent))
        got = [row for count in (1, 2, 3) for row in self.consume("steps", "steps", count)]
        ledger.compare(got, sent, "three consumers", self.fields)

    def fill(self, topic, configs):
        """REPLAY records in five stretches, one per codec, so that segments hold different batches."""
        self.create(topic, 1, configs)
        sent = ledger.rows(0, REPLAY)
        step = REPLAY // len(ledger.CODECS)
        for index, codec in enumerate(ledger.CODECS):
            self.client.produce(topic, codec, ledger.write(self.file("rows.json"), sent[index * step:(index + 1) * step]))
        return sent

    def replays(self, topic, sent):
        for size, sizes in ledger.FETCH_SIZES.items():
            with self.suite.check(f"replay {topic}: fetch {size}"):
                got = self.consume(topic, f"replay-{topic}-{size.replace(' ', '-')}", REPLAY, sizes)
                ledger.compare(got, sent, f"replay at {size}", self.fields)
        with self.suite.check(f"offsets by time: {topic}"):
            self.offsets(topic)

    def offsets(self, topic):
        if self.client.plain:
            # the broker's clock made the timestamps: ask for those that were read
            got = self.consume(topic, f"times-{topic}", REPLAY)
            probes = [0, 1, 3999, REPLAY - 1]
            asked = [got[n]["timestamp"] for n in probes]
            expected = [next(row["offset"] for row in got if row["timestamp"] >= each) for each in asked]
            beyond = got[-1]["timestamp"] + 1
            answer = self.client.offsets(topic, 0, -2, -1, 0, *asked, beyond)
            require(answer[-1] in (None, REPLAY), f"a time beyond the end gave {answer[-1]}")
            equal(answer[:-1], [0, REPLAY, 0, *expected], "offsets by time")
            return
        probes = [0, 1, 2, 2399, 2400, 3999, 5000, REPLAY - 1]
        asked = [ledger.timestamp(n) for n in probes] + [ledger.timestamp(n) - 1 for n in probes]
        answer = self.client.offsets(topic, 0, -2, -1, *asked, 0, ledger.timestamp(REPLAY))
        # kafkajs cannot tell "none" from the end, and says null for both
        equal(answer, [0, REPLAY, *probes, *probes, 0, None], "offsets by time")


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("client", choices=sorted(COMMANDS))
    options.add_argument("--bootstrap")
    options.add_argument("--http")
    options.add_argument("--no-cold", action="store_true")
    chosen = options.parse_args()
    suite = Suite(chosen.client)
    broker = Remote(chosen.bootstrap, chosen.http) if chosen.bootstrap else brokers.make()
    cold = not chosen.no_cold and (bool(chosen.http) if chosen.bootstrap else broker.kind != "kafka")
    with suite.story(), broker, tempfile.TemporaryDirectory() as folder:
        with suite.story():
            Story(suite, broker, Client(chosen.client, broker.bootstrap), folder).run(cold)
        brokers.check_log(suite, broker)
    suite.finish()


if __name__ == "__main__":
    main()
