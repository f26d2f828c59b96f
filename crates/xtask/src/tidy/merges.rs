//! What a merge leaves behind when somebody overlooks a conflict. Compilers find it in code; nothing
//! else would find it in documentation.

use crate::tidy::Finding;
use crate::tidy::files::Source;

/// Begin and end of the two sides of a conflict.
const SIDES: [&str; 2] = ["<<<<<<< ", ">>>>>>> "];

pub(crate) fn check(files: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        for (number, line) in file.text.lines().enumerate() {
            if SIDES.iter().any(|side| line.starts_with(side)) {
                findings.push(Finding {
                    place: format!("{}:{}", file.path.display(), number + 1),
                    what: "a conflict of a merge is not resolved".to_owned(),
                });
            }
        }
    }
    findings
}
