"""The scenarios by name. A later issue adds a line here and a file beside this one."""

from . import cold, hot, start, tail

SCENARIOS = {each.name: each for each in (*hot.SCENARIOS, *tail.SCENARIOS, *cold.SCENARIOS, *start.SCENARIOS)}


def matches(name, word):
    """A word is a name, or the beginning of names when it is not itself one."""
    return name == word if word in SCENARIOS else name.startswith(word)


def chosen(words):
    """The scenarios that the words name; all when there are none."""
    unknown = [word for word in words if not any(matches(name, word) for name in SCENARIOS)]
    if unknown:
        raise SystemExit(f"no scenario begins with {', '.join(unknown)}; there are: {', '.join(SCENARIOS)}")
    return [each for name, each in SCENARIOS.items() if not words or any(matches(name, word) for word in words)]
