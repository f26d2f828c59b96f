"""A profile of the broker during the measured part of a scenario, by sampling with perf."""

import signal
import subprocess
import time


class Sampling:
    """perf record on one process; afterwards FOLDER/NAME.perf and, as text, FOLDER/NAME.txt."""

    def __init__(self, folder, name, pid):
        folder.mkdir(parents=True, exist_ok=True)
        self.data, self.text = folder / f"{name}.perf", folder / f"{name}.txt"
        # The software clock works where a virtual machine has no counters.
        self.process = subprocess.Popen(["perf", "record", "-q", "-e", "cpu-clock", "-F", "997", "-g", "-p", str(pid), "-o", str(self.data)],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.3)

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=60)
        with open(self.text, "w") as out:
            subprocess.run(["perf", "report", "--stdio", "-i", str(self.data), "-g", "none", "--no-children", "--percent-limit", "0.3",
                            "--sort", "symbol"], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.DEVNULL, timeout=300)
