//! What can go wrong at the store: the operation, the cause by kind, and whether it may have taken
//! effect all the same.

use std::error::Error as StdError;
use std::fmt;

use crate::metrics::Op;

type Source = Box<dyn StdError + Send + Sync>;

/// The cause of a failed request, as far as the store tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BucketErrorKind {
    /// No such object (or bucket).
    NotFound,
    /// The object exists, or a concurrent conditional request is in flight (S3's 409).
    Conflict,
    /// Credentials missing, wrong or without the permission.
    Denied,
    /// The store asks for fewer requests (503 SlowDown, 429).
    Throttled,
    /// No answer in time.
    Timeout,
    /// No connection: name not resolved, refused, reset before the request was sent.
    Unreachable,
    /// The store failed (5xx), or the connection broke half-way.
    Server,
    /// The request makes no sense to the store (4xx, a range behind the end, a wrong key).
    Invalid,
    /// The store cannot do this.
    Unsupported,
    /// A local file, or the local-directory store, failed (no space, I/O error).
    Io,
    /// A probe found that the store breaks a promise that we need.
    Unsuitable,
}

impl BucketErrorKind {
    /// True when the same request may succeed later.
    pub fn is_retriable(self) -> bool {
        matches!(
            self,
            Self::Throttled | Self::Timeout | Self::Unreachable | Self::Server | Self::Conflict
        )
    }

    /// Short name, the `outcome` label of the metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::Denied => "denied",
            Self::Throttled => "throttled",
            Self::Timeout => "timeout",
            Self::Unreachable => "unreachable",
            Self::Server => "error",
            Self::Invalid => "invalid",
            Self::Unsupported => "unsupported",
            Self::Io => "io",
            Self::Unsuitable => "unsuitable",
        }
    }
}

/// Whether a failed write may have happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Surely nothing was changed.
    NotDone,
    /// The change may be there, now or a little later; read before deciding.
    MaybeDone,
}

/// A request to the store that failed.
#[derive(Debug)]
pub struct BucketError {
    op: Op,
    key: String,
    kind: BucketErrorKind,
    outcome: Outcome,
    source: Source,
}

impl BucketError {
    pub(crate) fn new(op: Op, key: &str, kind: BucketErrorKind, source: impl Into<Source>) -> Self {
        let outcome = match kind {
            BucketErrorKind::Timeout | BucketErrorKind::Server | BucketErrorKind::Io
                if op.is_write() =>
            {
                Outcome::MaybeDone
            }
            _ => Outcome::NotDone,
        };
        Self {
            op,
            key: key.to_owned(),
            kind,
            outcome,
            source: source.into(),
        }
    }

    pub(crate) fn from_store(op: Op, key: &str, error: object_store::Error) -> Self {
        let kind = classify(&error);
        Self::new(op, key, kind, error)
    }

    /// The cause.
    pub fn kind(&self) -> BucketErrorKind {
        self.kind
    }

    /// Whether the request may have taken effect.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// The object that the request was for, without the bucket's prefix.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// True when the same request may succeed later.
    pub fn is_retriable(&self) -> bool {
        self.kind.is_retriable()
    }

    /// True when there is no such object (or bucket).
    pub fn is_not_found(&self) -> bool {
        self.kind == BucketErrorKind::NotFound
    }

    /// True when credentials are missing, wrong or too weak.
    pub fn is_denied(&self) -> bool {
        self.kind == BucketErrorKind::Denied
    }

    pub(crate) fn with_outcome(mut self, outcome: Outcome) -> Self {
        self.outcome = outcome;
        self
    }
}

impl fmt::Display for BucketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = match self.kind {
            BucketErrorKind::NotFound => "not found",
            BucketErrorKind::Conflict => "already exists or is being written",
            BucketErrorKind::Denied => "access denied",
            BucketErrorKind::Throttled => "the store asks to slow down",
            BucketErrorKind::Timeout => "no answer in time",
            BucketErrorKind::Unreachable => "the store cannot be reached",
            BucketErrorKind::Server => "the store failed",
            BucketErrorKind::Invalid => "the store refused the request",
            BucketErrorKind::Unsupported => "the store cannot do this",
            BucketErrorKind::Io => "local i/o failed",
            BucketErrorKind::Unsuitable => "the store is not usable",
        };
        write!(
            f,
            "{} of '{}': {cause}: {}",
            self.op.label(),
            self.key,
            root_text(&*self.source)
        )
    }
}

