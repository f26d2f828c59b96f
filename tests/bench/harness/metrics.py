"""Names, units and forms of the figures."""

# name → (what a reader sees, form of the number); the order is that of the table
METRICS = {
    "mb_per_s": ("MB/s", "{:.0f}"),
    "cpu_s_per_gb": ("broker CPU s/GB", "{:.3f}"),
    "cpu_s_per_mrec": ("broker CPU s/million records", "{:.3f}"),
    "with_produce_cpu_s_per_gb": ("broker CPU s/GB produced, all", "{:.3f}"),
    "of_loop": ("÷ plain loop of GETs", "{:.2f}"),
    "loop_mb_per_s": ("plain loop MB/s", "{:.0f}"),
    "replay_cpu_s_per_gb": ("replay: CPU s/GB of broker, client and store", "{:.3f}"),
    "loop_cpu_s_per_gb": ("plain loop: CPU s/GB of loop and store", "{:.3f}"),
    "gets_per_gib": ("GETs per GiB", "{:.0f}"),
    "from_bucket_share": ("bytes from the bucket ÷ bytes read", "{:.2f}"),
    "produce_and_upload_cpu_s_per_gb": ("produce + upload CPU s/GB", "{:.3f}"),
    "store_cpu_s_per_gb": ("store's CPU s/GB", "{:.3f}"),
    "first_record_s": ("first record, s", "{:.3f}"),
    "lag_s": ("readers end after the producer, s", "{:.3f}"),
    "written_per_byte": ("disk bytes per log byte", "{:.3f}"),
    "peak_mib": ("peak resident MiB", "{:.0f}"),
    "peak_without_tail_mib": ("… without the in-memory tail", "{:.0f}"),
    "system_share": ("share of CPU in the kernel", "{:.2f}"),
    "client_cpu_s_per_gb": ("client CPU s/GB", "{:.3f}"),
    "first_ready_s": ("empty directory: ready, s", "{:.3f}"),
    "first_ack_s": ("empty directory: topic created and first record acknowledged, s", "{:.3f}"),
    "ready_s": ("restart: ready, s", "{:.3f}"),
    "ack_s": ("restart: first record acknowledged, s", "{:.3f}"),
    "idle_mib": ("idle resident MiB, fresh", "{:.1f}"),
    "idle_after_work_mib": ("idle resident MiB, after work", "{:.1f}"),
    "idle_cpu_share": ("idle CPU, share of a core", "{:.4f}"),
    "foreign_share": ("CPU of other processes, share of the machine", "{:.2f}"),
}


def label(metric):
    return METRICS.get(metric, (metric, "{:.3f}"))[0]


def form(metric, value):
    return METRICS.get(metric, (metric, "{:.3f}"))[1].format(value)
