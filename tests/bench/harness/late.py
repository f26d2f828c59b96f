"""Why single records are late: the kernel's trace of its scheduler, read around each of them.

The open-loop driver marks every answer that took too long in the trace. For each mark the trace tells what the threads of the broker and the
driver did while the record was under way; the longest of these stretches is named as the cause. Where it is less than half of the time, the
next ones are named too, since then none of them alone is the cause.
"""

import bisect
import collections
import contextlib
import re
from pathlib import Path

from checks import Failed

TRACING = Path("/sys/kernel/tracing")
EVENTS = ("sched/sched_switch", "sched/sched_waking", "irq_vectors/local_timer_entry")
BUFFER_KIB = 192 * 1024
LINE = re.compile(r"^\s*(.+?)-(\d+)\s+\[(\d+)\]\s+\S+\s+(\d+\.\d+): (\w+): (.*)$")
SWITCH = re.compile(r"prev_comm=(.*?) prev_pid=(\d+) .*prev_state=(\S+) ==> next_comm=(.*?) next_pid=(\d+)")
WAKING = re.compile(r"pid=(\d+) ")
MARK = re.compile(r"late us=(\d+)")
# A busy processor has a tick every 4 ms at 250 Hz; one that is silent for longer, and not idle, was not running at all.
SILENT_S = 0.0055
SHORT_S = 0.0003
NAMED = 4
IDLE = "swapper"


class Trace:
    """Traces the scheduler while it is entered; afterwards the causes of what the driver marked."""

    def __init__(self, broker_pid):
        self.names = {int(task.name): (task / "comm").read_text().strip() for task in Path(f"/proc/{broker_pid}/task").iterdir()}

    def __enter__(self):
        if not (TRACING / "trace_marker").exists():
            raise Failed("there is no /sys/kernel/tracing: mount -t tracefs nodev /sys/kernel/tracing")
        put("tracing_on", 0)
        put("buffer_size_kb", BUFFER_KIB)
        put("trace_clock", "mono")
        put("trace", "")
        for event in EVENTS:
            put(f"events/{event}/enable", 1)
        put("tracing_on", 1)
        return self

    def __exit__(self, failure, *_):
        put("tracing_on", 0)
        for event in EVENTS:
            put(f"events/{event}/enable", 0)
        try:
            if failure is None:
                with open(TRACING / "trace", errors="replace") as lines:
                    self.events = list(read(lines))
        finally:
            put("trace", "")
            put("buffer_size_kb", 1408)

    def causes(self, report):
        """One line for each stall (marks whose times overlap are one), then how many records each cause has."""
        marks = [(at - us / 1e6, at) for at, _, _, name, us in self.events if name == "mark"]
        # Only the driver marks.
        self.names.update({pid: "the driver" for _, _, pid, name, _ in self.events if name == "mark"})
        stalls = []
        for begin, end in sorted(marks):
            if stalls and begin <= stalls[-1][1]:
                stalls[-1][1] = max(end, stalls[-1][1])
                stalls[-1][2] += 1
            else:
                stalls.append([begin, end, 1])
        times = [event[0] for event in self.events]
        by_cause = collections.Counter()
        for begin, end, records in stalls:
            found = sorted(stretches(self.events, times, begin, end, self.names), key=weight, reverse=True) or [(0.0, "nothing longer than 0.3 ms")]
            by_cause[re.sub(r"\(.*\)", "", found[0][1]).strip()] += records
            named = found[:1] if found[0][0] >= (end - begin) / 2 else found[:NAMED]
            named = ", ".join(f"{stretch * 1e3:.2f} ms {cause}" for stretch, cause in named)
            report(f"{(end - begin) * 1e3:7.2f} ms, {records:4} records: {named}")
        for cause, records in by_cause.most_common():
            report(f"{records:6} records: {cause}")


def put(name, value):
    with contextlib.closing(open(TRACING / name, "w")) as file:
        file.write(str(value))


def read(lines):
    """(time, processor, running pid, kind, details) of each event, in order."""
    events = []
    for line in lines:
        parts = LINE.match(line)
        if not parts:
            continue
        _, pid, cpu, at, name, rest = parts.groups()
        at, cpu, pid = float(at), int(cpu), int(pid)
        if name == "sched_switch" and (found := SWITCH.search(rest)):
            events.append((at, cpu, pid, "switch", found.groups()))
        elif name == "sched_waking" and (found := WAKING.search(rest)):
            events.append((at, cpu, pid, "waking", int(found[1])))
        elif name == "local_timer_entry":
            events.append((at, cpu, pid, "tick", None))
        elif name == "tracing_mark_write" and (found := MARK.search(rest)):
            events.append((at, cpu, pid, "mark", int(found[1])))
    return sorted(events, key=lambda event: event[0])


def stretches(events, times, begin, end, names):
    """What kept the threads in `names` from going on between two moments: (seconds, cause)."""
    first, last = bisect.bisect_left(times, begin - 0.05), bisect.bisect_right(times, end + 0.05)
    runnable, asleep_in_kernel, running_since, on_processor, heard = {}, {}, {}, {}, {}
    all_idle_since = None
    processors = {event[1] for event in events[first:last]}
    for at, cpu, pid, kind, details in events[first:last]:
        if cpu in heard:
            silence = overlap(heard[cpu], at, begin, end)
            if at - heard[cpu] > SILENT_S and silence > SHORT_S and not on_processor.get(cpu, IDLE).startswith(IDLE):
                yield silence, f"the host did not run the processor (it was in {on_processor[cpu]})"
        heard[cpu] = at
        if kind == "waking" and details in names:
            runnable.setdefault(details, at)
            if details in asleep_in_kernel:
                since = asleep_in_kernel.pop(details)
                if (took := overlap(since, at, begin, end)) > SHORT_S:
                    yield took, f"{names[details]} waited for the disk"
        elif kind == "switch":
            prev_comm, prev_pid, state, next_comm, next_pid = details
            prev_pid, next_pid = int(prev_pid), int(next_pid)
            if prev_pid in names:
                if (took := overlap(running_since.pop(prev_pid, at), at, begin, end)) > SHORT_S:
                    yield took, f"{names[prev_pid]} ran"
                if state.startswith("D"):
                    asleep_in_kernel[prev_pid] = at
                elif state.startswith("R"):
                    runnable[prev_pid] = at
            if next_pid in runnable:
                since = runnable.pop(next_pid)
                if (took := overlap(since, at, begin, end)) > SHORT_S:
                    if prev_pid == 0:
                        yield took, f"the host woke an idle processor late (for {names[next_pid]})"
                    else:
                        yield took, f"{names[next_pid]} waited for a processor (behind {prev_comm})"
            running_since[next_pid] = at
            on_processor[cpu] = next_comm
            are_idle = all(on_processor.get(each, "").startswith(IDLE) for each in processors)
            if are_idle and all_idle_since is None:
                all_idle_since = at
            elif not are_idle and all_idle_since is not None:
                # The driver has something to send each 0.1 ms, so its timer is what did not come, unless all its connections wait.
                if (took := overlap(all_idle_since, at, begin, end)) > SHORT_S:
                    yield took, "no processor had anything to do: a timer or the bytes came late"
                all_idle_since = None


def weight(stretch):
    """A thread that waits behind another while the host keeps both from running waits for the host: that stretch is a little shorter."""
    took, cause = stretch
    return took * (1.5 if cause.startswith("the host") else 1)


def overlap(since, until, begin, end):
    return min(until, end) - max(since, begin)