impl StdError for BucketError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.source)
    }
}

/// The deepest causes say what happened; the layers above repeat them or hide them.
fn root_text(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let more = cause.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        next = cause.source();
    }
    text
}

fn classify(error: &object_store::Error) -> BucketErrorKind {
    use object_store::Error as E;
    match error {
        E::NotFound { .. } => BucketErrorKind::NotFound,
        E::AlreadyExists { .. } | E::Precondition { .. } | E::NotModified { .. } => {
            BucketErrorKind::Conflict
        }
        E::PermissionDenied { .. } | E::Unauthenticated { .. } => BucketErrorKind::Denied,
        E::InvalidPath { .. } | E::UnknownConfigurationKey { .. } => BucketErrorKind::Invalid,
        E::NotSupported { .. } | E::NotImplemented { .. } => BucketErrorKind::Unsupported,
        E::JoinError { .. } => BucketErrorKind::Server,
        E::Generic { store, source } => classify_source(store, &**source),
        _ => BucketErrorKind::Server,
    }
}

fn classify_source(store: &str, source: &(dyn StdError + 'static)) -> BucketErrorKind {
    let mut next = Some(source);
    while let Some(cause) = next {
        if let Some(http) = cause.downcast_ref::<object_store::client::HttpError>() {
            use object_store::client::HttpErrorKind as K;
            return match http.kind() {
                K::Connect => BucketErrorKind::Unreachable,
                K::Timeout => BucketErrorKind::Timeout,
                _ => BucketErrorKind::Server,
            };
        }
        if let Some(io) = cause.downcast_ref::<std::io::Error>() {
            return match io.kind() {
                std::io::ErrorKind::PermissionDenied => BucketErrorKind::Denied,
                _ => BucketErrorKind::Io,
            };
        }
        next = cause.source();
    }
    let text = root_text(source);
    match http_status(&text) {
        Some(429 | 503) => BucketErrorKind::Throttled,
        Some(401 | 403) => BucketErrorKind::Denied,
        Some(404) => BucketErrorKind::NotFound,
        Some(400..500) => BucketErrorKind::Invalid,
        Some(_) => BucketErrorKind::Server,
        None if text.contains("SlowDown") => BucketErrorKind::Throttled,
        // The credential providers speak in plain text.
        None if text.contains("credential") => BucketErrorKind::Denied,
        None if store == "LocalFileSystem" || store == "InMemory" => BucketErrorKind::Invalid,
        None => BucketErrorKind::Server,
    }
}

/// The crate keeps the status private; its text is "… status code: 503 Service Unavailable: …".
fn http_status(text: &str) -> Option<u16> {
    let (_, rest) = text.split_once("status code: ")?;
    rest.get(..3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(text: &str) -> object_store::Error {
        object_store::Error::Generic {
            store: "S3",
            source: text.to_owned().into(),
        }
    }

    #[test]
    fn causes_are_told_apart() {
        let kind = |text: &str| classify(&generic(text));
        assert_eq!(kind("status code: 503 Slow"), BucketErrorKind::Throttled);
        assert_eq!(kind("status code: 500 Internal"), BucketErrorKind::Server);
        assert_eq!(kind("status code: 400 Bad"), BucketErrorKind::Invalid);
        assert_eq!(kind("<Code>SlowDown</Code>"), BucketErrorKind::Throttled);
        assert_eq!(kind("no credential found"), BucketErrorKind::Denied);
    }

    #[test]
    fn only_ambiguous_writes_may_have_happened() {
        let put = BucketError::from_store(Op::Put, "k", generic("status code: 500 x"));
        assert_eq!(put.outcome(), Outcome::MaybeDone);
        let get = BucketError::from_store(Op::Get, "k", generic("status code: 500 x"));
        assert_eq!(get.outcome(), Outcome::NotDone);
        let slow = BucketError::from_store(Op::Put, "k", generic("status code: 503 x"));
        assert_eq!(slow.outcome(), Outcome::NotDone);
    }
}
