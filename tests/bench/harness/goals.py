"""What is to be reached, as the project's issues state it. A goal that is missed stays here."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    scenario: str
    metric: str
    sign: str               # "≤" or "≥"
    limit: float
    against: str = "value"  # value; kafka: ratio to Kafka in the same run; floor:MODE: to that floor; scenario:NAME: to ours

    def text(self):
        of = {"value": "", "kafka": " × Kafka"}.get(self.against, f" × {self.against.replace(':', ' ')}")
        return f"{self.sign} {self.limit:.3g}{of}"

    def met(self, value):
        return value <= self.limit if self.sign == "≤" else value >= self.limit


def _hot(scenario, cpu, speed=None, floor=None):
    found = [Goal(scenario, "cpu_s_per_gb", "≤", cpu, "kafka")]
    if speed:
        found.append(Goal(scenario, "mb_per_s", "≥", speed, "kafka"))
    if floor:
        found.append(Goal(scenario, "cpu_s_per_gb", "≤", floor[1], f"floor:{floor[0]}"))
    return found


GOALS = (
    *_hot("produce-6p", 0.35, 1.5, ("receive", 1.8)),
    Goal("produce-6p", "written_per_byte", "≤", 1.02),
    Goal("produce-6p", "peak_without_tail_mib", "≤", 0.125, "kafka"),
    *_hot("produce-1p", 0.60, 1.3),
    Goal("produce-1p", "mb_per_s", "≥", 200),
    *_hot("produce-100b", 0.35),
    *_hot("produce-lz4", 0.40),
    *_hot("produce-zstd", 0.40),
    # "Nothing gets slower by more than 5 % from 6 to 1,000 partitions, beyond what smaller batches explain": batches of the same size.
    Goal("produce-100p", "cpu_s_per_gb", "≤", 1.05, "scenario:produce-6p-64k"),
    Goal("produce-1000p", "cpu_s_per_gb", "≤", 1.05, "scenario:produce-6p-64k"),
    Goal("produce-1000p-paced", "cpu_s_per_gb", "≤", 1.05, "scenario:produce-6p-paced"),
    *_hot("catch-up-x1", 0.60, None, ("memory", 1.5)),
    *_hot("catch-up-x4", 0.40),
    *_hot("tail-consume-x1", 0.60),
    *_hot("tail-consume-x4", 0.40),
    *_hot("tail-consume-x16", 0.30),
    Goal("latency-10mb", "p99_ms", "≤", 1.5),
    Goal("latency-10mb", "p99_ms", "≤", 1 / 3, "kafka"),
    Goal("latency-10mb", "p999_ms", "≤", 5),
    Goal("latency-10mb", "p999_ms", "≤", 1 / 3, "kafka"),
    *(Goal(f"partitions-{count}", "kib_per_partition", "≤", 4) for count in (1000, 10000, 20000)),
    # "About zero": a thousandth of a core is what a timer each second costs.
    Goal("partitions-10000", "partitions_cpu_share", "≤", 0.005),
    Goal("transactions-100x1k", "overhead", "≤", 0.05),
    Goal("transactions-100x1k", "overhead", "≤", 0.03),
    Goal("compaction", "clean_mb_per_cpu_s", "≥", 150),
    Goal("restarts", "after_stop_s", "≤", 1),
    Goal("restarts", "after_kill_s", "≤", 3),
    Goal("cold-replay-file", "of_loop", "≥", 0.7),
    Goal("cold-replay-s3", "of_loop", "≥", 0.7),
    Goal("start-up", "first_ack_s", "≤", 0.3),
    Goal("start-up", "first_ack_s", "≤", 0.15),
    Goal("start-up", "first_ready_s", "≤", 0.06),
    Goal("idle", "idle_mib", "≤", 40),
    Goal("idle", "idle_mib", "≤", 20),
)
