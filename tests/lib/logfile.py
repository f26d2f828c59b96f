"""Reads Kafka's segment files as far as the tests need: the headers of the batches in them."""

import struct

CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
HEADER = struct.Struct(">qiibIhiqqqhii")


def batches(path):
    """(base offset, last offset, codec name, producer id) of each whole batch of a .log file."""
    data = path.read_bytes()
    at = 0
    while at + HEADER.size <= len(data):
        base, length, _, magic, _, attributes, last_delta, _, _, producer, _, _, _ = HEADER.unpack_from(data, at)
        if length <= 0 or at + 12 + length > len(data) or magic != 2:
            break
        yield base, base + last_delta, CODEC_NAMES[attributes & 7], producer
        at += 12 + length


def codecs(broker, topic):
    """The codecs of all batches in the topic's local files; None when the files cannot be seen."""
    files = broker.log_files(topic)
    if files is None:
        return None
    return {batch[2] for paths in files.values() for path in paths for batch in batches(path)}
