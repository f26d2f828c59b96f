"""Consumers that follow a producer of a steady rate; what they cost is what the broker uses beyond the same producing without them."""

from .. import clients
from .base import Scenario, hot_metrics


def tail(consumers):
    name = f"tail-consume-x{consumers}"

    def run(bench, broker):
        topic, sizes = bench.fresh_topic(name), bench.sizes
        messages = sizes.tail // 1024
        clients.create_hot(broker, topic, 6)
        with bench.measured(broker) as alone:
            clients.produce(broker, topic, sizes.tail, partitions=6, rate=sizes.tail_rate)
        with bench.measured(broker, name) as span:
            readers = clients.Load("consume", broker, topic, clients.limit_for(sizes.tail * consumers), size=1024, partitions=6,
                                   consumers=consumers, messages=messages, **{"from": "end"})
            readers.wait_ready()
            sent = clients.produce(broker, topic, sizes.tail, partitions=6, rate=sizes.tail_rate)
            found = readers.result()
        clients.delete(broker, topic)
        metrics = hot_metrics(span, found)
        both_cpu_s = found["client_cpu_s"] + sent["client_cpu_s"]
        metrics.update({
            "cpu_s_per_gb": max(0.0, span.cpu_s - alone.cpu_s) / (found["bytes"] / 1e9),
            "cpu_s_per_mrec": max(0.0, span.cpu_s - alone.cpu_s) / (found["messages"] / 1e6),
            "with_produce_cpu_s_per_gb": span.cpu_s / (sent["bytes"] / 1e9),
            "lag_s": max(0.0, found["ended_at"] - sent["ended_at"]),
            "foreign_share": span.foreign_share(both_cpu_s),
        })
        return metrics

    return Scenario(name, f"{consumers} consumer(s) at the tail of a steady producer (1 KiB, 6 partitions); CPU is what they add to it, per GB read", run)


SCENARIOS = (tail(1), tail(4), tail(16))
