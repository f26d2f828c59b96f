"""Kafka's own command-line tools, run as they are."""

import re
import subprocess

from broker import ROOT
from checks import Failed

SCRIPT = str(ROOT / "tests/kafka/kafka.sh")


def tool(name, *arguments, input=None, timeout=90, may_fail=False):
    """Runs a tool by its class name; returns its output (both streams), or raises with it."""
    done = subprocess.run([SCRIPT, name, *map(str, arguments)], input=input, capture_output=True, text=True, timeout=timeout,
                          stdin=None if input is not None else subprocess.DEVNULL)
    output = done.stdout + done.stderr
    if done.returncode and not may_fail:
        raise Failed(f"{name} {' '.join(map(str, arguments))}: exit {done.returncode}\n{output[-2500:]}")
    return output


# What DumpLogSegments prints when something is wrong; it exits with 0 all the same. Of a segment that begins behind offset 0 it says
# "-1 is followed by" its base offset: an artifact of the tool, which it prints for Kafka's own files too.
WRONG = re.compile(r"isvalid: false|Mismatches|is followed by|mismatch|out of order|invalid bytes|[Cc]orrupt|Exception|not equal|"
                   r"larger than|smaller than|Unexpected|Could not|Error", re.MULTILINE)


GAP = re.compile(r"-?\d+ is followed by \d+")


# What it says (seen with Kafka 4.4) of the time index of segments that Kafka itself has cleaned: an entry has another timestamp than the
# greatest of the records that are left. Of ours it must not say so.
CLEANED_BY_KAFKA = re.compile(r"Found timestamp mismatch in :.*\.timeindex")


def dump(files, *options, gaps=False, kafkas=False):
    """DumpLogSegments over files; raises when it prints anything wrong, else returns its lines. `gaps`: offsets may be missing,
    which the tool says and which is right after compaction. `kafkas`: they are of Kafka, in whose cleaned segments it finds fault itself."""
    if not files:
        return []
    lines = tool("DumpLogSegments", *options, "--files", ",".join(str(each) for each in files), timeout=180).splitlines()
    # record lines carry the tests' payload, and what is wrong with a record is said in the batch line or in a line of its own
    artifacts = {f"-1 is followed by {int(path.stem)}" for path in files if path.suffix == ".log"}
    wrong = [line for line in lines if not line.startswith("| offset") and WRONG.search(line) and line.strip() not in artifacts
             and not (gaps and GAP.fullmatch(line.strip())) and not (gaps and kafkas and CLEANED_BY_KAFKA.match(line.strip()))]
    if wrong:
        raise Failed(f"DumpLogSegments {' '.join(options)} says of {len(files)} files:\n" + "\n".join(wrong[:15]))
    return lines


def dump_log_dir(log_dir, live=False, gaps=False, kafkas=False):
    """Dumps every file of every partition with every check that fits its kind; returns {partition folder: records}."""
    folders = [each for each in sorted(log_dir.iterdir()) if re.search(r"-\d+$", each.name) and each.name != "__cluster_metadata-0"]
    found = {}
    logs = [path for folder in folders for path in sorted(folder.glob("*.log"))]
    current = None
    for line in dump(logs, "--deep-iteration", "--print-data-log", gaps=gaps):
        if line.startswith("Dumping "):
            current = line[len("Dumping "):].split("/")[-2]
            found.setdefault(current, 0)
        elif line.startswith("| offset"):
            found[current] += 1
    for kind in ("index", "timeindex"):
        # the tool ends with an exception on the index of an empty log, and says nothing of an empty index
        # (and while the broker runs, an active segment's index may end in preallocated zeros)
        active = {max(folder.glob("*.log"), default=None) for folder in folders} if live else ()
        indexes = [path.with_suffix(f".{kind}") for path in logs if path not in active and path.stat().st_size]
        indexes = [path for path in indexes if path.stat().st_size]
        said = "\n".join(dump(indexes, "--index-sanity-check"))
        for path in indexes:
            if f"{path} passed sanity check" not in said:
                raise Failed(f"{path} did not pass the sanity check:\n{said[-500:]}")
        dump(indexes, "--verify-index-only", gaps=gaps, kafkas=kafkas)
    dump([path for folder in folders for path in sorted(folder.glob("*.txnindex"))])
    snapshots = [path for folder in folders for path in sorted(folder.glob("*.snapshot"))]
    if not snapshots and not live:
        raise Failed(f"no producer snapshot in {log_dir}")
    dump(snapshots)
    offsets = [path for path in logs if path.parent.name.startswith("__consumer_offsets-") and path.stat().st_size]
    dump(offsets, "--offsets-decoder", gaps=gaps)
    for folder in folders:
        check_small_files(folder)
    return found


def check_small_files(folder):
    """The two text files of a partition folder, in Kafka's formats."""
    lines = (folder / "leader-epoch-checkpoint").read_text().splitlines()
    if lines[0] != "0" or int(lines[1]) != len(lines) - 2 or any(not re.fullmatch(r"\d+ \d+", line) for line in lines[2:]):
        raise Failed(f"{folder.name}/leader-epoch-checkpoint: {lines}")
    text = (folder / "partition.metadata").read_text()
    if not re.fullmatch(r"version: 0\ntopic_id: [\w-]{22}\n?", text):
        raise Failed(f"{folder.name}/partition.metadata: {text!r}")
