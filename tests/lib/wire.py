"""A few Kafka requests by hand, for what no client can be made to send: old and new versions, and broken bytes."""

import socket
import struct

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5


class Closed(Exception):
    """The broker closed the connection instead of answering."""


def string(text):
    return struct.pack(">h", -1) if text is None else struct.pack(">h", len(text.encode())) + text.encode()


def uvarint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def compact(text):
    return uvarint(0) if text is None else uvarint(len(text.encode()) + 1) + text.encode()


def compact_bytes(data):
    return uvarint(0) if data is None else uvarint(len(data) + 1) + data


# first flexible version by API key (None: never flexible); what is missing here is flexible from 0
FLEXIBLE = {0: 9, 1: 12, 2: 6, 3: 9, 8: 8, 9: 6, 10: 3, 11: 6, 12: 4, 13: 4, 14: 4, 15: 5, 16: 3, 17: None, 18: 3, 19: 5, 20: 4,
            21: 2, 22: 2, 23: 4, 24: 3, 25: 3, 26: 3, 27: 1, 28: 3, 29: 2, 30: 2, 31: 2, 32: 4, 33: 2, 34: 2, 35: 2, 36: 2,
            37: 2, 38: 2, 39: 2, 40: 2, 41: 2, 42: 2, 43: 2, 44: 1, 47: None, 48: 1, 49: 1}


def flexible(key, version):
    first = FLEXIBLE.get(key, 0)
    return first is not None and version >= first


class Connection:
    """One socket; requests are sent and answers read separately so that tests can pipeline."""

    def __init__(self, address, timeout=10, receive_buffer=None):
        host, port = address.rsplit(":", 1)
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout)
        self.socket.connect((host, int(port)))
        self.correlation = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def frame(self, payload, length=None):
        """Sends a frame; `length` overrides the length that is announced."""
        self.socket.sendall(struct.pack(">i", len(payload) if length is None else length) + payload)

    def header(self, key, version, client_id="tests"):
        self.correlation += 1
        head = struct.pack(">hhi", key, version, self.correlation) + string(client_id)
        return head + (b"\0" if flexible(key, version) else b"")

    def send(self, key, version, body, client_id="tests"):
        self.frame(self.header(key, version, client_id) + body)
        return self.correlation

    def receive(self):
        """The next answer without its length."""
        length = struct.unpack(">i", self.exactly(4))[0]
        return self.exactly(length)

    def ask(self, key, version, body, client_id="tests"):
        """Sends, receives, checks the correlation id, and returns a Reader behind the response header."""
        return self.answer(key, version, self.send(key, version, body, client_id))

    def answer(self, key, version, expected):
        """The next answer, which must be to the request of this correlation id, as a Reader behind its header."""
        reader = Reader(self.receive())
        got = reader.int32()
        if got != expected:
            raise AssertionError(f"correlation id {got} for request {expected}")
        if flexible(key, version) and key != 18:
            reader.tags()
        return reader

    def closed(self):
        """True when the broker closes the connection; raises a timeout when it neither answers nor closes."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def exactly(self, count):
        """So many bytes of what the broker sends."""
        data = bytearray()
        while len(data) < count:
            try:
                piece = self.socket.recv(min(count - len(data), 1 << 20))
            except ConnectionError as error:
                raise Closed(str(error)) from None
            if not piece:
                raise Closed("connection closed by the broker")
            data += piece
        return bytes(data)


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        if count < 0 or self.at + count > len(self.data):
            raise AssertionError(f"response too short: {count} more bytes at {self.at} of {len(self.data)}")
        self.at += count
        return self.data[self.at - count:self.at]

    def _number(self, form, size):
        return struct.unpack(form, self.take(size))[0]

    def int8(self):
        return self._number(">b", 1)

    def int16(self):
        return self._number(">h", 2)

    def int32(self):
        return self._number(">i", 4)

    def int64(self):
        return self._number(">q", 8)

    def uvarint(self):
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def string(self):
        length = self.int16()
        return None if length < 0 else self.take(length).decode()

    def compact(self):
        length = self.uvarint()
        return None if length == 0 else self.take(length - 1).decode()

    def tags(self):
        for _ in range(self.uvarint()):
            self.uvarint()
            self.take(self.uvarint())


def api_versions(address):
    """{api key: (min, max)} as advertised."""
    with Connection(address) as connection:
        reader = connection.ask(18, 0, b"")
        error = reader.int16()
        if error:
            raise AssertionError(f"ApiVersions error {error}")
        return {reader.int16(): (reader.int16(), reader.int16()) for _ in range(reader.int32())}


class OffsetError(Exception):
    """ListOffsets answered with this Kafka error code."""

    def __init__(self, code):
        super().__init__(f"ListOffsets error {code}")
        self.code = code


def list_offset(address, topic, partition, timestamp, isolation=0, version=9, want_timestamp=False):
    """ListOffsets (v9 unless told) for one partition; raises OffsetError with Kafka's code."""
    body = (struct.pack(">ib", -1, isolation) + uvarint(2) + compact(topic) + uvarint(2)
            + struct.pack(">iiq", partition, -1, timestamp) + b"\0\0\0")
    if version >= 10:
        body = body[:-1] + struct.pack(">i", 10000) + b"\0"
    with Connection(address) as connection:
        reader = connection.ask(2, version, body)
        reader.int32()
        reader.uvarint()
        reader.compact()
        reader.uvarint()
        reader.int32()
        error = reader.int16()
        found, offset = reader.int64(), reader.int64()
        if error:
            raise OffsetError(error)
        return (offset, found) if want_timestamp else offset


