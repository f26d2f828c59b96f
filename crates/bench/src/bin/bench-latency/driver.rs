//! The loop: one thread, all connections, woken by the schedule and by answers.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hdrhistogram::Histogram;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use strandline_bench::{Connection, Outcome};

use crate::lane::Lane;
use crate::marks::Marks;
use crate::options::Options;
use crate::produce::{Requests, check_answer};
use crate::schedule::{Nanos, Schedule};

/// The longest latency that is told apart.
const MOST: Nanos = 600_000_000_000;
/// A request is no larger than Kafka's own `batch.size` of librdkafka: 1 MB.
const MOST_REQUEST_BYTES: u64 = 1_000_000;

/// What was found; times in ns.
#[derive(Debug)]
pub(crate) struct Findings {
    pub(crate) latency: Histogram<u64>,
    /// By how much the driver sent later than it could have.
    pub(crate) late: Histogram<u64>,
    /// All requests, and all records, the warming ones included.
    pub(crate) requests: u64,
    pub(crate) records: u64,
    /// From the first record due to the last answer.
    pub(crate) seconds: f64,
}

/// A connection, its lane, and the numbers of its requests.
struct Worker {
    connection: Connection,
    lane: Lane,
    next_partition: u32,
    next_correlation: i32,
    next_answer: i32,
}

/// Runs the whole schedule. Errors: an answer with an error, a lost connection, answers that do
/// not come in time.
pub(crate) fn run(options: &Options) -> Outcome<Findings> {
    let times = (options.warm_seconds, options.seconds);
    let schedule = Schedule::new(options.rate, options.size, options.connections, times);
    let mut workers = (0..options.connections)
        .map(|number| worker(options, schedule, number))
        .collect::<Outcome<Vec<_>>>()?;
    let mut requests = Requests::new(&options.topic, options.size as usize, options.acks);
    let mut findings = Findings {
        latency: Histogram::new_with_bounds(1, MOST, 3)?,
        late: Histogram::new_with_bounds(1, MOST, 3)?,
        requests: 0,
        records: 0,
        seconds: 0.0,
    };
    let last = options.limit_seconds * 1_000_000_000;
    let mut marks = Marks::open(options.mark_over_ms)?;
    let mut space = Connection::space();
    let started = Instant::now();
    loop {
        for worker in &mut workers {
            worker.send_due(started, &mut requests, options.partitions, &mut findings)?;
        }
        if workers.iter().all(|worker| worker.lane.is_done()) {
            findings.seconds = started.elapsed().as_secs_f64();
            return Ok(findings);
        }
        let now = since(started);
        if now > last {
            return Err("the answers do not come".into());
        }
        let ready = wait(&workers, now)?;
        for (worker, flags) in workers.iter_mut().zip(ready) {
            if flags.contains(PollFlags::OUT) {
                worker.connection.flush()?;
            }
            if flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                worker.connection.receive(&mut space)?;
                worker.take_answers(started, &mut findings, marks.as_mut())?;
            }
        }
    }
}

fn worker(options: &Options, schedule: Schedule, number: u32) -> Outcome<Worker> {
    let most_records = MOST_REQUEST_BYTES / u64::from(options.size);
    Ok(Worker {
        connection: Connection::open(options.broker)?,
        lane: Lane::new(number, schedule, options.in_flight, most_records),
        next_partition: number % options.partitions,
        next_correlation: 0,
        next_answer: 0,
    })
}

fn since(started: Instant) -> Nanos {
    started.elapsed().as_nanos() as Nanos
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| d.as_millis() as i64)
}

/// Sleeps until a socket has something, or a record is due; at most a second.
fn wait(workers: &[Worker], now: Nanos) -> Outcome<Vec<PollFlags>> {
    let next = workers.iter().filter_map(|w| w.lane.wakes_at()).min();
    let nanos = next.map_or(Nanos::MAX, |at| at.saturating_sub(now));
    let timeout = Timespec::try_from(Duration::from_nanos(nanos.min(1_000_000_000)))?;
    let mut sockets: Vec<_> = workers
        .iter()
        .map(|w| PollFd::new(&w.connection, w.connection.interest()))
        .collect();
    match poll(&mut sockets, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(e) => return Err(e.into()),
    }
    Ok(sockets.iter().map(PollFd::revents).collect())
}

impl Worker {
    fn send_due(
        &mut self,
        started: Instant,
        requests: &mut Requests,
        partitions: u32,
        findings: &mut Findings,
    ) -> Outcome<()> {
        while let Some((sent, late)) = self.lane.next(since(started)) {
            let correlation = self.next_correlation;
            let frame = requests.frame(correlation, self.next_partition, sent.count, now_ms())?;
            self.connection.send(frame)?;
            self.next_correlation += 1;
            self.next_partition = (self.next_partition + 1) % partitions;
            findings.requests += 1;
            findings.records += sent.count;
            findings.late.saturating_record(late.max(1));
        }
        Ok(())
    }

    fn take_answers(
        &mut self,
        started: Instant,
        findings: &mut Findings,
        mut marks: Option<&mut Marks>,
    ) -> Outcome<()> {
        while let Some(frame) = self.connection.next_frame()? {
            let now = since(started);
            check_answer(frame, self.next_answer)?;
            self.next_answer += 1;
            let sent = self.lane.answered(now).ok_or("an answer to nothing")?;
            for latency in self.lane.latencies(sent, now) {
                findings.latency.saturating_record(latency.max(1));
                if let Some(marks) = &mut marks {
                    marks.answered(latency)?;
                }
            }
        }
        Ok(())
    }
}
