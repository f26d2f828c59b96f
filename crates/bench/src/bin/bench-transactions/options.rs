//! What the driver is asked for: options of the form `--name value`.

use std::net::SocketAddr;

use strandline_bench::{Outcome, number, pairs};

/// Sizes and numbers of one run.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) broker: SocketAddr,
    pub(crate) topic: String,
    pub(crate) partitions: u32,
    /// Each on its own connection, one batch at a time.
    pub(crate) producers: u32,
    /// Of all producers; each is a transaction of its own.
    pub(crate) batches: u64,
    /// Of a batch.
    pub(crate) records: u32,
    /// Bytes of one value.
    pub(crate) size: u32,
    /// Of the protocol of transactions: 1 adds partitions by itself, 2 leaves that to the broker
    /// (KIP-890), 0 is an idempotent producer without transactions.
    pub(crate) generation: u8,
    /// Seconds that the whole run may take.
    pub(crate) limit_seconds: u64,
}

impl Options {
    /// Reads the words behind the program's name.
    pub(crate) fn parse(words: &[String]) -> Outcome<Self> {
        let mut options = Self {
            broker: SocketAddr::from(([127, 0, 0, 1], 9092)),
            topic: "bench".to_owned(),
            partitions: 1,
            producers: 1,
            batches: 1000,
            records: 100,
            size: 1024,
            generation: 2,
            limit_seconds: 60,
        };
        for pair in pairs(words) {
            let (name, value) = pair?;
            match name {
                "--brokers" => options.broker = number(name, value)?,
                "--topic" => options.topic = value.to_owned(),
                "--partitions" => options.partitions = number(name, value)?,
                "--producers" => options.producers = number(name, value)?,
                "--batches" => options.batches = number(name, value)?,
                "--records" => options.records = number(name, value)?,
                "--size" => options.size = number(name, value)?,
                "--generation" => options.generation = number(name, value)?,
                "--limit" => options.limit_seconds = number(name, value)?,
                _ => return Err(format!("{name} is no option").into()),
            }
        }
        let is_sound = options.partitions > 0
            && (1..=1024).contains(&options.producers)
            && options.records > 0
            && (1..=1 << 20).contains(&options.size)
            && options.generation <= 2;
        if is_sound {
            Ok(options)
        } else {
            Err(format!("these options make no sense together: {options:?}").into())
        }
    }
}
