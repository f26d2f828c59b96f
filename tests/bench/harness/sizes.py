"""How much is moved: enough that the start of each run does not matter, or just enough to see that everything works."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """Bytes are those of the record values."""

    warm: int = 1_000_000_000      # through a fresh broker, in and out, before anything is measured: a cold JVM costs three times as much
    hot: int = 1_000_000_000       # produced or read in one measurement
    small: int = 400_000_000       # the same in records of 100 bytes
    tail: int = 500_000_000        # produced while consumers follow
    tail_rate: int = 100_000_000   # per second
    cold: int = 1_200_000_000      # tiered, then replayed
    cold_segment: int = 16 << 20
    restart: int = 10_000_000_000  # in the logs of a broker that is started again
    floor: int = 1_000_000_000
    starts: int = 5
    idle_s: float = 3.0
    latency_s: int = 15            # of produces at fixed times, after a third of that at the same rate
    latency_rate: int = 10_000_000
    mixed_rate: int = 200_000_000  # per second, produced and read beside: about half of what two cores take from Kafka with both
    partitions_scale: int = 1      # the numbers of idle partitions and connections are divided by it


FULL = Sizes()
SMOKE = Sizes(warm=8_000_000, hot=32_000_000, small=8_000_000, tail=16_000_000, tail_rate=32_000_000, cold=64_000_000, cold_segment=1 << 20, restart=64_000_000, floor=64_000_000,
              starts=1, idle_s=0.5, latency_s=2, latency_rate=1_000_000, mixed_rate=16_000_000, partitions_scale=50)
