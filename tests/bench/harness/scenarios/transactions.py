"""What transactions cost: of 100 records of 1 KiB each, beside the same batches without them (crates/bench, bench-transactions)."""

from checks import Failed, wait_until

from .. import clients
from .base import Scenario, hot_metrics

PARTITIONS = 6
RECORDS, SIZE = 100, 1024
# So many that the round trips of an end hide behind the work of the others.
PRODUCERS = 16
# Of the share of the bytes that one producer alone sends: it waits for each of its requests.
ALONE = 8


def load(bench, broker, name, generation, producers, payload_bytes):
    """Sends the batches; the log must have grown by the records, and by a marker for each transaction."""
    topic = bench.fresh_topic(f"{name}-{generation}")
    clients.create_hot(broker, topic, PARTITIONS)
    options = {"partitions": PARTITIONS, "producers": producers, "records": RECORDS, "size": SIZE, "generation": generation}
    # What the first transaction of a broker costs, its topic above all, is not what this is about.
    clients.Load("transactions", broker, topic, batches=2 * producers, **options).result()
    batches = max(producers, payload_bytes // (RECORDS * SIZE))
    before = sum(clients.end_offsets(broker, topic, PARTITIONS))
    with bench.measured(broker, f"{name}-{generation}" if producers > 1 else None) as span:
        found = clients.Load("transactions", broker, topic, clients.limit_for(payload_bytes), batches=batches, **options).result()
    expected = found["messages"] + found["transactions"]

    def grown():
        return sum(clients.end_offsets(broker, topic, PARTITIONS)) - before

    wait_until(lambda: grown() >= expected, "the markers", 30)
    if grown() > expected + (2 * producers if found["transactions"] else 0):
        raise Failed(f"{topic}: {found['messages']} records and {found['transactions']} markers, the log grew by {grown()}")
    clients.delete(broker, topic)
    return {**hot_metrics(span, found), "retries": found["retries"] / batches, "batches": batches}


def compared(name, generation):
    def run(bench, broker):
        plain = load(bench, broker, name, 0, PRODUCERS, bench.sizes.hot)
        ours = load(bench, broker, name, generation, PRODUCERS, bench.sizes.hot)
        alone_plain = load(bench, broker, name, 0, 1, bench.sizes.hot // ALONE)
        alone = load(bench, broker, name, generation, 1, bench.sizes.hot // ALONE)
        batch_gb = RECORDS * SIZE / 1e9
        return {**{key: value for key, value in ours.items() if key not in ("retries", "batches")},
                "plain_mb_per_s": plain["mb_per_s"], "plain_cpu_s_per_gb": plain["cpu_s_per_gb"],
                "overhead": plain["mb_per_s"] / ours["mb_per_s"] - 1,
                "cpu_us_per_transaction": (ours["cpu_s_per_gb"] - plain["cpu_s_per_gb"]) * batch_gb * 1e6,
                "alone_mb_per_s": alone["mb_per_s"], "alone_plain_mb_per_s": alone_plain["mb_per_s"],
                "alone_overhead": alone_plain["mb_per_s"] / alone["mb_per_s"] - 1,
                "retries_per_transaction": ours["retries"]}

    what = {1: "adding partitions themselves (first generation of the protocol)", 2: "leaving that to the broker (KIP-890)"}[generation]
    return Scenario(name, f"{PRODUCERS} producers with transactions of {RECORDS} records of 1 KiB, {what}; 6 partitions, beside the same batches "
                    "of idempotent producers", run, by_default=False)


SCENARIOS = (compared("transactions-100x1k", 2), compared("transactions-100x1k-v1", 1))
