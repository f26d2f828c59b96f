"""A Kafka Streams word count with exactly_once_v2 is killed and restarted in a loop, and so is the broker; its output is exact."""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "clients"))

import brokers  # noqa: E402
import load  # noqa: E402
from broker import die_with_parent  # noqa: E402
from checks import Failed, Suite, equal, require, wait_until  # noqa: E402
from clients import JAVA  # noqa: E402
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition  # noqa: E402

PARTITIONS = 3
WORDS = ["strand", "line", "tide", "shore", "wave", "moon", "sand", "shell", "foam", "gull"]
SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "transaction.state.log.num.partitions": "4",
    "group.min.session.timeout.ms": "1000",
    # compaction of the changelog while the application runs
    "log.cleaner.backoff.ms": "500",
}


class Application:
    def __init__(self, broker, folder, number):
        self.broker, self.state, self.process = broker, Path(folder) / f"state-{number}", None
        self.log = Path(folder) / f"application-{number}.log"

    def start(self):
        command = [*JAVA, "WordCount", self.broker.bootstrap, "words", "input", "output", str(self.state)]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent)

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed("the application does not stop") from None


def read(broker, topic, partitions, decode):
    """Every committed (key, value), partition by partition, up to the last stable offset."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "judge", "isolation.level": "read_committed", "log_level": 0,
                         "enable.partition.eof": True, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
    found, waiting, deadline = {p: [] for p in range(partitions)}, set(range(partitions)), time.monotonic() + 60
    while waiting:
        require(time.monotonic() < deadline, f"{topic}: partitions {waiting} have no end")
        message = consumer.poll(1.0)
        if message is None:
            continue
        if not message.error():
            found[message.partition()].append((message.key().decode(), decode(message.value())))
        elif message.error().code() == KafkaError._PARTITION_EOF:
            waiting.discard(message.partition())
        else:
            raise KafkaException(message.error())
    consumer.close()
    return found


def counts(broker):
    return read(broker, "output", PARTITIONS, lambda value: int.from_bytes(value, "big"))


def judge(found, expected):
    """Of each word every count from 1 to its end, once and in order."""
    seen = {}
    for rows in found.values():
        for word, count in rows:
            seen.setdefault(word, []).append(count)
    for word, total in expected.items():
        got = seen.get(word, [])
        if got != list(range(1, total + 1)):
            at = next((i for i, count in enumerate(got) if count != i + 1), len(got))
            raise Failed(f"{word}: {len(got)} counts, expected {total}; the first that is wrong is number {at + 1}: {got[at:at + 3]}")
    equal(sorted(seen), sorted(expected), "words")


def run(suite, broker, folder, kills, choose):
    expected = Counter()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "log_level": 0, "delivery.timeout.ms": 120000})

    def feed(lines):
        for _ in range(lines):
            words = [choose.choice(WORDS) for _ in range(choose.randrange(1, 6))]
            expected.update(words)
            producer.produce("input", value=" ".join(words), partition=choose.randrange(PARTITIONS))
        require(producer.flush(60) == 0, "lines were not sent")

    def caught_up():
        done = sum(len(rows) for rows in counts(broker).values())
        require(done <= sum(expected.values()), f"{done} counts of {sum(expected.values())} words")
        return done == sum(expected.values())

    with suite.check("the application counts words", needed=True):
        for topic in ("input", "output"):
            load.create(broker, topic, PARTITIONS, retention_ms=-1)
        feed(200)
        first, second = Application(broker, folder, 1), Application(broker, folder, 2)
        first.start()
        wait_until(caught_up, "the counts", 90, interval=0.5)
        judge(counts(broker), expected)
    second.start()
    for number in range(kills):
        how = ("an application is killed", "the broker is killed", "both are killed", "an application is stopped")[number % 4]
        with suite.check(f"{number + 1}: {how} in the middle, and the output is exact"):
            feed(200)
            time.sleep(choose.random() * 1.5)  # somewhere in its work
            victim = first if number % 2 else second
            if number % 4 == 3:
                victim.stop()
            elif number % 4 != 1:
                victim.kill()
            if number % 4 in (1, 2):
                broker.kill()
                broker.start()
            feed(100)
            if number % 4 != 1:
                victim.start()
            feed(100)
            wait_until(caught_up, "the counts", 90, interval=0.5)
            judge(counts(broker), expected)
    with suite.check("the applications stop"):
        first.stop()
        second.stop()
    with suite.check("nothing is left open"):
        text = json.dumps([each for each in broker.metrics() if each[0] == "strandline_open_transactions"]) if broker.kind == "strandline" else "[]"
        equal(text, "[]", "open transactions")


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kills", type=int, default=8)
    options.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    chosen = options.parse_args()
    suite = Suite("streams")
    print(f"seed {chosen.seed}", flush=True)
    broker = brokers.make(SETTINGS)
    with suite.story(), broker, tempfile.TemporaryDirectory() as folder:
        run(suite, broker, folder, chosen.kills, random.Random(chosen.seed))
        brokers.check_log(suite, broker)
        for each in Path(folder).glob("application-*.log"):
            if suite.failed:
                print(f"--- {each.name}\n{each.read_text(errors='replace')[-6000:]}", flush=True)
    suite.finish()


if __name__ == "__main__":
    main()
