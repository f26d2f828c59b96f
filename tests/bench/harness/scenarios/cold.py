"""Replaying from the bucket with cold caches, beside a plain loop of parallel GETs on the same store."""

import shutil
from contextlib import ExitStack

from seaweed import SeaweedFS

from .. import accounting, clients, subjects
from ..raw_store import FileStore, S3Store, forget_pages, plain_loop
from .base import Scenario, hot_metrics

SETTINGS = {"log.retention.check.interval.ms": "500", "remote.log.manager.task.interval.ms": "500"}
PARTITIONS = 6


class Place:
    """A bucket in a directory or in SeaweedFS, with the broker that uses it."""

    def __init__(self, bench, stack, kind):
        if kind == "s3":
            server = stack.enter_context(SeaweedFS(buckets=("strandline",)))
            self.broker = subjects.make("strandline", bench.folder, {**SETTINGS, **server.settings()}, server.environment())
            self.store, self.folder, self.helpers = S3Store(server, "strandline"), server.dir, (server.process.pid,)
        else:
            self.broker = subjects.make("strandline", bench.folder, SETTINGS)
            self.store, self.folder, self.helpers = FileStore(self.broker.bucket_dir()), self.broker.bucket_dir(), ()
        stack.callback(subjects.discard, self.broker)


def fill(bench, place, topic):
    """Produces and waits until all but the active segments are only in the bucket; what that cost."""
    broker = place.broker
    clients.create(broker, topic, PARTITIONS, segment_bytes=bench.sizes.cold_segment, local_retention_bytes=1, remote_storage_enable="true",
                   file_delete_delay_ms=100)
    with bench.measured(broker, helpers=place.helpers) as span:
        found = clients.produce(broker, topic, bench.sizes.cold, partitions=PARTITIONS)
        broker.wait_cold(topic, PARTITIONS, timeout=clients.limit_for(bench.sizes.cold))
    return span.cpu_s / (found["bytes"] / 1e9)


def restart_cold(place, keep_pages):
    """A broker without anything in memory or in its cache, and a store whose files are not in the page cache."""
    place.broker.terminate()
    shutil.rmtree(place.broker.dir / "data/cache", ignore_errors=True)
    if not keep_pages:
        forget_pages(place.folder)
    place.broker.start()


def requests(broker, operation):
    return broker.metric("strandline_store_requests_total", op=operation) or 0


def cold_replay(kind):
    name = f"cold-replay-{kind}"

    def run(bench, _):
        with ExitStack() as stack:
            place = Place(bench, stack, kind)
            broker, topic = place.broker, bench.fresh_topic(name)
            broker.start()
            fill_cpu = fill(bench, place, topic)
            restart_cold(place, bench.keep_pages)
            gets, cold = requests(broker, "get"), broker.metric("strandline_cold_fetch_bytes_total") or 0
            with bench.measured(broker, name, place.helpers) as span:
                found = clients.consume(broker, topic, bench.sizes.cold, size=1024, partitions=PARTITIONS)
            gets = requests(broker, "get") - gets
            cold = (broker.metric("strandline_cold_fetch_bytes_total") or 0) - cold
            if not bench.keep_pages:
                forget_pages(place.folder)
            with accounting.measured(broker.process.pid, place.helpers) as beside:
                loop = plain_loop(place.store)
        loop_speed = loop["bytes"] / 1e6 / loop["seconds"]
        metrics = hot_metrics(span, found)
        replay_cpu = (span.cpu_s + span.helpers_cpu_s + found["client_cpu_s"]) / found["bytes"] * 1e9
        loop_cpu = (beside.helpers_cpu_s + loop["client_cpu_s"]) / loop["bytes"] * 1e9
        return {**metrics, "replay_cpu_s_per_gb": replay_cpu, "loop_cpu_s_per_gb": loop_cpu, "loop_mb_per_s": loop_speed, "of_loop": metrics["mb_per_s"] / loop_speed,
                "gets_per_gib": gets / (found["bytes"] / 2**30), "from_bucket_share": cold / found["bytes"],
                "first_record_s": found["first_record_s"], "produce_and_upload_cpu_s_per_gb": fill_cpu,
                **({"store_cpu_s_per_gb": span.helpers_cpu_s / (found["bytes"] / 1e9)} if place.helpers else {})}

    where = "a directory" if kind == "file" else "SeaweedFS over S3"
    return Scenario(name, f"1 consumer reads from the beginning what is only in {where} (6 partitions, small segments), all caches cold",
                    run, shares_broker=False, subjects=("strandline",))


SCENARIOS = (cold_replay("file"), cold_replay("s3"))
