"""What a scenario is."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Scenario:
    name: str
    what: str
    run: Callable                                # (bench, broker) -> metrics, or (bench, kind) -> metrics when it starts brokers itself
    shares_broker: bool = True                   # runs on the warm broker that all hot scenarios of a round share
    subjects: tuple = ("strandline", "kafka")
    by_default: bool = True                      # else only with --all, or when it is named


def hot_metrics(span, found, records_bytes=None):
    """The figures that every measurement of moved bytes has."""
    gb = found["bytes"] / 1e9
    return {
        "mb_per_s": found["bytes"] / 1e6 / found["seconds"],
        "cpu_s_per_gb": span.cpu_s / gb,
        "cpu_s_per_mrec": span.cpu_s / (found["messages"] / 1e6),
        # counted in ticks, so short measurements have none
        **({"system_share": min(1.0, span.system_s / span.cpu_s)} if span.cpu_s > 0.2 else {}),
        "peak_mib": span.peak_bytes / 2**20,
        "client_cpu_s_per_gb": found["client_cpu_s"] / gb,
        "foreign_share": span.foreign_share(found["client_cpu_s"]),
    }
