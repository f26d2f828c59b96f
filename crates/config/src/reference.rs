//! `docs/reference/configs.md`, written from the tables.

use std::fmt::Write as _;

use crate::broker::broker_settings;
use crate::broker::known::{KNOWN_PREFIXES, KNOWN_TO_KAFKA};
use crate::def::{DefaultValue, Setting};
use crate::topic::TOPIC_SETTINGS;

const HEAD: &str = "\
# Settings

Written by the program from its own tables; a test keeps it so. Do not edit.

A setting has Kafka's name wherever it appears: in the file (`--config FILE`, the format of
`server.properties`), on the command line (`--set name=value`), in `kafka-configs` and in log lines.
Ours begin with `strandline.`. What comes later wins: default, file, environment, `--set`, and then what
clients change while the broker runs (all brokers, then this broker).

The environment variable of a setting is its name in upper case with `_` for `.` and `STRANDLINE_` in
front, once: `log.segment.bytes` is `STRANDLINE_LOG_SEGMENT_BYTES`, `strandline.data.dir` is
`STRANDLINE_DATA_DIR`.

A wrong value, or a name that neither Kafka nor we have, stops the start with exit code 2 and says what
is allowed. A broker setting that Kafka has and we do not serve yet is a warning. A topic setting that
we do not serve yet takes its default only.

*Live* means that the setting may be changed while the broker runs.
";

/// The reference page of all settings.
pub fn reference_markdown() -> String {
    let mut page = HEAD.to_owned();
    let mut broker: Vec<_> = broker_settings().collect();
    broker.sort_by_key(|setting| setting.name);
    let section = |page: &mut String, title: &str, rows: &mut dyn Iterator<Item = &Setting>| {
        let _ = write!(page, "\n## {title}\n\n");
        page.push_str("| Setting | Type and bounds | Default | Live | What it does |\n");
        page.push_str("|---|---|---|---|---|\n");
        rows.for_each(|setting| broker_row(page, setting));
    };
    let ours = &mut broker.iter().copied().filter(|setting| setting.is_ours());
    section(&mut page, "Ours", ours);
    let kafka = &mut broker.iter().copied().filter(|s| !s.is_ours() && s.served);
    section(&mut page, "Broker settings with Kafka's names", kafka);
    topics(&mut page);
    differences(&mut page, &broker);
    not_served(&mut page, &broker);
    page
}

fn broker_row(page: &mut String, setting: &Setting) {
    let live = if setting.dynamic { "yes" } else { "" };
    let _ = writeln!(
        page,
        "| `{}` | {} | {} | {live} | {} |",
        setting.name,
        cell(&setting.allowed_text()),
        default_cell(setting),
        cell(setting.doc)
    );
}

fn topics(page: &mut String) {
    page.push_str("\n## Topic settings\n\n");
    page.push_str("A topic takes what it does not set from the broker settings of the fourth ");
    page.push_str("column, the first that is set.\n\n");
    page.push_str("| Setting | Type and bounds | Default | From | What it does |\n");
    page.push_str("|---|---|---|---|---|\n");
    for setting in TOPIC_SETTINGS {
        let names: Vec<_> = setting
            .synonyms
            .iter()
            .map(|s| format!("`{}`", s.name))
            .collect();
        let note = if setting.served {
            ""
        } else {
            " *Not served yet.*"
        };
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} | {}{note} |",
            setting.name,
            cell(&setting.allowed_text()),
            default_cell(setting),
            names.join(", "),
            cell(setting.doc)
        );
    }
}

fn differences(page: &mut String, broker: &[&Setting]) {
    page.push_str("\n## Defaults that differ from Kafka's\n\n| Setting | Ours | Kafka's |\n");
    page.push_str("|---|---|---|\n");
    let all = broker.iter().copied().chain(TOPIC_SETTINGS);
    for setting in all {
        if let Some(kafka) = setting.kafka_default {
            let _ = writeln!(
                page,
                "| `{}` | {} | `{kafka}` |",
                setting.name,
                default_cell(setting)
            );
        }
    }
    page.push_str("\nTiering is on for every topic that does not say otherwise, except compacted ");
    page.push_str(
        "and internal ones.\nSwitching `strandline.remote.storage.enable` off stops the ",
    );
    page.push_str("uploads of topics that follow it; what is in the bucket stays.\n");
}

fn not_served(page: &mut String, broker: &[&Setting]) {
    page.push_str("\n## Known to Kafka, not served yet\n\n");
    page.push_str("These are accepted in the file with a warning, and ignored:\n\n");
    let rows = broker
        .iter()
        .filter(|setting| !setting.served)
        .map(|setting| setting.name);
    let mut names: Vec<_> = KNOWN_TO_KAFKA.iter().copied().chain(rows).collect();
    names.sort_unstable();
    let prefixes = KNOWN_PREFIXES.iter().map(|prefix| format!("`{prefix}…`"));
    let all: Vec<_> = names
        .iter()
        .map(|name| format!("`{name}`"))
        .chain(prefixes)
        .collect();
    let _ = writeln!(page, "{}.", all.join(", "));
}

fn default_cell(setting: &Setting) -> String {
    match setting.default {
        DefaultValue::Null => "none".to_owned(),
        DefaultValue::Text("") => "empty".to_owned(),
        DefaultValue::Text(text) => format!("`{text}`"),
        DefaultValue::Derived(how) => how.to_owned(),
    }
}

/// A table cell may hold neither a bar nor what looks like HTML.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "\\<")
}
