//! Typed values of settings: reading them as Kafka reads them, writing them as Kafka shows them.
//!
//! Rules: D-35 (types).

use std::fmt;
use std::path::PathBuf;

use strandline_types::TimestampType;

use crate::def::ConfigType;

/// A value of a setting, of the type that its row says. `Display` is Kafka's way to show it.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// BOOLEAN.
    Boolean(bool),
    /// STRING, CLASS or PASSWORD.
    Text(String),
    /// SHORT, INT or LONG.
    Integer(i64),
    /// DOUBLE.
    Double(f64),
    /// LIST.
    List(Vec<String>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean(value) => value.fmt(f),
            Self::Text(value) => f.write_str(value),
            Self::Integer(value) => value.fmt(f),
            // Java writes a whole number with its ".0", as Debug does.
            Self::Double(value) => write!(f, "{value:?}"),
            Self::List(items) => f.write_str(&items.join(",")),
        }
    }
}

/// Reads `text` as Kafka's config parser does: trimmed, lists split at commas, booleans in any
/// case. `None` if it is not of the type.
pub(crate) fn parse_typed(config_type: ConfigType, text: &str) -> Option<Value> {
    let text = text.trim();
    let integer = |min: i64, max: i64| {
        let number: i64 = text.parse().ok()?;
        (min..=max)
            .contains(&number)
            .then_some(Value::Integer(number))
    };
    match config_type {
        ConfigType::Boolean if text.eq_ignore_ascii_case("true") => Some(Value::Boolean(true)),
        ConfigType::Boolean if text.eq_ignore_ascii_case("false") => Some(Value::Boolean(false)),
        ConfigType::Boolean => None,
        ConfigType::String | ConfigType::Class | ConfigType::Password => {
            Some(Value::Text(text.to_owned()))
        }
        ConfigType::Int => integer(i32::MIN.into(), i32::MAX.into()),
        ConfigType::Short => integer(i16::MIN.into(), i16::MAX.into()),
        ConfigType::Long => integer(i64::MIN, i64::MAX),
        ConfigType::Double => {
            let number: f64 = text.parse().ok()?;
            number.is_finite().then_some(Value::Double(number))
        }
        ConfigType::List => Some(Value::List(split_list(text))),
    }
}

fn split_list(text: &str) -> Vec<String> {
    if text.is_empty() {
        return Vec::new();
    }
    text.split(',').map(|item| item.trim().to_owned()).collect()
}

/// A Rust type that a validated value turns into. `None` means that the row of the setting and
/// the type of its field do not fit together, which the tests rule out; the reader reports it.
pub(crate) trait Field: Default {
    fn from_value(value: Option<&Value>) -> Option<Self>;
}

macro_rules! integer_fields {
    ($($type:ty),*) => { $(
        impl Field for $type {
            fn from_value(value: Option<&Value>) -> Option<Self> {
                match value? {
                    Value::Integer(number) => Self::try_from(*number).ok(),
                    _ => None,
                }
            }
        }
    )* };
}
integer_fields!(i16, i32, i64, u16, u32, u64, usize);

impl Field for bool {
    fn from_value(value: Option<&Value>) -> Option<Self> {
        match value? {
            Value::Boolean(value) => Some(*value),
            _ => None,
        }
    }
}

impl Field for f64 {
    fn from_value(value: Option<&Value>) -> Option<Self> {
        match value? {
            Value::Double(value) => Some(*value),
            _ => None,
        }
    }
}

impl Field for String {
    fn from_value(value: Option<&Value>) -> Option<Self> {
        match value? {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        }
    }
}

impl Field for PathBuf {
    fn from_value(value: Option<&Value>) -> Option<Self> {
        String::from_value(value).map(Self::from)
    }
}

impl Field for Vec<String> {
    fn from_value(value: Option<&Value>) -> Option<Self> {
        match value? {
            Value::List(items) => Some(items.clone()),
            _ => None,
        }
    }
}

impl<T: Field> Field for Option<T> {
    fn from_value(value: Option<&Value>) -> Option<Self> {
        match value {
            None => Some(None),
            some => T::from_value(some).map(Some),
        }
    }
}

