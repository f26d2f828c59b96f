"""The record in docs/benchmarks/: for each recorded run its table and its data, and one line in HISTORY.md."""

import json

from broker import ROOT

from .metrics import form

FOLDER = ROOT / "docs/benchmarks"
HEAD = """# History

One line for each recorded run (`cargo xtask bench … --record`); figures are medians of Strandline, in brackets the ratio to Kafka in
the same run. CPU is broker CPU seconds per GB.

| run | produce-6p MB/s | CPU | produce-1p MB/s | CPU | catch-up-x1 CPU | tail-consume-x1 CPU | cold-replay-file ÷ loop | first record, s | idle MiB |
|---|---|---|---|---|---|---|---|---|---|
"""
LINE = (("produce-6p", "mb_per_s"), ("produce-6p", "cpu_s_per_gb"), ("produce-1p", "mb_per_s"), ("produce-1p", "cpu_s_per_gb"),
        ("catch-up-x1", "cpu_s_per_gb"), ("tail-consume-x1", "cpu_s_per_gb"), ("cold-replay-file", "of_loop"),
        ("start-up", "first_ack_s"), ("idle", "idle_mib"))


def cell(document, scenario, metric):
    for row in document["summary"]:
        if (row["scenario"], row["metric"]) == (scenario, metric) and row["strandline"]:
            ratio = f" ({row['ratio']:.2f})" if row["ratio"] is not None else ""
            return form(metric, row["strandline"]["median"]) + ratio
    return ""


def page(document, text):
    machine, versions = document["machine"], document["versions"]
    return "\n".join((
        f"# {document['when']}, commit {document['commit']}", "",
        f"Machine: {machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}, kernel {machine['kernel']}, "
        f"{machine['file_system']}.", "",
        "Versions: " + ", ".join(f"{name} {value}" for name, value in versions.items() if value) + ".", "",
        f"Command: `{document['command']}`", "", text, ""))


def record(document, text):
    """Writes the run down; returns the file of its table."""
    (FOLDER / "runs").mkdir(parents=True, exist_ok=True)
    name = f"{document['when'].replace(':', '').replace('-', '')}-{document['commit'].rstrip('+')}"
    (FOLDER / "runs" / f"{name}.json").write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    table = FOLDER / "runs" / f"{name}.md"
    table.write_text(page(document, text))
    history = FOLDER / "HISTORY.md"
    before = history.read_text() if history.exists() else HEAD
    cells = " | ".join(cell(document, *each) for each in LINE)
    history.write_text(before + f"| [{document['when']}](runs/{name}.md) | {cells} |\n")
    return table.relative_to(ROOT)
