//! Log lines on standard error, for people or as JSON.

use std::io::IsTerminal as _;

use tracing_subscriber::filter::{EnvFilter, ParseError};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};
use tracing_subscriber::{Layer, fmt, registry};

/// Crates that say at info level what nobody asked for. A filter that names one of them wins.
const QUIET: &str = "openraft=error,object_store=warn,hyper=warn,hyper_util=warn,reqwest=warn,\
                     rustls=warn,h2=warn,foyer=warn,foyer_storage=warn,foyer_memory=warn";

/// Form of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LineFormat {
    /// For people; coloured on a terminal.
    #[default]
    Human,
    /// One JSON object per line.
    Json,
}

/// Logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// The filter cannot be read.
    #[error("'{filter}' is not a level or filter of log lines")]
    Filter {
        /// The filter as given.
        filter: String,
        /// What is wrong with it.
        source: ParseError,
    },
    /// It was set up before.
    #[error("log lines are set up already")]
    AlreadySet(#[from] TryInitError),
}

/// Sends the process's log lines to standard error from now on. `filter` is a level (`info`) or a
/// list of them by target (`info,strandline_tiering=debug`). May be called once.
pub fn init_tracing(format: LineFormat, filter: &str) -> Result<(), InitError> {
    let filter = build_filter(filter)?;
    let lines = fmt::layer().with_writer(std::io::stderr);
    let lines = match format {
        LineFormat::Human => lines.with_ansi(std::io::stderr().is_terminal()).boxed(),
        LineFormat::Json => lines
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .boxed(),
    };
    registry().with(lines.with_filter(filter)).try_init()?;
    Ok(())
}

fn build_filter(filter: &str) -> Result<EnvFilter, InitError> {
    // Of two directives for one target the later one holds, so ours come first.
    EnvFilter::try_new(format!("{QUIET},{}", filter.trim())).map_err(|source| InitError::Filter {
        filter: filter.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Sink {
        type Writer = Self;
        fn make_writer(&'a self) -> Self {
            self.clone()
        }
    }

    fn written(filter: &str) -> String {
        let sink = Sink::default();
        let lines = fmt::layer().with_ansi(false).with_writer(sink.clone());
        let subscriber = registry().with(lines.with_filter(build_filter(filter).unwrap()));
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(target: "strandline_broker", "ours at info");
            tracing::debug!(target: "strandline_broker", "ours at debug");
            tracing::info!(target: "openraft::core", "theirs at info");
            tracing::warn!(target: "openraft::core", "theirs at warn");
        });
        let bytes = sink.0.lock().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn noisy_crates_are_quiet_unless_they_are_named() {
        let text = written("info");
        assert!(
            text.contains("ours at info") && !text.contains("theirs at warn"),
            "{text}"
        );
        assert!(
            !text.contains("ours at debug") && !text.contains("theirs at info"),
            "{text}"
        );
        let text = written("debug");
        assert!(
            text.contains("ours at debug") && !text.contains("theirs at info"),
            "{text}"
        );
        let text = written("warn,openraft=info");
        assert!(
            !text.contains("ours at info") && text.contains("theirs at info"),
            "{text}"
        );
    }

    #[test]
    fn a_wrong_filter_is_an_error() {
        assert!(matches!(
            build_filter("a=loud"),
            Err(InitError::Filter { .. })
        ));
    }
}
