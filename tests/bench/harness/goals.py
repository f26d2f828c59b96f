"""What is to be reached, as the project's issues state it. A goal that is missed stays here."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    scenario: str
    metric: str
    sign: str               # "≤" or "≥"
    limit: float
    against: str = "value"  # value; kafka: ratio to Kafka in the same run; floor:MODE: ratio to that floor

    def text(self):
        of = {"value": "", "kafka": " × Kafka"}.get(self.against, f" × floor ({self.against.partition(':')[2]})")
        return f"{self.sign} {self.limit:g}{of}"

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
    *_hot("catch-up-x1", 0.60, None, ("memory", 1.5)),
    *_hot("catch-up-x4", 0.40),
    *_hot("tail-consume-x1", 0.60),
    *_hot("tail-consume-x4", 0.40),
    *_hot("tail-consume-x16", 0.30),
    Goal("cold-replay-file", "of_loop", "≥", 0.7),
    Goal("cold-replay-s3", "of_loop", "≥", 0.7),
    Goal("start-up", "first_ack_s", "≤", 0.3),
    Goal("start-up", "first_ack_s", "≤", 0.15),
    Goal("start-up", "first_ready_s", "≤", 0.06),
    Goal("idle", "idle_mib", "≤", 40),
    Goal("idle", "idle_mib", "≤", 20),
)
