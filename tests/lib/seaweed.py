"""A real S3 server for the tests: SeaweedFS on free loopback ports, with one user and the buckets asked for."""

import datetime
import hashlib
import hmac
import json
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote

from broker import TOOLS, die_with_parent, end_quietly, free_ports
from checks import Failed, wait_until

ACCESS_KEY, SECRET_KEY, REGION = "strandline-tests", "strandline-tests-secret", "us-east-1"


class SeaweedFS:
    def __init__(self, buckets=("strandline",)):
        self.buckets = buckets
        self.dir = Path(tempfile.mkdtemp(prefix="strandline-s3-"))
        self.process = None
        self.ports = dict(zip(("master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc",
                               "s3.port", "s3.port.grpc"), free_ports(8)))
        self.endpoint = f"http://127.0.0.1:{self.ports['s3.port']}"

    def start(self):
        """Starts it, or starts it again with what it had stored."""
        (self.dir / "s3.json").write_text(json.dumps({"identities": [
            {"name": "tests", "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
             "actions": ["Admin", "Read", "Write", "List", "Tagging"]},
            # SeaweedFS makes a missing bucket when an Admin writes to it, so the broker gets a user who may only use buckets
            {"name": "writer", "credentials": [{"accessKey": "writer", "secretKey": "writer-secret"}], "actions": ["Read", "Write", "List"]},
            {"name": "reader", "credentials": [{"accessKey": "reader", "secretKey": "reader-secret"}], "actions": ["Read", "List"]}]}))
        log = open(self.dir / "weed.log", "ab")
        self.process = subprocess.Popen(
            [str(TOOLS / "venv/bin/weed"), "server", "-s3", f"-s3.config={self.dir / 's3.json'}", f"-dir={self.dir}", "-ip=127.0.0.1",
             "-ip.bind=127.0.0.1", "-volume.max=200", "-master.volumeSizeLimitMB=256", "-master.telemetry=false",
             # two services on ports of their own that nobody here needs, and of which only one can be on a machine
             "-s3.port.iceberg=0", "-s3.port.lance=0",
             *(f"-{name}={port}" for name, port in self.ports.items())],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent)
        try:
            wait_until(lambda: self.request("GET", "/")[0] == 200, "SeaweedFS to answer", timeout=90)
        except Failed as error:
            raise Failed(f"{error}\n" + "\n".join((self.dir / "weed.log").read_text(errors="replace").splitlines()[-15:])) from None
        for bucket in self.buckets:
            wait_until(lambda: self.request("PUT", f"/{bucket}")[0] in (200, 409), f"bucket {bucket}", timeout=30)
            wait_until(lambda: self.request("PUT", f"/{bucket}/.probe", b"x")[0] == 200, f"a first object in {bucket}", timeout=60)
            self.request("DELETE", f"/{bucket}/.probe")
        return self

    def stop(self):
        end_quietly(self.process)

    def close(self):
        self.stop()
        shutil.rmtree(self.dir, ignore_errors=True)

    __enter__ = start

    def __exit__(self, *_):
        self.close()

    def settings(self, url="s3://strandline/tests"):
        return {"strandline.store.url": url, "strandline.store.s3.endpoint": self.endpoint,
                "strandline.store.s3.region": REGION, "strandline.store.s3.path.style.access": "true"}

    @staticmethod
    def environment(access_key="writer", secret_key="writer-secret"):
        return {"AWS_ACCESS_KEY_ID": access_key, "AWS_SECRET_ACCESS_KEY": secret_key, "AWS_EC2_METADATA_DISABLED": "true"}

    def signed_headers(self, method, path, body=b""):
        """The headers of one request (path with its query, if any) signed with AWS's version 4 scheme."""
        now = datetime.datetime.now(datetime.timezone.utc)
        stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
        path, _, query = path.partition("?")
        digest = hashlib.sha256(body).hexdigest()
        host = self.endpoint.split("//")[1]
        headers = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": stamp}
        names = ";".join(sorted(headers))
        canonical = "\n".join([method, quote(path), query, *(f"{k}:{headers[k]}" for k in sorted(headers)), "", names, digest])
        scope = f"{day}/{REGION}/s3/aws4_request"
        to_sign = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
        key = f"AWS4{SECRET_KEY}".encode()
        for part in (day, REGION, "s3", "aws4_request"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        signature = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
        headers["authorization"] = f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/{scope}, SignedHeaders={names}, Signature={signature}"
        return headers

    def request(self, method, path, body=b""):
        """Sends one signed request; returns (status, body)."""
        headers = self.signed_headers(method, path, body)
        path, _, query = path.partition("?")
        url = self.endpoint + quote(path) + (f"?{query}" if query else "")
        try:
            with urllib.request.urlopen(urllib.request.Request(url, data=body or None, method=method, headers=headers), timeout=10) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()
