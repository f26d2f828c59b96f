"""Chooses the broker under test by name: strandline (the product), kafka or kafka-tiered (what the suites are checked against)."""

import os

from checks import require
from kafka_peer import Kafka, TieredKafka
from strandline import Strandline

KINDS = {each.kind: each for each in (Strandline, Kafka, TieredKafka)}


def chosen():
    return os.environ.get("STRANDLINE_TEST_BROKER", "strandline")


def make(settings=None, env=None, data_dir=None, kind=None):
    return KINDS[kind or chosen()](settings=settings, env=env, data_dir=data_dir)


# For suites that damage things on purpose: WARN and ERROR are right there, a panic is not.
ONLY_PANICS = (r"^(?!.*panicked).*\b(WARN|ERROR)\b",)


def check_log(suite, broker, allow=()):
    """The last check of a suite: nothing unexpected in the broker's log."""
    with suite.check("the broker's log holds no unexpected WARN, ERROR or panic"):
        lines = broker.complaints(allow)
        require(not lines, "\n".join(lines[:30]))
    if broker.kind == "strandline" and broker.running:
        with suite.check("the metrics page is one that a scraper takes"):
            problems = broker.metrics_problems()
            require(not problems, "\n".join(problems[:30]))
