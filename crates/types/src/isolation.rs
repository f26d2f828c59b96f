//! Small enumerations of the protocol.

/// Which records a reader may see (rules F-10, F-30).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum IsolationLevel {
    /// Everything below the high watermark.
    #[default]
    ReadUncommitted,
    /// Everything below the last stable offset.
    ReadCommitted,
}

impl IsolationLevel {
    /// Wire value 1 is read_committed; Kafka treats every other value as an error, we as 0.
    pub fn from_wire(value: i8) -> Self {
        if value == 1 {
            Self::ReadCommitted
        } else {
            Self::ReadUncommitted
        }
    }
}

/// The acknowledgement that a producer waits for (rule P-1, section 2.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredAcks {
    /// 0: no response at all (W-8).
    None,
    /// 1: after the leader's append.
    Leader,
    /// -1: after the whole ISR has it.
    All,
}

impl RequiredAcks {
    /// Reads the wire value; `None` is rule P-1.
    pub fn from_wire(value: i16) -> Option<Self> {
        match value {
            0 => Some(Self::None),
            1 => Some(Self::Leader),
            -1 => Some(Self::All),
            _ => None,
        }
    }
}

/// Who set a batch's timestamps (attribute bit 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TimestampType {
    /// The producer.
    #[default]
    CreateTime,
    /// The broker, at append.
    LogAppendTime,
}
