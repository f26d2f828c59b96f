//! The definition of one setting: name, type, default, what is allowed, whether we honour it.
//!
//! From one row per setting come parsing, validation, DescribeConfigs, synonyms and the reference
//! page. Rules: D-34, D-35, D-36.

use crate::value::{Value, parse_typed};

/// Type of a setting, as DescribeConfigs v3 reports it (D-35).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigType {
    /// `true` or `false`, in any case.
    Boolean,
    /// Any text, trimmed.
    String,
    /// 32-bit integer.
    Int,
    /// 16-bit integer.
    Short,
    /// 64-bit integer.
    Long,
    /// Floating point number.
    Double,
    /// Values separated by commas.
    List,
    /// Name of a Java class; never served.
    Class,
    /// Text that is never shown.
    Password,
}

impl ConfigType {
    /// The number on the wire.
    pub fn wire(self) -> i8 {
        match self {
            Self::Boolean => 1,
            Self::String => 2,
            Self::Int => 3,
            Self::Short => 4,
            Self::Long => 5,
            Self::Double => 6,
            Self::List => 7,
            Self::Class => 8,
            Self::Password => 9,
        }
    }

    /// Kafka's word for the type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Boolean => "BOOLEAN",
            Self::String => "STRING",
            Self::Int => "INT",
            Self::Short => "SHORT",
            Self::Long => "LONG",
            Self::Double => "DOUBLE",
            Self::List => "LIST",
            Self::Class => "CLASS",
            Self::Password => "PASSWORD",
        }
    }

    /// True if values of the type are never shown (D-35).
    pub fn is_sensitive(self) -> bool {
        matches!(self, Self::Password)
    }
}

/// What a setting is when nobody sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultValue {
    /// No value.
    Null,
    /// This text, parsed like any other.
    Text(&'static str),
    /// Computed at start from the machine or from other settings; the text says how.
    Derived(&'static str),
}

/// Which values a setting takes, besides being of its type.
#[derive(Debug, Clone, Copy)]
pub enum Allowed {
    /// Every value of the type.
    Any,
    /// Integers from `min` to `max`, both inclusive.
    Range {
        /// Least value, inclusive.
        min: i64,
        /// Greatest value, inclusive.
        max: i64,
    },
    /// Numbers from `min` to `max`, both inclusive.
    Fraction {
        /// Least value, inclusive.
        min: f64,
        /// Greatest value, inclusive.
        max: f64,
    },
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A list of these words.
    ListOf(&'static [&'static str]),
    /// Whatever the function accepts; the text says what that is.
    Check(&'static str, fn(&str) -> bool),
}

/// A broker setting that a topic setting takes its value from, and how it is converted (D-34).
#[derive(Debug, Clone, Copy)]
pub struct Synonym {
    /// Name of the broker setting.
    pub name: &'static str,
    /// The topic's value is the broker's multiplied by this (60,000 for minutes to ms).
    pub multiplier: i64,
}

/// Where a setting applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The broker, or all brokers.
    Broker,
    /// One topic.
    Topic,
}

/// One setting.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Kafka's name letter for letter, or ours, which begins with `strandline.`.
    pub name: &'static str,
    /// Type of its values.
    pub config_type: ConfigType,
    /// Value when nobody sets it.
    pub default: DefaultValue,
    /// Kafka's default where ours is another one on purpose.
    pub kafka_default: Option<&'static str>,
    /// What it takes.
    pub allowed: Allowed,
    /// Broker settings only: may be changed while the broker runs.
    pub dynamic: bool,
    /// Whether we do what it says. A setting that is not served accepts its default only.
    pub served: bool,
    /// Topic settings only: broker settings that supply the value, in Kafka's order (D-34).
    pub synonyms: &'static [Synonym],
    /// What it does, with units.
    pub doc: &'static str,
}

const fn setting(
    name: &'static str,
    config_type: ConfigType,
    default: DefaultValue,
    allowed: Allowed,
) -> Setting {
    Setting {
        name,
        config_type,
        default,
        kafka_default: None,
        allowed,
        dynamic: false,
        served: true,
        synonyms: &[],
        doc: "",
    }
}

/// Row of a BOOLEAN setting.
pub(crate) const fn boolean(name: &'static str, default: &'static str) -> Setting {
    setting(
        name,
        ConfigType::Boolean,
        DefaultValue::Text(default),
        Allowed::Any,
    )
}

/// Row of an INT setting.
pub(crate) const fn int(name: &'static str, default: &'static str) -> Setting {
    setting(
        name,
        ConfigType::Int,
        DefaultValue::Text(default),
        Allowed::Any,
    )
}

/// Row of a SHORT setting.
pub(crate) const fn short(name: &'static str, default: &'static str) -> Setting {
    setting(
        name,
        ConfigType::Short,
        DefaultValue::Text(default),
        Allowed::Any,
    )
}

/// Row of a LONG setting.
pub(crate) const fn long(name: &'static str, default: &'static str) -> Setting {
    setting(
        name,
        ConfigType::Long,
        DefaultValue::Text(default),
        Allowed::Any,
    )
}

