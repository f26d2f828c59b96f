"""The table that people read."""

from . import summary
from .metrics import form, label
from .scenarios import SCENARIOS

COLUMNS = ("figure", "strandline", "kafka", "ratio", "goal", "verdict")


def span(metric, found):
    if found is None:
        return "–"
    middle = form(metric, found["median"])
    if found["min"] == found["max"]:
        return middle
    return f"{middle} ({form(metric, found['min'])}–{form(metric, found['max'])})"


def verdict(goal):
    return goal["verdict"] if goal["value"] is None else f"{goal['verdict']} ({goal['value']:.3g})"


def row_cells(row):
    """A row, and a row more for each further goal."""
    goals = row["goals"] or [None]
    first = (label(row["metric"]), span(row["metric"], row["strandline"]), span(row["metric"], row["kafka"]),
             "–" if row["ratio"] is None else f"{row['ratio']:.2f}")
    for index, goal in enumerate(goals):
        head = first if index == 0 else ("", "", "", "")
        yield (*head, goal["goal"] if goal else "", verdict(goal) if goal else "")


def table(rows):
    """Markdown that is also readable in a terminal."""
    lines = [COLUMNS, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]

    def line_of(cells):
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths)) + " |"

    return [line_of(COLUMNS), "|" + "|".join("-" * (width + 2) for width in widths) + "|", *map(line_of, rows)]


def how(bench):
    lines = [f"Medians of {bench.rounds} round(s) (lowest–highest). Brokers take turns, each warmed with {bench.sizes.warm / 1e6:.0f} MB in and out."]
    if bench.prime_mib:
        lines.append(f"This machine gives free memory back to a host; {bench.prime_mib} MiB were touched before each measurement.")
    return lines


def render(bench):
    """All of it: floor, one table per scenario, noise, failures."""
    results, lines = bench.results, how(bench)
    floors = summary.floor_rows(results)
    if floors:
        lines += ["", "Floor (loopback, pieces of 128 KiB, no broker): " + " · ".join(
            f"{mode} {span('cpu_s_per_gb', cpu)} CPU s/GB, {span('mb_per_s', speed)} MB/s" for mode, cpu, speed in floors)]
    rows = summary.summarize(results)
    for scenario in dict.fromkeys(row["scenario"] for row in rows):
        lines += ["", f"**{scenario}**: {SCENARIOS[scenario].what}", ""]
        lines += table([cells for row in rows if row["scenario"] == scenario for cells in row_cells(row)])
    share = summary.noise(results)
    if share > summary.NOISY_SHARE:
        lines += ["", f"NOISY: other processes used up to {share:.0%} of the machine while it was measured; speeds and times are too low, "
                      "CPU per GB is somewhat too high."]
    for each in bench.failures:
        lines += ["", f"FAILED: round {each['round'] + 1}, {each['subject']} {each['scenario']}: {each['error'].splitlines()[0][:300]}"]
    return "\n".join(lines)
