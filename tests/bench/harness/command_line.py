"""Options, and what happens in which order."""

import argparse
import datetime
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

from broker import ROOT

from . import accounting, history, machine, report, runner, subjects, summary
from .scenarios import SCENARIOS, chosen
from .sizes import FULL, SMOKE


def options(words):
    parser = argparse.ArgumentParser(prog="cargo xtask bench", description=__doc__.splitlines()[0], formatter_class=argparse.RawTextHelpFormatter,
                                     epilog="scenarios:\n" + "\n".join(f"{' ' if each.by_default else '+'} {each.name:<23} {each.what}" for each in SCENARIOS.values())
                                     + "\n\n+: only with --all, or when it is named")
    parser.add_argument("scenarios", nargs="*", metavar="scenario", help="names, or beginnings of names (those without a +)")
    parser.add_argument("--all", action="store_true", help="every scenario: the whole matrix, most of an hour against Kafka")
    parser.add_argument("--against", choices=("kafka",), help="take turns with Apache Kafka")
    parser.add_argument("--rounds", type=int, help="how often each broker is started and measured (1; 3 with --against)")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes: does everything work? every scenario in less than two minutes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="all single results, and the summary")
    parser.add_argument("--record", action="store_true", help="add the run to docs/benchmarks/")
    parser.add_argument("--dir", type=Path, default=ROOT / "target", help="where the brokers' data goes: choose the device (target/)")
    parser.add_argument("--warm-mb", type=int, help="MB through each fresh broker before it is measured (1000)")
    parser.add_argument("--hot-mb", type=int, help="MB moved in one hot measurement (1000)")
    parser.add_argument("--cold-mb", type=int, help="MB tiered and replayed (1200)")
    parser.add_argument("--keep-pages", action="store_true", help="cold replay: leave the store's files in the page cache")
    parser.add_argument("--prime-mib", type=int, help="free memory to touch before each measurement (3000 where the kernel\n"
                        "gives free memory back to a host, else 0; see docs/benchmarks/README.md)")
    parser.add_argument("--perf", type=Path, metavar="FOLDER", help="profile Strandline in each scenario (perf record, then text)")
    parser.add_argument("--late", type=int, default=0, metavar="MS", help="latency-10mb: say what kept records that took longer (the kernel's trace, as root)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting for Strandline other than its default")
    parser.add_argument("--limit", type=int, help="seconds after which the whole run is ended (180 in a smoke, else 14400)")
    return parser.parse_args(words)


def sizes_of(asked):
    sizes = SMOKE if asked.smoke else FULL
    given = {"warm": asked.warm_mb, "hot": asked.hot_mb, "cold": asked.cold_mb}
    return replace(sizes, **{name: mb * 1_000_000 for name, mb in given.items() if mb})


def prime_mib_of(asked):
    """Touching memory costs seconds, and matters only to a guest whose free pages go to the host."""
    if asked.prime_mib is not None:
        return asked.prime_mib
    return 3000 if machine.gives_memory_back() and not asked.smoke else 0


def without_places(words):
    """The command as anybody can repeat it: where its files went is of this machine only."""
    kept, skip = [], False
    for word in words:
        if skip or word.startswith(("--json=", "--dir=", "--perf=")):
            skip = False
        elif word in ("--json", "--dir", "--perf"):
            skip = True
        else:
            kept.append(word)
    return kept


def document_of(asked, bench, words, folder):
    return {"when": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%MZ"), "commit": machine.commit(),
            "command": " ".join(["cargo xtask bench", *without_places(words)]), "machine": machine.describe(folder), "versions": subjects.versions(),
            "sizes": asdict(bench.sizes), "rounds": bench.rounds, "prime_mib": bench.prime_mib,
            "summary": summary.summarize(bench.results), "runs": bench.results,
            "failures": bench.failures}


def main(words=None):
    asked = options(words)
    scenarios, sizes = chosen(asked.scenarios, asked.all or asked.smoke), sizes_of(asked)
    accounting.limit_run(asked.limit or (180 if asked.smoke else 14400))
    kinds = ("strandline", "kafka") if asked.against else ("strandline",)
    rounds = asked.rounds or (3 if asked.against and not asked.smoke else 1)
    subjects.StrandlineSubject.asked = dict(each.split("=", 1) for each in asked.set)
    with runner.working_folder(asked.dir) as folder:
        bench = runner.Bench(folder, sizes, rounds, kinds, asked.keep_pages, asked.perf, prime_mib_of(asked), asked.late)
        bench.run(scenarios)
        document = document_of(asked, bench, words or sys.argv[1:], folder)
    text = report.render(bench)
    print("\n" + text, flush=True)
    if asked.json:
        asked.json.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    if asked.record:
        print(f"\nrecorded in {history.record(document, text)}")
    absurd = summary.absurd(bench.results)
    for line in absurd:
        print(f"ABSURD: {line}")
    return 1 if bench.failures or absurd else 0
