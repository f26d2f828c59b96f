//! Words behind a program's name: options of the form `--name value`.

use std::str::FromStr;

use crate::Outcome;

/// Names and values. Errors: a name without a value.
pub fn pairs(words: &[String]) -> impl Iterator<Item = Outcome<(&str, &str)>> {
    words.chunks(2).map(|pair| match pair {
        [name, value] => Ok((name.as_str(), value.as_str())),
        other => Err(format!("{other:?}: a name and a value are wanted").into()),
    })
}

/// A value that is a number, or whatever else is read from text.
pub fn number<T: FromStr>(name: &str, value: &str) -> Outcome<T> {
    let parsed = value.parse();
    parsed.map_err(|_| format!("{name} {value}: not understood").into())
}
