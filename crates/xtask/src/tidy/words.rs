//! Words and names that do not belong into the code.

use crate::tidy::Finding;
use crate::tidy::files::Source;

/// In code that ships: what to look for, and why it is wrong.
const FORBIDDEN: [(&str, &str); 5] = [
    ("todo!(", "unfinished code"),
    ("unimplemented!(", "unfinished code"),
    ("#[ignore", "a test that nobody runs"),
    (
        "#[should_panic",
        "say which error, not that something broke",
    ),
    (
        ".to_string().contains(",
        "errors are told apart by kind, not by text",
    ),
];
/// Modules that say nothing about what they hold.
const MODULES: [&str; 5] = ["utils.rs", "util.rs", "common.rs", "helpers.rs", "misc.rs"];

pub(crate) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources {
        let path = source.path.display().to_string();
        if path.starts_with("crates/xtask/") {
            continue;
        }
        if MODULES
            .iter()
            .any(|name| path.ends_with(&format!("/{name}")))
        {
            let what = "a module's name says what it holds".to_owned();
            findings.push(Finding {
                place: path.clone(),
                what,
            });
        }
        let text = if source.is_test() {
            source.text.as_str()
        } else {
            source.code()
        };
        for (number, line) in text.lines().enumerate() {
            for (word, why) in FORBIDDEN {
                let in_test_only = word.starts_with(".to_string()") && source.is_test();
                if line.contains(word) && !in_test_only && !line.trim_start().starts_with("//") {
                    let place = format!("{path}:{}", number + 1);
                    findings.push(Finding {
                        place,
                        what: format!("`{word}`: {why}"),
                    });
                }
            }
        }
    }
    findings
}
