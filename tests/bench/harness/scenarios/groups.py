"""Consumer groups: how long members take to get their partitions, and what a commit costs."""

import threading
import time

from confluent_kafka import Consumer, TopicPartition

from checks import Failed, wait_until

from .. import clients
from .base import Scenario

MEMBERS, PARTITIONS = 20, 60
COMMITS = 500


def member(broker, group):
    return Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest",
                     "partition.assignment.strategy": "range", "session.timeout.ms": 10_000, "heartbeat.interval.ms": 500})


def gather(members, topic):
    """All members subscribe at once; seconds until each partition has one of them."""
    started = time.monotonic()
    for each in members:
        each.subscribe([topic])

    def is_shared_out():
        for each in members:
            each.poll(0.005)
        owned = [(p.topic, p.partition) for each in members for p in each.assignment()]
        return len(owned) == len(set(owned)) == PARTITIONS and all(each.assignment() for each in members)

    wait_until(is_shared_out, "the partitions to be shared out", 60)
    return time.monotonic() - started


def commit(each, topic, failures):
    """Commits over and over, each when the last one is answered."""
    try:
        mine = each.assignment()[0].partition
        for offset in range(COMMITS):
            each.commit(offsets=[TopicPartition(topic, mine, offset)], asynchronous=False)
    except Exception as error:
        failures.append(error)


def groups(bench, broker):
    topic = bench.fresh_topic("groups")
    clients.create_hot(broker, topic, PARTITIONS)
    members = [member(broker, topic) for _ in range(MEMBERS)]
    try:
        took, failures = gather(members, topic), []
        threads = [threading.Thread(target=commit, args=(each, topic, failures)) for each in members]
        with bench.measured(broker, "groups") as span:
            started = time.monotonic()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            seconds = time.monotonic() - started
        if failures:
            raise Failed(f"a commit: {failures[0]}")
        last = members[0].committed([TopicPartition(topic, p, -1) for p in [members[0].assignment()[0].partition]], timeout=10)[0].offset
        if last != COMMITS - 1:
            raise Failed(f"the last commit was {COMMITS - 1}, the group has {last}")
    finally:
        for each in members:
            each.close()
    clients.delete(broker, topic)
    commits = MEMBERS * COMMITS
    return {"gather_s": took, "commits_per_s": commits / seconds, "cpu_us_per_commit": span.cpu_s / commits * 1e6, "peak_mib": span.peak_bytes / 2**20}


SCENARIOS = (
    Scenario("groups", f"{MEMBERS} members of a classic group share {PARTITIONS} partitions, then each commits {COMMITS} times, one after the other", groups,
             by_default=False),
)
