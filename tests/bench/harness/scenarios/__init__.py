"""The scenarios by name. A later issue adds a line here and a file beside this one."""

from . import cold, hot, start, tail

SCENARIOS = {each.name: each for each in (*hot.SCENARIOS, *tail.SCENARIOS, *cold.SCENARIOS, *start.SCENARIOS)}


def chosen(words):
    """All scenarios, or those whose name is or begins with one of the words."""
    unknown = [word for word in words if not any(name.startswith(word) for name in SCENARIOS)]
    if unknown:
        raise SystemExit(f"no scenario begins with {', '.join(unknown)}; there are: {', '.join(SCENARIOS)}")
    return [each for name, each in SCENARIOS.items() if not words or any(name.startswith(word) for word in words)]
