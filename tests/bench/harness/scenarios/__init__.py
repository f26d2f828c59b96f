"""The scenarios by name. A later issue adds a line here and a file beside this one."""

from . import cold, disk, groups, hot, latency, many, start, tail, transactions, whole_log

SCENARIOS = {each.name: each for each in (*hot.SCENARIOS, *tail.SCENARIOS, *latency.SCENARIOS, *disk.SCENARIOS, *cold.SCENARIOS,
                                          *transactions.SCENARIOS, *groups.SCENARIOS, *whole_log.SCENARIOS, *start.SCENARIOS, *many.SCENARIOS)}


def matches(name, word):
    """A word is a name, or the beginning of names when it is not itself one."""
    return name == word if word in SCENARIOS else name.startswith(word)


def chosen(words, everything=False):
    """The scenarios that the words name; without words those of the usual run, or everything."""
    unknown = [word for word in words if not any(matches(name, word) for name in SCENARIOS)]
    if unknown:
        raise SystemExit(f"no scenario begins with {', '.join(unknown)}; there are: {', '.join(SCENARIOS)}")
    if words:
        return [each for name, each in SCENARIOS.items() if any(matches(name, word) for word in words)]
    return [each for each in SCENARIOS.values() if each.by_default or everything]
