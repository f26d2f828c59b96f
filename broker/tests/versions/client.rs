//! A broker process of a test's own, and a client that speaks any version of any API.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use strandline_wire::messages::{
    DescribeGroupsRequest, DescribeGroupsResponse, FindCoordinatorRequest, FindCoordinatorResponse,
    InitProducerIdRequest, InitProducerIdResponse, TopicName,
};
use strandline_wire::{Decodable, HeaderVersion, Request, StrBytes};
use tempfile::TempDir;

/// Nothing in these tests takes longer.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) fn text(value: impl Into<String>) -> StrBytes {
    StrBytes::from_string(value.into())
}

pub(crate) fn topic_name(name: &str) -> TopicName {
    TopicName(text(name))
}

/// The real binary with a data directory of its own; killed at the end.
#[derive(Debug)]
pub(crate) struct Broker {
    process: Child,
    port: u16,
    data: Option<TempDir>,
}

impl Broker {
    /// Starts with these settings, and returns when clients may come.
    pub(crate) fn start(settings: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), settings)
    }

    fn start_in(data: TempDir, settings: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_strandline"));
        command.arg("server");
        // Those of whoever runs the tests are no settings of this broker.
        let theirs = std::env::vars_os().map(|(name, _)| name);
        for name in theirs.filter(|name| name.as_encoded_bytes().starts_with(b"STRANDLINE_")) {
            command.env_remove(name);
        }
        let dir = format!("strandline.data.dir={}", data.path().display());
        let fixed = [
            "listeners=PLAINTEXT://127.0.0.1:0",
            "strandline.http.listener=",
            &dir,
        ];
        for setting in fixed.iter().chain(settings) {
            command.args(["--set", setting]);
        }
        let mut process = command
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let port = port_of(&mut process);
        let data = Some(data);
        Self {
            process,
            port,
            data,
        }
    }

    /// As `kill -9`, and a start on the same data.
    pub(crate) fn kill_and_restart(mut self, settings: &[&str]) -> Self {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        let data = self.data.take().unwrap();
        Self::start_in(data, settings)
    }

    /// Memory of the process that is in use now.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = format!("/proc/{}/status", self.process.id());
        let status = std::fs::read_to_string(status).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.unwrap().trim().trim_end_matches(" kB");
        kib.parse::<u64>().unwrap() << 10
    }

    /// Waits until a file of the data directory has this text in it.
    pub(crate) fn wait_for_text(&self, file: &str, text: &str) {
        let path = self.data.as_ref().unwrap().path().join(file);
        let deadline = Instant::now() + TIMEOUT;
        let is_there = || std::fs::read_to_string(&path).is_ok_and(|all| all.contains(text));
        while !is_there() {
            assert!(Instant::now() < deadline, "{file} never held '{text}'");
            std::thread::yield_now();
        }
    }

    pub(crate) fn connect(&self) -> Connection {
        let socket = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        // A request is two writes: without this the second waits for the other side's delayed answer.
        socket.set_nodelay(true).unwrap();
        Connection { socket }
    }

    /// One request on a connection of its own.
    pub(crate) fn call<Q: Request, A: Decodable + HeaderVersion>(
        &self,
        version: i16,
        request: &Q,
    ) -> A {
        self.connect().call(version, request)
    }

    /// A request of given bytes; the answer is read in `answer_version` with a header of
    /// `header_version`.
    pub(crate) fn call_raw<A: Decodable>(
        &self,
        key: i16,
        version: i16,
        answer_version: i16,
        header_version: i16,
        body: &[u8],
    ) -> A {
        let mut connection = self.connect();
        connection.send(key, version, 1, body);
        connection.receive(answer_version, header_version)
    }

    /// The first answers are that the coordinator is not there yet, or that it is loading; each
    /// group has one of its own.
    pub(crate) fn wait_for_coordinator(&self, group: &str) {
        self.wait_for(FindCoordinatorRequest::default().with_key(text(group)));
        let deadline = Instant::now() + TIMEOUT;
        let request = DescribeGroupsRequest::default().with_groups(vec![text(group).into()]);
        while Instant::now() < deadline {
            let answer: DescribeGroupsResponse = self.call(0, &request);
            if ![14, 15, 16].contains(&answer.groups[0].error_code) {
                return;
            }
        }
        panic!("the coordinator does not come up");
    }

    /// The same for a transactional id; it can be used, too, when this returns.
    pub(crate) fn wait_for_transaction_coordinator(&self, id: &str) {
        let request = FindCoordinatorRequest::default().with_key_type(1);
        self.wait_for(request.with_key(text(id)));
        let deadline = Instant::now() + TIMEOUT;
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(text(format!("probe of {id}")).into()))
            .with_transaction_timeout_ms(1000);
        while Instant::now() < deadline {
            let answer: InitProducerIdResponse = self.call(1, &request);
            if answer.error_code == 0 {
                return;
            }
            assert!([14, 15, 16].contains(&answer.error_code), "{answer:?}");
        }
        panic!("the coordinator does not come up");
    }

    fn wait_for(&self, request: FindCoordinatorRequest) {
        let deadline = Instant::now() + TIMEOUT;
        while Instant::now() < deadline {
            let answer: FindCoordinatorResponse = self.call(1, &request);
            if answer.error_code == 0 {
                return;
            }
            assert_eq!(answer.error_code, 15);
        }
        panic!("no coordinator");
    }
}

