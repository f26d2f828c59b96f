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
    floor: int = 1_000_000_000
    starts: int = 5
    idle_s: float = 3.0


FULL = Sizes()
SMOKE = Sizes(warm=8_000_000, hot=32_000_000, small=8_000_000, tail=16_000_000, tail_rate=32_000_000, cold=64_000_000, cold_segment=1 << 20, floor=64_000_000,
              starts=1, idle_s=1.0)
