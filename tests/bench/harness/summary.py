"""From single runs to medians, ratios and verdicts."""

import statistics

from .goals import GOALS
from .metrics import METRICS

ABSURD_CPU_S_PER_GB = 20
NOISY_SHARE = 0.10


def spread(results, subject, scenario, metric):
    """{median, min, max} over the rounds, or None."""
    values = [each["metrics"][metric] for each in results
              if (each["subject"], each["scenario"]) == (subject, scenario) and metric in each["metrics"]]
    return {"median": statistics.median(values), "min": min(values), "max": max(values)} if values else None


def judge(goal, results, ours):
    """(value that the goal is about, verdict)."""
    if goal.against == "value":
        value = ours["median"]
    else:
        other, _, mode = goal.against.partition(":")
        if other == "scenario":
            other = "strandline"
        theirs = spread(results, other, mode or goal.scenario, goal.metric)
        if theirs is None or theirs["median"] == 0:
            return None, f"no {mode or other} in this run"
        value = ours["median"] / theirs["median"]
    return value, "met" if goal.met(value) else "missed"


def summarize(results):
    """One row per scenario and figure, in the order of the runs and of METRICS."""
    rows = []
    scenarios = dict.fromkeys(each["scenario"] for each in results if each["subject"] != "floor")
    for scenario in scenarios:
        for metric in METRICS:
            ours = spread(results, "strandline", scenario, metric)
            theirs = spread(results, "kafka", scenario, metric)
            if ours is None and theirs is None:
                continue
            goals = []
            for goal in GOALS:
                if ours and (goal.scenario, goal.metric) == (scenario, metric):
                    value, verdict = judge(goal, results, ours)
                    goals.append({"goal": goal.text(), "value": value, "verdict": verdict})
            ratio = ours["median"] / theirs["median"] if ours and theirs and theirs["median"] else None
            rows.append({"scenario": scenario, "metric": metric, "strandline": ours, "kafka": theirs, "ratio": ratio, "goals": goals})
    return rows


def floor_rows(results):
    modes = dict.fromkeys(each["scenario"] for each in results if each["subject"] == "floor")
    return [(mode, spread(results, "floor", mode, "cpu_s_per_gb"), spread(results, "floor", mode, "mb_per_s")) for mode in modes]


def absurd(results):
    """Runs of ours whose CPU per GB is no measurement but a fault. A cold Kafka needs as much for the tiny sizes of a smoke."""
    return [f"{each['subject']} {each['scenario']}: {value:.1f} CPU s/GB" for each in results
            if each["subject"] == "strandline" and (value := each["metrics"].get("cpu_s_per_gb", 0)) > ABSURD_CPU_S_PER_GB]


def noise(results):
    """Highest share of the machine that went to other processes during a measurement."""
    return max((each["metrics"].get("foreign_share", 0.0) for each in results), default=0.0)