/// A request as it goes over the wire, with its length in front.
pub(crate) fn frame(key: i16, version: i16, header_version: i16, body: &[u8]) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_i32(0);
    frame.put_i16(key);
    frame.put_i16(version);
    frame.put_i32(77);
    frame.put_i16(4);
    frame.put_slice(b"test");
    if header_version >= 2 {
        frame.put_u8(0);
    }
    frame.put_slice(body);
    let length = frame.len() as u32 - 4;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame.freeze()
}

/// Reads the address from what the broker says when it is ready.
fn port_of(process: &mut Child) -> u16 {
    let mut said = String::new();
    let mut stdout = process.stdout.take().unwrap();
    let mut byte = [0];
    while !said.ends_with('\n') {
        stdout
            .read_exact(&mut byte)
            .expect("the broker says where it listens");
        said.push(char::from(byte[0]));
    }
    let address = said
        .split("Kafka on ")
        .nth(1)
        .unwrap()
        .split(',')
        .next()
        .unwrap();
    address.rsplit(':').next().unwrap().parse().unwrap()
}

impl Drop for Broker {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: TcpStream,
}

impl Connection {
    pub(crate) fn call<Q: Request, A: Decodable + HeaderVersion>(
        &mut self,
        version: i16,
        request: &Q,
    ) -> A {
        let mut body = BytesMut::new();
        request.encode(&mut body, version).unwrap();
        self.send(Q::KEY, version, Q::header_version(version), &body);
        self.receive(version, A::header_version(version))
    }

    fn send(&mut self, key: i16, version: i16, header_version: i16, body: &[u8]) {
        self.send_bytes(&frame(key, version, header_version, body));
    }

    /// Sends bytes as they are, in one write.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    /// Whether there is somebody to send a byte to; it need not be read.
    pub(crate) fn takes_a_byte(&mut self) -> bool {
        self.socket.set_nonblocking(true).unwrap();
        let written = self.socket.write(&[0]);
        self.socket.set_nonblocking(false).unwrap();
        written.map_or_else(|e| e.kind() == ErrorKind::WouldBlock, |n| n == 1)
    }

    /// What comes until the broker closes.
    pub(crate) fn rest(mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.socket.read_to_end(&mut rest).unwrap();
        rest
    }

    pub(crate) fn receive<A: Decodable>(&mut self, version: i16, header_version: i16) -> A {
        let mut length = [0; 4];
        self.socket.read_exact(&mut length).unwrap();
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        self.socket.read_exact(&mut frame).unwrap();
        let mut frame = Bytes::from(frame);
        assert_eq!(frame.split_to(4)[..], 77_i32.to_be_bytes());
        if header_version >= 1 {
            assert_eq!(frame.split_to(1)[..], [0]);
        }
        let answer = A::decode(&mut frame, version).unwrap();
        assert!(frame.is_empty(), "{} bytes left over", frame.len());
        answer
    }
}
