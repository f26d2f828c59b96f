//! The floor of a latency: the least that any broker does with a record, on one thread. It takes requests, writes what
//! came to a file with reserved blocks, and answers; what the driver then still finds is the machine's.

use std::fs::File;
use std::io::{self, Write};
use std::net::TcpListener;
use std::os::unix::fs::FileExt;

use bytes::{BufMut, Bytes, BytesMut};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FallocateFlags, fallocate};

use strandline_bench::{Connection, Outcome};

use crate::produce;

/// Blocks are reserved in steps of this size, as the broker does.
const RESERVE_BYTES: u64 = 32 << 20;

/// The file that everything is written to.
struct Target {
    file: File,
    position: u64,
    reserved_to: u64,
}

/// Serves `connections` until all of them are closed. Prints its address when it listens.
/// `words`: `FILE CONNECTIONS`.
pub(crate) fn serve(words: &[String]) -> Outcome<()> {
    let [path, connections] = words else {
        return Err("bench-latency floor FILE CONNECTIONS".into());
    };
    let mut target = Target {
        file: File::create(path)?,
        position: 0,
        reserved_to: 0,
    };
    let listener = TcpListener::bind("127.0.0.1:0")?;
    writeln!(io::stdout(), "{}", listener.local_addr()?)?;
    let mut open = Vec::new();
    for _ in 0..connections.parse::<usize>()? {
        open.push(Connection::new(listener.accept()?.0)?);
    }
    let mut space = Connection::space();
    while !open.is_empty() {
        turn(&mut open, &mut space, &mut target)?;
    }
    Ok(())
}

/// Waits for requests, writes them all with one call, and answers.
fn turn(open: &mut Vec<Connection>, space: &mut [u8], target: &mut Target) -> Outcome<()> {
    let ready = wait(open)?;
    let mut bytes = BytesMut::new();
    let mut answers: Vec<(usize, Bytes)> = Vec::new();
    let mut closed = Vec::new();
    for (number, (connection, flags)) in open.iter_mut().zip(ready).enumerate() {
        if flags.contains(PollFlags::OUT) {
            connection.flush()?;
        }
        if !flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            continue;
        }
        if connection.receive(space).is_err() {
            closed.push(number);
        }
        while let Some(frame) = connection.next_frame()? {
            answers.push((number, produce::accept(&frame)?));
            bytes.put(frame);
        }
    }
    target.append(&bytes)?;
    for (number, answer) in answers {
        if let Some(connection) = open.get_mut(number) {
            connection.send(answer)?;
        }
    }
    for number in closed.into_iter().rev() {
        open.swap_remove(number);
    }
    Ok(())
}

fn wait(open: &[Connection]) -> Outcome<Vec<PollFlags>> {
    let mut sockets: Vec<_> = open.iter().map(|c| PollFd::new(c, c.interest())).collect();
    match poll(&mut sockets, None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(e) => return Err(e.into()),
    }
    Ok(sockets.iter().map(PollFd::revents).collect())
}

impl Target {
    fn append(&mut self, bytes: &[u8]) -> Outcome<()> {
        let end = self.position + bytes.len() as u64;
        if end > self.reserved_to {
            let step = RESERVE_BYTES.max(bytes.len() as u64);
            fallocate(&self.file, FallocateFlags::KEEP_SIZE, self.position, step)?;
            self.reserved_to = self.position + step;
        }
        self.file.write_all_at(bytes, self.position)?;
        self.position = end;
        Ok(())
    }
}
