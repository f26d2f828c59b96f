"""What the Python clients share: the verbs that tests/clients/suite.py calls, and rows as JSON lines.

    ADAPTER BOOTSTRAP create TOPIC PARTITIONS [NAME=VALUE...]
    ADAPTER BOOTSTRAP produce TOPIC CODEC ROWS
    ADAPTER BOOTSTRAP consume TOPIC GROUP ROWS COUNT FETCH_BYTES PARTITION_BYTES   (0 = the client's default)
    ADAPTER BOOTSTRAP offsets TOPIC PARTITION TIMESTAMP...                         (prints a JSON list; null = none)

`consume` joins the group, starts at its commits (else at the beginning), writes exactly COUNT rows, commits exactly these, and leaves.
"""

import json
import sys


def text(data):
    return None if data is None else data.decode()


def octets(data):
    return None if data is None else data.encode()


def main(client):
    bootstrap, verb, *arguments = sys.argv[1:]
    client.bootstrap = bootstrap
    if verb == "create":
        topic, partitions, *configs = arguments
        client.create(topic, int(partitions), dict(each.split("=", 1) for each in configs))
    elif verb == "produce":
        topic, codec, path = arguments
        with open(path) as lines:
            client.produce(topic, codec, [json.loads(line) for line in lines])
    elif verb == "consume":
        topic, group, path, count, fetch_bytes, partition_bytes = arguments
        rows = client.consume(topic, group, int(count), int(fetch_bytes), int(partition_bytes))
        with open(path, "w") as out:
            for row in rows:
                out.write(json.dumps(row) + "\n")
    elif verb == "offsets":
        topic, partition, *timestamps = arguments
        print(json.dumps(client.offsets(topic, int(partition), [int(each) for each in timestamps])))
    else:
        sys.exit(f"no verb {verb}")


def taken(rows):
    """{partition: next offset} behind the last row of each partition."""
    return {row["partition"]: row["offset"] + 1 for row in rows}
