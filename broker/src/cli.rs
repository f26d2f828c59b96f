//! Arguments of the program `strandline`.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use strandline_config::{BrokerConfig, ConfigErrors, Loaded, LogLineFormat, Machine, Sources};
use strandline_telemetry::LineFormat;

use crate::server;

/// Exit code of a wrong setting or argument.
const EXIT_USAGE: u8 = 2;
/// Exit code of a start or run that failed.
const EXIT_FAILURE: u8 = 1;

/// A Kafka-compatible broker that is built around object storage.
#[derive(Debug, Parser)]
#[command(name = "strandline", version)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs a broker; this is also what happens without a command.
    Server(ServerArgs),
    /// Prints the table of all settings as Markdown.
    Settings,
}

#[derive(Debug, Args, Default)]
struct ServerArgs {
    /// Properties file with Kafka's names.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// One setting; wins over the file and the environment.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
}

/// Runs the program; the exit code is 2 for a wrong setting, 1 for a failed start.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => {
            // The message is all that can be said; there may be nobody to read it.
            let _ = e.print();
            return ExitCode::from(if e.use_stderr() { EXIT_USAGE } else { 0 });
        }
    };
    match cli
        .command
        .unwrap_or_else(|| Command::Server(ServerArgs::default()))
    {
        Command::Server(args) => run_server(&args),
        Command::Settings => {
            let text = strandline_config::reference_markdown();
            let done = std::io::stdout().write_all(text.as_bytes());
            done.map_or(ExitCode::from(EXIT_FAILURE), |()| ExitCode::SUCCESS)
        }
    }
}

fn run_server(args: &ServerArgs) -> ExitCode {
    let loaded = match load(args) {
        Ok(loaded) => loaded,
        Err(lines) => {
            for line in lines {
                complain(&line);
            }
            return ExitCode::from(EXIT_USAGE);
        }
    };
    let format = match loaded.config.strandline.log_format {
        LogLineFormat::Human => LineFormat::Human,
        LogLineFormat::Json => LineFormat::Json,
    };
    if let Err(e) = strandline_telemetry::init_tracing(format, &loaded.config.strandline.log_level)
    {
        complain(&e.to_string());
        return ExitCode::from(EXIT_USAGE);
    }
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    match server::run(loaded.config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            // Who reads the log as JSON finds the cause in it, unless the log is off.
            if format == LineFormat::Json && tracing::enabled!(tracing::Level::ERROR) {
                tracing::error!("{}", chain(&e));
            } else {
                complain(&chain(&e));
            }
            ExitCode::from(EXIT_FAILURE)
        }
    }
}

/// Reads all layers of settings. Errors: every line that is wrong.
fn load(args: &ServerArgs) -> Result<Loaded, Vec<String>> {
    let file = match &args.config {
        None => None,
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|e| vec![format!("read {}: {e}", path.display())])?;
            Some((path.display().to_string(), text))
        }
    };
    let environment = environment(std::env::vars_os())?;
    let sources = Sources {
        file,
        environment,
        flags: args.set.clone(),
    };
    let machine = Machine {
        memory_bytes: strandline_env::memory_bytes(),
        disk_free_bytes: &strandline_env::disk_free_bytes,
        host_name: strandline_env::host_name(),
        current_dir: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
    };
    BrokerConfig::load(&sources, &machine)
        .map_err(|errors: ConfigErrors| errors.iter().map(ToString::to_string).collect())
}

/// An error with its causes, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(e) = cause {
        let text = e.to_string();
        if !line.ends_with(&text) {
            line = format!("{line}: {text}");
        }
        cause = e.source();
    }
    line
}

/// What can be read of the environment. A setting that is no text is wrong, all else is not ours.
fn environment(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Result<Vec<(String, String)>, Vec<String>> {
    let mut read = Vec::new();
    let mut wrong = Vec::new();
    for (name, value) in variables {
        let shown = name.to_string_lossy().into_owned();
        match (name.into_string(), value.into_string()) {
            (Ok(name), Ok(value)) => read.push((name, value)),
            _ if shown.starts_with("STRANDLINE_") => {
                wrong.push(format!(
                    "environment variable {shown}: must be text in UTF-8"
                ));
            }
            _ => {}
        }
    }
    if wrong.is_empty() {
        Ok(read)
    } else {
        Err(wrong)
    }
}

fn complain(line: &str) {
    // Standard error may be closed; then nobody wants to know.
    let _ = writeln!(std::io::stderr(), "strandline: {line}");
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    #[test]
    fn a_setting_in_the_environment_that_is_no_text_is_wrong() {
        let no_text = || OsString::from_vec(vec![b'a', 0xff]);
        let good = ("STRANDLINE_DATA_DIR".into(), "/d".into());
        let foreign = ("PS1".into(), no_text());
        let read = environment([good, foreign].into_iter());
        let expected = vec![("STRANDLINE_DATA_DIR".to_owned(), "/d".to_owned())];
        assert_eq!(read, Ok(expected));
        let wrong = ("STRANDLINE_DATA_DIR".into(), no_text());
        let said = environment([wrong].into_iter()).unwrap_err();
        assert_eq!(
            said,
            ["environment variable STRANDLINE_DATA_DIR: must be text in UTF-8"]
        );
    }
}
