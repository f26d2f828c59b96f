#!/usr/bin/env python3
"""Measures one broker, alone or side by side with Apache Kafka: cargo xtask bench [scenario…] [--against kafka] [options]."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "lib"), str(Path(__file__).resolve().parent)]

from harness.command_line import main  # noqa: E402  (the paths come first)

if __name__ == "__main__":
    sys.exit(main())
