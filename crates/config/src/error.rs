//! What can be wrong with settings; all that is wrong is reported at once.

use std::fmt;

/// Where a value was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A line of a properties file, counted from 1.
    File {
        /// Name of the file as it was given.
        name: String,
        /// Line, from 1.
        line: usize,
    },
    /// An environment variable.
    Environment(String),
    /// `--set` on the command line.
    Flag,
    /// A request of a client, or what such a request left in the metadata.
    Request,
    /// Our own table of settings.
    Table,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { name, line } => write!(f, "{name}:{line}"),
            Self::Environment(variable) => write!(f, "environment variable {variable}"),
            Self::Flag => f.write_str("--set"),
            Self::Request => f.write_str("request"),
            Self::Table => f.write_str("built-in default"),
        }
    }
}

/// One thing that is wrong. Values of passwords never appear.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Neither Kafka nor we have the name.
    #[error("{origin}: unknown setting '{name}'{}", hint(.nearest.as_deref()))]
    UnknownName {
        /// The name as given.
        name: String,
        /// Where it was given.
        origin: Origin,
        /// The known name that it resembles most, or what to use instead.
        nearest: Option<String>,
    },
    /// The value is not of the type, or out of bounds.
    #[error("{origin}: {name} = '{value}' is not allowed: must be {allowed}")]
    InvalidValue {
        /// Name of the setting.
        name: String,
        /// The value as given; `[hidden]` for a password.
        value: String,
        /// What is allowed.
        allowed: String,
        /// Where it was given.
        origin: Origin,
    },
    /// A `STRANDLINE_…` variable that names no setting, neither ours nor Kafka's.
    #[error("environment variable {variable} names no setting{}", hint(.nearest.as_deref()))]
    UnknownVariable {
        /// The variable, shortened if it is very long.
        variable: String,
        /// The variable that it resembles most.
        nearest: Option<String>,
    },
    /// Kafka has it, we do not do it yet, and ignoring it would change what the user relies on.
    #[error("{name} = '{value}' is not served yet: {allowed}")]
    NotServed {
        /// Name of the setting.
        name: String,
        /// The value as given.
        value: String,
        /// What is accepted now.
        allowed: String,
    },
    /// The setting cannot be changed while the broker runs.
    #[error("{name} cannot be changed while the broker runs: set it in the file and restart")]
    ReadOnly {
        /// Name of the setting.
        name: String,
    },
    /// APPEND or SUBTRACT on a setting that is not a list (D-41).
    #[error("{name} is not a list: it takes SET and DELETE only")]
    NotAList {
        /// Name of the setting.
        name: String,
    },
    /// SET, APPEND or SUBTRACT without a value (D-40).
    #[error("{name} has no value")]
    NullValue {
        /// Name of the setting.
        name: String,
    },
    /// Settings that do not fit together.
    #[error("{0}")]
    Conflict(Conflict),
    /// The text of a file or flag cannot be read as `name=value`.
    #[error("{origin}: {reason}")]
    Malformed {
        /// Where it was given.
        origin: Origin,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// Longest piece of what somebody sent that is repeated to them, in bytes.
const LONGEST_QUOTE: usize = 200;
/// Errors that are put into one message.
const MOST_IN_A_MESSAGE: usize = 20;

/// The beginning of a text that may come from anywhere and be of any length.
pub(crate) fn quote(text: &str) -> String {
    if text.len() <= LONGEST_QUOTE {
        return text.to_owned();
    }
    let end = (0..=LONGEST_QUOTE)
        .rev()
        .find(|end| text.is_char_boundary(*end))
        .unwrap_or(0);
    format!("{}… ({} bytes)", &text[..end], text.len())
}

fn hint(nearest: Option<&str>) -> String {
    nearest
        .map(|name| format!("; did you mean '{name}'?"))
        .unwrap_or_default()
}

/// Two or more settings that contradict each other (D-44 and the broker's own rules).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", .settings.iter().map(|(name, value)| format!("{name} = '{value}'")).collect::<Vec<_>>().join(", "))]
pub struct Conflict {
    /// The settings and their values.
    pub settings: Vec<(&'static str, String)>,
    /// What the rule says.
    pub reason: &'static str,
}

/// Everything that is wrong, never empty when returned as an error. `Display` is one message of
/// bounded length, for a client; for a start, show them one by one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl ConfigErrors {
    /// The errors one by one.
    pub fn iter(&self) -> std::slice::Iter<'_, ConfigError> {
        self.0.iter()
    }

    pub(crate) fn into_result<T>(self, value: T) -> Result<T, Self> {
        if self.0.is_empty() {
            Ok(value)
        } else {
            Err(self)
        }
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().take(MOST_IN_A_MESSAGE).enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            error.fmt(f)?;
        }
        match self.0.len().saturating_sub(MOST_IN_A_MESSAGE) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

impl std::error::Error for ConfigErrors {}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> Self {
        Self(vec![error])
    }
}

/// Something that the user should know, and that does not stop the broker.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigWarning {
    /// Kafka has the setting and we do not serve it (yet).
    #[error("{origin}: {name} is known to Kafka and not served yet: ignored")]
    NotServed {
        /// Name of the setting.
        name: String,
        /// Where it was given.
        origin: Origin,
    },
    /// Earlier versions of Kafka had the setting.
    #[error("{origin}: {name} was removed from Kafka: ignored")]
    Removed {
        /// Name of the setting.
        name: String,
        /// Where it was given.
        origin: Origin,
    },
    /// A `STRANDLINE_…` variable of the form that container platforms set by themselves.
    #[error(
        "environment variable {variable} names no setting and looks like one that a container platform sets: ignored"
    )]
    VariableOfAPlatform {
        /// The variable.
        variable: String,
    },
    /// A listener of `controller.listener.names`; the metadata quorum is inside the broker for now.
    #[error("listener {0} is for controllers, which need no listener here yet: ignored")]
    ControllerListener(String),
    /// An authorizer is configured, which we do not serve: worth more than a line among many.
    #[error(
        "{origin}: authorizer.class.name is not served yet: every client may do everything on this broker"
    )]
    NoAuthorizer {
        /// Where it was given.
        origin: Origin,
    },
}
