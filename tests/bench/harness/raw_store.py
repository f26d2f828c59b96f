"""The plain loop that a cold replay is held against: parallel ranged GETs over everything that is in the store, and nothing done with it."""

import http.client
import os
import threading
import time
import xml.etree.ElementTree as xml
from pathlib import Path
from queue import Empty, SimpleQueue
from urllib.parse import quote, urlsplit

from checks import Failed

RANGE = 4 << 20
PARALLEL = 8
# Smaller objects are manifests and the like.
SEGMENT = 256 << 10


class FileStore:
    """A bucket that is a directory; a GET is a pread."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def objects(self):
        return [(str(path), path.stat().st_size) for path in self.folder.rglob("*") if path.is_file() and path.stat().st_size >= SEGMENT]

    def reader(self):
        opened = {}

        def read(name, offset, into):
            if name not in opened:
                opened[name] = os.open(name, os.O_RDONLY)
            done = 0
            while done < len(into):
                got = os.preadv(opened[name], [into[done:]], offset + done)
                if got == 0:
                    raise Failed(f"{name} ends at {offset + done}")
                done += got

        def close():
            for each in opened.values():
                os.close(each)

        return read, close


class S3Store:
    """A bucket of an S3 server; a GET is a signed request on a kept connection."""

    def __init__(self, server, bucket):
        self.server, self.bucket = server, bucket

    def objects(self):
        found, token = [], None
        while True:
            query = (f"continuation-token={quote(token, safe='')}&" if token else "") + "list-type=2"
            status, body = self.server.request("GET", f"/{self.bucket}?{query}")
            if status != 200:
                raise Failed(f"list {self.bucket}: {status} {body[:300]}")
            tree = xml.fromstring(body)
            space = tree.tag.partition("}")[0] + "}" if tree.tag.startswith("{") else ""
            for entry in tree.iter(f"{space}Contents"):
                size = int(entry.findtext(f"{space}Size"))
                if size >= SEGMENT:
                    found.append((f"/{self.bucket}/{entry.findtext(f'{space}Key')}", size))
            if tree.findtext(f"{space}IsTruncated") != "true":
                return found
            token = tree.findtext(f"{space}NextContinuationToken")

    def reader(self):
        address = urlsplit(self.server.endpoint)
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)

        def read(name, offset, into):
            headers = self.server.signed_headers("GET", name)
            headers["range"] = f"bytes={offset}-{offset + len(into) - 1}"
            connection.request("GET", quote(name), headers=headers)
            answer = connection.getresponse()
            done = 0
            while done < len(into) and (got := answer.readinto(into[done:])):
                done += got
            answer.read()
            if answer.status != 206 or done != len(into):
                raise Failed(f"GET {name} from {offset}: status {answer.status}, {done} of {len(into)} bytes")

        return read, connection.close


def plain_loop(store):
    """Reads everything once; returns {bytes, seconds, client_cpu_s}."""
    ranges, total = SimpleQueue(), 0
    for name, size in sorted(store.objects()):
        total += size
        for offset in range(0, size, RANGE):
            ranges.put((name, offset, min(RANGE, size - offset)))
    if not total:
        raise Failed("the store holds no segments")
    failures = []

    def work():
        read, close = store.reader()
        space = memoryview(bytearray(RANGE))
        try:
            while not failures:
                name, offset, length = ranges.get_nowait()
                read(name, offset, space[:length])
        except Empty:
            pass
        except Exception as error:  # shown below, whatever it is
            failures.append(error)
        finally:
            close()

    workers = [threading.Thread(target=work, daemon=True) for _ in range(PARALLEL)]
    cpu, started = time.process_time(), time.monotonic()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(300)
    seconds = time.monotonic() - started
    if failures or any(worker.is_alive() for worker in workers):
        raise Failed(f"plain loop of GETs: {failures[:1] or 'not ended in time'}")
    return {"bytes": total, "seconds": seconds, "client_cpu_s": time.process_time() - cpu}


def forget_pages(folder):
    """Takes a directory's files out of the page cache."""
    for path in Path(folder).rglob("*"):
        if path.is_file():
            try:
                handle = os.open(path, os.O_RDONLY)
            except FileNotFoundError:
                continue
            try:
                os.fdatasync(handle)
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(handle)
