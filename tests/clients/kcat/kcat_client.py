"""kcat as an adapter: the same verbs, with what its command line can say (one set of headers for a run, no timestamps)."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
from adapter import main  # noqa: E402


def kcat(*arguments, timeout=100, **options):
    done = subprocess.run(["kcat", *arguments], capture_output=True, timeout=timeout, **options)
    if done.returncode:
        raise SystemExit(f"kcat {' '.join(arguments)}: exit {done.returncode}: {done.stderr.decode()[-2000:]}")
    return done


class Client:
    def create(self, topic, partitions, configs):
        if configs:
            raise SystemExit("kcat creates topics with the broker's defaults only")
        kcat("-b", self.bootstrap, "-P", "-t", topic, "-p", str(partitions - 1), input=b"")
        # an empty producer asks for the metadata, and so creates the topic
        kcat("-b", self.bootstrap, "-L", "-t", topic)

    def produce(self, topic, codec, rows):
        partitions = {row["partition"] for row in rows}
        for partition in sorted(partitions):
            mine = [row for row in rows if row["partition"] == partition]
            headers = [part for name, value in mine[0]["headers"] for part in ("-H", f"{name}={value}")]
            with tempfile.NamedTemporaryFile("w", suffix=".txt") as lines:
                lines.writelines(f"{row['key'] or ''}\t{row['value'] or ''}\n" for row in mine)
                lines.flush()
                kcat("-b", self.bootstrap, "-P", "-t", topic, "-p", str(partition), "-K", "\t", "-Z", "-z", codec,
                     "-X", "enable.idempotence=true", "-X", "batch.size=32768", *headers, "-l", lines.name)

    def consume(self, topic, group, count, fetch_bytes, partition_bytes):
        sizes = ["-X", f"fetch.max.bytes={fetch_bytes}", "-X", f"message.max.bytes={min(fetch_bytes, 1 << 20)}",
                 "-X", f"receive.message.max.bytes={max(2 * fetch_bytes, 100 << 20)}",
                 "-X", f"max.partition.fetch.bytes={partition_bytes}"] if fetch_bytes else []
        done = kcat("-b", self.bootstrap, "-G", group, "-J", "-u", "-c", str(count), "-X", "auto.offset.reset=earliest",
                    "-X", "check.crcs=true", *sizes, topic)
        rows = []
        for line in done.stdout.decode().splitlines():
            found = json.loads(line)
            flat = found.get("headers") or []
            rows.append({"partition": found["partition"], "offset": found["offset"], "timestamp": found["ts"], "key": found["key"],
                         "value": found["payload"], "headers": list(zip(flat[::2], flat[1::2]))})
        return rows

    def offsets(self, topic, partition, timestamps):
        found = []
        for each in timestamps:
            answer = kcat("-b", self.bootstrap, "-Q", "-t", f"{topic}:{partition}:{each}").stdout.decode().split()
            offset = int(answer[-1])
            found.append(offset if offset >= 0 else None)
        return found


if __name__ == "__main__":
    main(Client())