/// Row of a DOUBLE setting between two bounds, both inclusive.
pub(crate) const fn fraction(
    name: &'static str,
    default: &'static str,
    min: f64,
    max: f64,
) -> Setting {
    let allowed = Allowed::Fraction { min, max };
    setting(
        name,
        ConfigType::Double,
        DefaultValue::Text(default),
        allowed,
    )
}

/// Row of a STRING setting.
pub(crate) const fn string(name: &'static str, default: &'static str) -> Setting {
    setting(
        name,
        ConfigType::String,
        DefaultValue::Text(default),
        Allowed::Any,
    )
}

/// Row of a STRING setting that takes one of a few words.
pub(crate) const fn one_of(
    name: &'static str,
    default: &'static str,
    words: &'static [&'static str],
) -> Setting {
    setting(
        name,
        ConfigType::String,
        DefaultValue::Text(default),
        Allowed::OneOf(words),
    )
}

/// Row of a LIST setting.
pub(crate) const fn list(name: &'static str, default: &'static str) -> Setting {
    setting(
        name,
        ConfigType::List,
        DefaultValue::Text(default),
        Allowed::Any,
    )
}

/// Row of a setting without a default.
pub(crate) const fn optional(name: &'static str, config_type: ConfigType) -> Setting {
    setting(name, config_type, DefaultValue::Null, Allowed::Any)
}

/// Row of a setting whose default is computed at start.
pub(crate) const fn derived(
    name: &'static str,
    config_type: ConfigType,
    how: &'static str,
) -> Setting {
    setting(name, config_type, DefaultValue::Derived(how), Allowed::Any)
}

impl Setting {
    pub(crate) const fn at_least(mut self, min: i64) -> Self {
        self.allowed = Allowed::Range { min, max: i64::MAX };
        self
    }

    pub(crate) const fn between(mut self, min: i64, max: i64) -> Self {
        self.allowed = Allowed::Range { min, max };
        self
    }

    pub(crate) const fn list_of(mut self, words: &'static [&'static str]) -> Self {
        self.allowed = Allowed::ListOf(words);
        self
    }

    pub(crate) const fn check(mut self, text: &'static str, accepts: fn(&str) -> bool) -> Self {
        self.allowed = Allowed::Check(text, accepts);
        self
    }

    pub(crate) const fn dynamic(mut self) -> Self {
        self.dynamic = true;
        self
    }

    pub(crate) const fn not_served(mut self) -> Self {
        self.served = false;
        self
    }

    pub(crate) const fn unlike_kafka(mut self, kafka_default: &'static str) -> Self {
        self.kafka_default = Some(kafka_default);
        self
    }

    pub(crate) const fn inherits(mut self, synonyms: &'static [Synonym]) -> Self {
        self.synonyms = synonyms;
        self
    }

    pub(crate) const fn doc(mut self, doc: &'static str) -> Self {
        self.doc = doc;
        self
    }

    /// True for a setting that Kafka does not have.
    pub fn is_ours(&self) -> bool {
        self.name.starts_with("strandline.")
    }

    /// Reads one value; the error is what would have been allowed.
    pub fn parse(&self, text: &str) -> Result<Value, String> {
        let value = parse_typed(self.config_type, text).ok_or_else(|| self.allowed_text())?;
        let accepted = match (&self.allowed, &value) {
            (Allowed::Any, _) => true,
            (Allowed::Range { min, max }, Value::Integer(n)) => (min..=max).contains(&n),
            (Allowed::Fraction { min, max }, Value::Double(n)) => (min..=max).contains(&n),
            (Allowed::OneOf(words), Value::Text(word)) => words.contains(&word.as_str()),
            (Allowed::ListOf(words), Value::List(items)) => {
                items.iter().all(|item| words.contains(&item.as_str()))
            }
            (Allowed::Check(_, accepts), _) => accepts(text.trim()),
            _ => false,
        };
        if accepted {
            Ok(value)
        } else {
            Err(self.allowed_text())
        }
    }

    /// What the setting takes, for people: "INT, 1 or more".
    pub fn allowed_text(&self) -> String {
        let kind = self.config_type.name();
        match self.allowed {
            Allowed::Any => match self.config_type {
                ConfigType::Boolean => "BOOLEAN, true or false".to_owned(),
                _ => kind.to_owned(),
            },
            Allowed::Range { min, max: i64::MAX } => format!("{kind}, {min} or more"),
            Allowed::Range { min, max } => format!("{kind}, {min} to {max}"),
            Allowed::Fraction { min, max: f64::MAX } => format!("{kind}, {min} or more"),
            Allowed::Fraction { min, max } => format!("{kind}, {min} to {max}"),
            Allowed::OneOf(words) => format!("one of {}", words.join(", ")),
            Allowed::ListOf(words) => format!("LIST of {}", words.join(", ")),
            Allowed::Check(text, _) => text.to_owned(),
        }
    }

    /// The built-in default as text, if it is not computed.
    pub fn default_text(&self) -> Option<&'static str> {
        match self.default {
            DefaultValue::Text(text) => Some(text),
            DefaultValue::Null | DefaultValue::Derived(_) => None,
        }
    }
}
