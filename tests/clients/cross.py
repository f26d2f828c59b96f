"""Every client reads what every other client wrote, with every codec: framings and headers differ between families."""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lib"))

import brokers  # noqa: E402
import ledger  # noqa: E402
import load  # noqa: E402
from checks import Suite  # noqa: E402
from clients import COMMANDS, Client  # noqa: E402

PER_CLIENT = 200  # records of one client with one codec, in a partition of its own


def main():
    suite = Suite("cross")
    broker = brokers.make()
    with suite.story(), broker, tempfile.TemporaryDirectory() as folder:
        names = sorted(COMMANDS)
        load.create(broker, "cross", len(names), retention_ms=-1)
        sent = []
        for partition, name in enumerate(names):
            with suite.check(f"{name} writes every codec", needed=True):
                client = Client(name, broker.bootstrap)
                rows = [{**row, "partition": partition} for row in ledger.rows(partition * 2000, partition * 2000 + PER_CLIENT * len(ledger.CODECS))]
                if client.plain:
                    rows = [{**row, "headers": [["h", "1"]], "timestamp": None} for row in rows]
                for index, codec in enumerate(ledger.CODECS):
                    path = ledger.write(ledger.scratch(folder, "rows.json"), rows[index * PER_CLIENT:(index + 1) * PER_CLIENT])
                    client.produce("cross", codec, path)
                sent += rows
        plain = names.index("kcat")
        for name in names:
            with suite.check(f"{name} reads what all wrote"):
                path = ledger.scratch(folder, "consumed.json")
                Client(name, broker.bootstrap).consume("cross", f"cross-{name}", path, len(sent))
                # kcat cannot set timestamps: those of its records are the clock's
                got = [{**row, "timestamp": None} if row["partition"] == plain else row for row in ledger.read(path)]
                ledger.compare(got, sent, name)
        brokers.check_log(suite, broker)
    suite.finish()


if __name__ == "__main__":
    main()