def create_topic(address, topic, partitions=1, configs=None, version=5):
    """CreateTopics; returns (error code, message)."""
    entries = b"".join(compact(name) + compact(value) + b"\0" for name, value in (configs or {}).items())
    body = (uvarint(2) + compact(topic) + struct.pack(">ih", partitions, 1) + uvarint(1) + uvarint(len(configs or {}) + 1)
            + entries + b"\0" + struct.pack(">ib", 30000, 0) + b"\0")
    with Connection(address, timeout=35) as connection:
        reader = connection.ask(19, version, body)
        reader.int32()
        reader.uvarint()
        reader.compact()
        return reader.int16(), reader.compact()


_TABLE = []
for _n in range(256):
    for _ in range(8):
        _n = (_n >> 1) ^ (0x82F63B78 if _n & 1 else 0)
    _TABLE.append(_n)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def varint(value):
    return uvarint((value << 1) ^ (value >> 63) if value < 0 else value << 1)


def record(offset_delta, key, value, timestamp_delta=0):
    def blob(data):
        return varint(-1) if data is None else varint(len(data)) + data
    body = b"\0" + varint(timestamp_delta) + varint(offset_delta) + blob(key) + blob(value) + varint(0)
    return varint(len(body)) + body


def batch(records, codec=0, count=1, magic=2, crc=None, base_timestamp=1_700_000_000_000, attributes=None, producer=(-1, -1, -1),
          length=None, last_offset_delta=None, base_offset=0):
    """A record batch from ready-made record bytes (already compressed when `codec` says so); every field can be bent."""
    tail = struct.pack(">hiqqqhii", codec if attributes is None else attributes,
                       count - 1 if last_offset_delta is None else last_offset_delta, base_timestamp, base_timestamp,
                       *producer, count) + records
    checksum = crc32c(tail) if crc is None else crc
    rest = struct.pack(">ibI", -1, magic, checksum) + tail
    return struct.pack(">qi", base_offset, len(rest) if length is None else length) + rest


def produce_body(topic, partition, records, acks=-1, timeout_ms=10000):
    """A Produce request of version 9 or later (by name: up to 12)."""
    return (compact(None) + struct.pack(">hi", acks, timeout_ms) + uvarint(2) + compact(topic) + uvarint(2)
            + struct.pack(">i", partition) + compact_bytes(records) + b"\0\0\0")


def produce(connection, topic, partition, records, acks=-1, version=9):
    """Produces one batch; returns (error code, base offset, error message)."""
    return produce_answer(connection.ask(0, version, produce_body(topic, partition, records, acks)))


def produce_answer(reader):
    """(error code, base offset, error message) of an answer to one batch."""
    reader.uvarint()
    reader.compact()
    reader.uvarint()
    reader.int32()
    error, base = reader.int16(), reader.int64()
    reader.int64()
    reader.int64()
    for _ in range(max(reader.uvarint() - 1, 0)):
        reader.int32()
        reader.compact()
        reader.tags()
    return error, base, reader.compact()


def fetch_many_body(places, max_wait=500, min_bytes=1, max_bytes=1 << 20):
    """A Fetch request of version 12, without a session, of (topic, partition, offset)."""
    topics = [compact(topic) + uvarint(2) + struct.pack(">iiqiqi", partition, -1, offset, -1, -1, max_bytes) + b"\0\0"
              for topic, partition, offset in places]
    return (struct.pack(">iiii", -1, max_wait, min_bytes, max_bytes) + struct.pack(">bii", 0, 0, -1) + uvarint(len(topics) + 1)
            + b"".join(topics) + uvarint(1) + uvarint(1) + b"\0")


def fetch_body(topic, offset=0, partition=0, **options):
    return fetch_many_body([(topic, partition, offset)], **options)


def fetch_many(connection, places, **options):
    """Fetches; returns the top error code and, in the order of the answer, (topic, error code, high watermark, record bytes)."""
    reader = connection.ask(1, 12, fetch_many_body(places, **options))
    reader.int32()
    top = reader.int16()
    reader.int32()
    found = []
    for _ in range(reader.uvarint() - 1):
        topic = reader.compact()
        for _ in range(reader.uvarint() - 1):
            reader.int32()
            error, high_watermark = reader.int16(), reader.int64()
            reader.int64()
            reader.int64()
            for _ in range(max(reader.uvarint() - 1, 0)):
                reader.take(16)
                reader.tags()
            reader.int32()
            found.append((topic, error, high_watermark, reader.take(max(reader.uvarint() - 1, 0))))
            reader.tags()
        reader.tags()
    return top, found


def fetch(connection, topic, offset=0, partition=0, **options):
    """Fetches from one partition; returns (error code, high watermark, record bytes)."""
    top, found = fetch_many(connection, [(topic, partition, offset)], **options)
    return (top, -1, b"") if top else found[0][1:]