impl Field for TimestampType {
    fn from_value(value: Option<&Value>) -> Option<Self> {
        match value? {
            Value::Text(text) if text == "CreateTime" => Some(Self::CreateTime),
            Value::Text(text) if text == "LogAppendTime" => Some(Self::LogAppendTime),
            _ => None,
        }
    }
}

/// `compression.type` of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CompressionType {
    /// Keep what the producer chose.
    #[default]
    Producer,
    /// Store without compression.
    Uncompressed,
    /// Recompress with gzip.
    Gzip,
    /// Recompress with snappy.
    Snappy,
    /// Recompress with lz4.
    Lz4,
    /// Recompress with zstd.
    Zstd,
}

impl CompressionType {
    pub(crate) const NAMES: &'static [&'static str] =
        &["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"];
}

impl Field for CompressionType {
    fn from_value(value: Option<&Value>) -> Option<Self> {
        let Value::Text(text) = value? else {
            return None;
        };
        Some(match text.as_str() {
            "producer" => Self::Producer,
            "uncompressed" => Self::Uncompressed,
            "gzip" => Self::Gzip,
            "snappy" => Self::Snappy,
            "lz4" => Self::Lz4,
            "zstd" => Self::Zstd,
            _ => return None,
        })
    }
}

/// `cleanup.policy` of a topic; neither of the two means that everything is kept (L-34).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct CleanupPolicy {
    /// Old segments are deleted by time and size.
    pub delete: bool,
    /// Only the last record of each key is kept.
    pub compact: bool,
}

impl Field for CleanupPolicy {
    fn from_value(value: Option<&Value>) -> Option<Self> {
        let Value::List(items) = value? else {
            return None;
        };
        let has = |word: &str| items.iter().any(|item| item == word);
        Some(Self {
            delete: has("delete"),
            compact: has("compact"),
        })
    }
}

/// `strandline.produce.check`: how far a compressed batch of a client is looked into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ProduceCheck {
    /// Decompress and walk the records, as Kafka does.
    #[default]
    Full,
    /// Header and checksum only.
    Header,
}

impl Field for ProduceCheck {
    fn from_value(value: Option<&Value>) -> Option<Self> {
        match value? {
            Value::Text(text) if text == "full" => Some(Self::Full),
            Value::Text(text) if text == "header" => Some(Self::Header),
            _ => None,
        }
    }
}

/// `strandline.log.format`: the form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum LogLineFormat {
    /// For people.
    #[default]
    Human,
    /// One JSON object per line.
    Json,
}

impl Field for LogLineFormat {
    fn from_value(value: Option<&Value>) -> Option<Self> {
        match value? {
            Value::Text(text) if text == "human" => Some(Self::Human),
            Value::Text(text) if text == "json" => Some(Self::Json),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // D-35
    #[test]
    fn values_are_read_and_shown_as_kafka_does() {
        let shown = |t, s| parse_typed(t, s).map(|v| v.to_string());
        assert_eq!(shown(ConfigType::Boolean, " TRUE "), Some("true".into()));
        assert_eq!(shown(ConfigType::Boolean, "yes"), None);
        assert_eq!(shown(ConfigType::Int, "+7"), Some("7".into()));
        assert_eq!(shown(ConfigType::Int, "2147483648"), None);
        assert_eq!(shown(ConfigType::Short, "32768"), None);
        assert_eq!(
            shown(ConfigType::Long, "9223372036854775807"),
            Some(i64::MAX.to_string())
        );
        assert_eq!(shown(ConfigType::Long, "1e3"), None);
        assert_eq!(shown(ConfigType::Double, "1"), Some("1.0".into()));
        assert_eq!(shown(ConfigType::Double, "NaN"), None);
        assert_eq!(shown(ConfigType::List, " a , b "), Some("a,b".into()));
        assert_eq!(shown(ConfigType::List, ""), Some(String::new()));
        assert_eq!(shown(ConfigType::Int, ""), None);
    }
}
