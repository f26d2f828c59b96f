"""The records that every client produces and reads back: all that can differ is different from record to record.

A row is (partition, timestamp, key, value, headers): key and value are str or None, headers a list of (str, str).
Files of rows are JSON lines, so that a client in any language is a small program: it produces a file, or it consumes into one.
"""

import hashlib
import json
from collections import Counter, defaultdict
from pathlib import Path

from checks import Failed, equal

FIRST_TIMESTAMP = 1_700_000_000_000  # long ago: topics with this data need retention.ms=-1
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# Every client's cold and hot replay: (fetch bytes of a whole answer, of a partition); None is the client's default.
FETCH_SIZES = {"4 KiB": (4096, 4096), "default": (None, None), "64 MiB": (64 << 20, 64 << 20)}


def timestamp(n):
    return FIRST_TIMESTAMP + n * 250


def value(n):
    """Hash chain and padding, of 100 to 2,000 characters, null now and then: every codec makes it smaller."""
    if n % 101 == 100:
        return None
    length = 100 + n * 7919 % 1900
    blocks = (hashlib.sha256(f"{n}:{block}".encode()).hexdigest() + "." * 16 for block in range(length // 80 + 1))
    return f"{n}:{''.join(blocks)}"[:length]


def row(n, partitions=1):
    headers = [] if n % 3 == 0 else [("n", str(n)), ("n", "twice"), ("empty", "")]
    payload = value(n)
    # some clients refuse a record with neither key nor value
    key = None if n % 10 == 9 and payload is not None else f"key-{n % 97}"
    return {"partition": n % partitions, "timestamp": timestamp(n), "key": key, "value": payload, "headers": headers}


def rows(first, end, partitions=1):
    return [row(n, partitions) for n in range(first, end)]


def write(path, items):
    with open(path, "w") as out:
        for each in items:
            out.write(json.dumps(each) + "\n")
    return path


def read(path):
    with open(path) as lines:
        return [json.loads(line) for line in lines]


def by_partition(items):
    found = defaultdict(list)
    for each in items:
        found[each["partition"]].append(each)
    return found


def compare(got, sent, what="replay", fields=("timestamp", "key", "value", "headers"), first_offset=0):
    """Every record, in order, at its offset: `sent` in order of production per partition, `got` as consumed."""
    received, expected = by_partition(got), by_partition(sent)
    equal({p: len(r) for p, r in sorted(received.items())}, {p: len(r) for p, r in sorted(expected.items())}, f"{what}: records per partition")
    for partition, wanted in expected.items():
        for index, (have, want) in enumerate(zip(received[partition], wanted)):
            if have["offset"] != first_offset + index:
                raise Failed(f"{what}: partition {partition}: record {index} has offset {have['offset']}, expected {first_offset + index}")
            for field in fields:
                wants, has = want[field], have[field]
                if field == "headers":
                    wants, has = [list(pair) for pair in wants], [list(pair) for pair in has]
                if has != wants:
                    raise Failed(f"{what}: partition {partition} offset {have['offset']}: {field} is {str(has)[:200]!r}, expected {str(wants)[:200]!r}")


def duplicates(items):
    """The (partition, offset) pairs that occur more than once."""
    seen = Counter((each["partition"], each["offset"]) for each in items)
    return [pair for pair, count in seen.items() if count > 1]


def scratch(folder, name):
    return str(Path(folder) / name)
