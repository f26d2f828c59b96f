"""Named checks of a suite: each prints one line, and the suite's exit code says whether all held."""

import contextlib
import faulthandler
import os
import sys
import time
import traceback


class Failed(AssertionError):
    """A check that did not hold; the message is what a person reads first."""


class Abandoned(BaseException):
    """The rest of a story makes no sense, since a needed check failed."""


class Suite:
    """Runs named checks; one that fails does not stop the next unless `needed` is set."""

    def __init__(self, name):
        self.name = name
        self.passed = 0
        self.failed = []
        # A hang inside a client must show where it hangs when the runner ends the suite.
        faulthandler.register(__import__("signal").SIGUSR1, all_threads=True)

    @contextlib.contextmanager
    def check(self, name, needed=False):
        started = time.monotonic()
        try:
            yield
        except (KeyboardInterrupt, Abandoned):
            raise
        except BaseException as error:  # a client's own error types are many, and each is a failed check
            self.failed.append(name)
            reason = str(error) if isinstance(error, AssertionError) and error.args else traceback.format_exc()
            self._line("FAIL", name, started)
            for line in reason.strip().splitlines()[-40:]:
                print("     | " + line, flush=True)
            if needed:
                raise Abandoned(name) from None
        else:
            self.passed += 1
            self._line("ok", name, started)

    @contextlib.contextmanager
    def story(self):
        """Around checks that build on each other: ends where a needed one failed; an error outside any check is a failure."""
        try:
            yield
        except Abandoned as error:
            print(f"left {self.name}: the checks after: {error}", flush=True)
        except Exception:
            with self.check("runs to its end"):
                raise

    def _line(self, word, name, started):
        print(f"{word:<4} {self.name}: {name} ({time.monotonic() - started:.1f} s)", flush=True)

    def finish(self):
        """Prints the summary and ends the process."""
        print(f"{self.passed} passed, {len(self.failed)} failed", flush=True)
        sys.stdout.flush()
        os._exit(1 if self.failed else 0)


def require(condition, message):
    if not condition:
        raise Failed(message)


def equal(actual, expected, what):
    if actual != expected:
        raise Failed(f"{what}: expected {_short(expected)}, got {_short(actual)}")


def _short(value):
    text = repr(value)
    return text if len(text) < 400 else text[:400] + "…"


def wait_until(condition, what, timeout=30.0, interval=0.05):
    """Polls `condition` until it is true; its last exception or false value is shown when time is up."""
    deadline = time.monotonic() + timeout
    last = None
    while True:
        try:
            last = condition()
            if last:
                return last
        except Exception as error:  # the thing waited for may not be up yet
            last = error
        if time.monotonic() > deadline:
            raise Failed(f"waited {timeout:.0f} s for {what}; last: {_short(last)}")
        time.sleep(interval)
