"""How long a produce takes at a steady rate, from when its record was due (crates/bench, bench-latency), alone and beside other work."""

from .. import clients, late
from .base import Scenario

PARTITIONS = 6
CONNECTIONS = 8


def figures(found, span):
    """Latencies count from the schedule: a stall is paid by every record that was due while it lasted."""
    latency, seconds = found["latency_ms"], found["seconds"]
    return {
        "p50_ms": latency["p50"], "p99_ms": latency["p99"], "p999_ms": latency["p999"], "max_ms": latency["max"],
        "late_p99_ms": found["late_ms"]["p99"], "records_per_request": found["messages"] / found["requests"],
        "driver_cpu_share": found["client_cpu_s"] / seconds, "broker_cpu_share": span.cpu_s / span.seconds,
        "peak_mib": span.peak_bytes / 2**20,
    }


def fixed_times(bench, broker, topic, rate, **options):
    seconds = bench.sizes.latency_s
    return clients.produce_at_fixed_times(broker, topic, seconds, max(1, seconds // 3), partitions=PARTITIONS, rate=rate,
                                         connections=CONNECTIONS, **options)


def of_the_machine(bench):
    """What the same driver finds against a bare loop that writes and answers, a moment before: below that no broker can get here."""
    with clients.Floor(bench.folder / "floor", CONNECTIONS) as floor:
        latency = fixed_times(bench, floor, "floor", bench.sizes.latency_rate).result()["latency_ms"]
    return {"floor_p50_ms": latency["p50"], "floor_p99_ms": latency["p99"], "floor_p999_ms": latency["p999"], "floor_max_ms": latency["max"]}


def alone(bench, broker):
    floor = of_the_machine(bench)
    topic = bench.fresh_topic("latency-10mb")
    clients.create_hot(broker, topic, PARTITIONS)
    before = clients.end_offsets(broker, topic, PARTITIONS)
    with bench.measured(broker, "latency-10mb") as span:
        found = traced(bench, broker, lambda **options: clients.checked(
            broker, topic, PARTITIONS, before, fixed_times(bench, broker, topic, bench.sizes.latency_rate, **options)))
    clients.delete(broker, topic)
    return {**figures(found, span), **floor, "foreign_share": span.foreign_share(found["client_cpu_s"])}


def traced(bench, broker, drive):
    """Drives, and says why records were late if that is asked for."""
    if not bench.late_ms or broker.kind != "strandline":
        return drive()
    with late.Trace(broker.process.pid) as trace:
        found = drive(mark_over_ms=bench.late_ms)
    trace.causes(lambda line: print(f"  {line}", flush=True))
    return found


def mixed(bench, broker):
    """A producer and a consumer at its tail move `mixed_rate`; the driver adds a hundredth of the rate of the other scenario's."""
    sizes = bench.sizes
    bulk, small = bench.fresh_topic("mixed-bulk"), bench.fresh_topic("mixed")
    messages = sizes.mixed_rate * (sizes.latency_s + max(1, sizes.latency_s // 3)) // 1024
    for topic in (bulk, small):
        clients.create_hot(broker, topic, PARTITIONS)
    before = clients.end_offsets(broker, small, PARTITIONS)
    limit = clients.limit_for(messages * 1024)
    with bench.measured(broker, "mixed") as span:
        reader = clients.Load("consume", broker, bulk, limit, size=1024, partitions=PARTITIONS, messages=messages, **{"from": "end"})
        reader.wait_ready()
        writer = clients.Load("produce", broker, bulk, limit, size=1024, partitions=PARTITIONS, messages=messages, rate=sizes.mixed_rate)
        driver = fixed_times(bench, broker, small, sizes.latency_rate // 10)
        found = clients.checked(broker, small, PARTITIONS, before, driver)
        sent, read = writer.result(), reader.result()
    for topic in (bulk, small):
        clients.delete(broker, topic)
    clients_cpu_s = sum(each["client_cpu_s"] for each in (found, sent, read))
    return {"mb_per_s": sent["bytes"] / 1e6 / sent["seconds"], "with_produce_cpu_s_per_gb": span.cpu_s / (sent["bytes"] / 1e9),
            "lag_s": max(0.0, read["ended_at"] - sent["ended_at"]), **figures(found, span), "foreign_share": span.foreign_share(clients_cpu_s)}


SCENARIOS = (
    Scenario("latency-10mb", "records of 1 KiB due at fixed times, 10 MB/s, as by producers with linger 0 on 8 connections; acks=all, 6 partitions", alone),
    Scenario("mixed", "200 MB/s produced and read at the tail, and latency of 1 MB/s due at fixed times beside it (1 KiB, 6 partitions)", mixed,
             by_default=False),
)
