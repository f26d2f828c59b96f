"""The load: processes of tests/bench/load, each bounded in time, and the few requests that control topics."""

import json
import struct
import subprocess
from pathlib import Path

import wire
from broker import ROOT, TOOLS, die_with_parent
from checks import Failed, wait_until
from strandline import binary

# A broker slower than this is broken, not slow.
SLOWEST_BYTES_PER_S = 4_000_000


def limit_for(payload_bytes):
    return int(30 + payload_bytes / SLOWEST_BYTES_PER_S)


def program(role):
    """Our C programs, or a driver of crates/bench, which is built with the broker."""
    if role not in ("latency", "transactions"):
        return [str(TOOLS / "bin/bench-load"), role]
    name = f"bench-{role}"
    places = (Path(binary()).parent, ROOT / "target/release")
    found = [place / name for place in places if (place / name).exists()]
    if not found:
        raise Failed(f"{name} is not there: cargo build --release --package strandline-bench")
    return [str(found[0])]


class Load:
    """One run of the load generator."""

    def __init__(self, role, broker, topic, limit=120, properties=(), **options):
        words = [*program(role), "--brokers", broker.bootstrap, "--topic", topic, "--limit", str(limit)]
        for name, value in options.items():
            words += [f"--{name.replace('_', '-')}", str(value)]
        for pair in properties:
            words += ["--property", pair]
        self.limit = limit
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        preexec_fn=die_with_parent)
        self.words = words[1:]

    def wait_ready(self):
        """Until the consumers know where they begin."""
        line = self.process.stdout.readline()
        if line != "ready\n":
            self.process.kill()
            raise Failed(f"load {' '.join(self.words)}: {line}{self.process.stderr.read()}")

    def result(self):
        """Waits for the end; the figures that the program printed."""
        try:
            out, err = self.process.communicate(timeout=self.limit + 10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Failed(f"load {' '.join(self.words)}: not ended after {self.limit} s") from None
        if self.process.returncode:
            raise Failed(f"load {' '.join(self.words)}: exit {self.process.returncode}: {err.strip()[-500:]}")
        return json.loads(out.strip().splitlines()[-1])


class Floor:
    """The loop that answers the open-loop driver as a broker would, and does no more than write what came (crates/bench, floor.rs)."""

    def __init__(self, file, connections):
        self.file = file
        self.process = subprocess.Popen([*program("latency"), "floor", str(file), str(connections)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
        self.bootstrap = self.process.stdout.readline().strip()

    def __enter__(self):
        if not self.bootstrap:
            raise Failed(f"bench-latency floor: {self.process.communicate()[1].strip()}")
        return self

    def __exit__(self, *_):
        """It ends by itself when the driver has closed its connections."""
        try:
            self.process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
        self.file.unlink(missing_ok=True)


def produce_at_fixed_times(broker, topic, seconds, warm_seconds, **options):
    """Starts the open-loop driver: `seconds` are measured, after `warm_seconds` at the same rate."""
    return Load("latency", broker, topic, seconds + warm_seconds + 60, seconds=seconds, warm_seconds=warm_seconds, **options)


def produce(broker, topic, payload_bytes, size=1024, **options):
    """Produces so many bytes of values and checks that the log grew by as many records."""
    messages = max(1, payload_bytes // size)
    partitions = options.get("partitions", 1)
    before = end_offsets(broker, topic, partitions)
    load = Load("produce", broker, topic, limit_for(payload_bytes), size=size, messages=messages, **options)
    return checked(broker, topic, partitions, before, load)


def checked(broker, topic, partitions, before, load):
    """What a load that produces has found; the log must have grown by as many records as were acknowledged."""
    found = load.result()
    messages, grown = found["messages"], sum(end_offsets(broker, topic, partitions)) - sum(before)
    if grown != messages:
        raise Failed(f"{topic}: {messages} records acknowledged, the log grew by {grown}")
    return found


def consume(broker, topic, payload_bytes, **options):
    """Reads from the beginning to the present end; the program checks that no offset is missing."""
    return Load("consume", broker, topic, limit_for(payload_bytes * int(options.get("consumers", 1))), **options).result()


def end_offsets(broker, topic, partitions):
    return [wire.list_offset(broker.bootstrap, topic, partition, wire.LATEST) for partition in range(partitions)]


def create(broker, topic, partitions, **configs):
    """A topic whose partitions answer; dots of config names are written as underscores."""
    code, message = wire.create_topic(broker.bootstrap, topic, partitions, {name.replace("_", "."): str(value) for name, value in configs.items()})
    if code:
        raise Failed(f"create {topic}: error {code} {message}")
    wait_answers(broker, topic, partitions)


def wait_answers(broker, topic, partitions, timeout=60):
    """Until every partition answers; each is asked until it does."""
    for partition in range(partitions):
        wait_until(lambda: wire.list_offset(broker.bootstrap, topic, partition, wire.LATEST) >= 0, f"{topic}-{partition} to answer", timeout)


def alter(broker, topic, **configs):
    """Sets configs of a topic; dots of their names are written as underscores."""
    topic_resource, set_it = b"\x02", b"\0"
    entries = b"".join(wire.compact(name.replace("_", ".")) + set_it + wire.compact(str(value)) + b"\0" for name, value in configs.items())
    body = wire.uvarint(2) + topic_resource + wire.compact(topic) + wire.uvarint(len(configs) + 1) + entries + b"\0" + b"\0" + b"\0"
    with wire.Connection(broker.bootstrap, timeout=30) as connection:
        reader = connection.ask(44, 1, body)
        reader.int32()
        reader.uvarint()
        code, message = reader.int16(), reader.compact()
    if code:
        raise Failed(f"alter {topic}: error {code} {message}")


def create_hot(broker, topic, partitions):
    """A topic for the hot path: not tiered, on either broker, so that both do the same work."""
    create(broker, topic, partitions, remote_storage_enable="false", file_delete_delay_ms=100)


def delete(broker, topic, timeout=20):
    """Deletes a topic and waits until its files are gone, so that its pages do not burden the next measurement."""
    body = wire.uvarint(2) + wire.compact(topic) + struct.pack(">i", 20000) + b"\0"
    with wire.Connection(broker.bootstrap, timeout=30) as connection:
        reader = connection.ask(20, 4, body)
        reader.int32()
        reader.uvarint()
        reader.compact()
        code = reader.int16()
    if code:
        raise Failed(f"delete {topic}: error {code}")
    wait_until(lambda: not any(broker.log_dir().glob(f"{topic}-*")), f"the folders of {topic} to go", timeout)
