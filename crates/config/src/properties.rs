//! Reader of Java properties files (`server.properties`).
//!
//! Comments with `#` or `!`, a name ended by `=`, `:` or white space, lines continued by a
//! backslash, escapes including `\uXXXX`. The text is UTF-8, which holds every old file in ASCII.

use std::iter::Peekable;
use std::str::Chars;

/// One `name=value` of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Property {
    /// Name, with escapes resolved.
    pub name: String,
    /// Value, with escapes resolved; white space at its end is part of it, as in Java.
    pub value: String,
    /// Line at which it begins, from 1.
    pub line: usize,
}

/// A `\u` that is not followed by four hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: \\u must be followed by four hexadecimal digits of a character")]
pub struct PropertiesError {
    /// Line at which the property begins, from 1.
    pub line: usize,
}

/// Reads all properties in their order; a name may come more than once.
pub fn parse_properties(text: &str) -> Result<Vec<Property>, PropertiesError> {
    let mut properties = Vec::new();
    let mut lines = natural_lines(text).enumerate();
    while let Some((index, line)) = lines.next() {
        let start = line.trim_start_matches(is_blank);
        if start.is_empty() || start.starts_with(['#', '!']) {
            continue;
        }
        let mut logical = String::new();
        let mut rest = start;
        while is_continued(rest) {
            logical.push_str(&rest[..rest.len() - 1]);
            rest = lines
                .next()
                .map_or("", |(_, next)| next.trim_start_matches(is_blank));
        }
        logical.push_str(rest);
        properties.push(split(&logical, index + 1)?);
    }
    Ok(properties)
}

/// Lines ended by `\n`, `\r` or `\r\n`.
fn natural_lines(text: &str) -> impl Iterator<Item = &str> {
    text.split('\n')
        .flat_map(|line| line.strip_suffix('\r').unwrap_or(line).split('\r'))
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\x0c')
}

/// An odd number of backslashes at the end: the last one is not itself escaped.
fn is_continued(line: &str) -> bool {
    line.bytes().rev().take_while(|b| *b == b'\\').count() % 2 == 1
}

fn split(line: &str, number: usize) -> Result<Property, PropertiesError> {
    let mut chars = line.chars().peekable();
    let name = unescape(&mut chars, |c| is_blank(c) || c == '=' || c == ':', number)?;
    while chars.next_if(|c| is_blank(*c)).is_some() {}
    if chars.next_if(|c| *c == '=' || *c == ':').is_some() {
        while chars.next_if(|c| is_blank(*c)).is_some() {}
    }
    let value = unescape(&mut chars, |_| false, number)?;
    Ok(Property {
        name,
        value,
        line: number,
    })
}

/// Takes characters up to an unescaped one that `ends`, which stays.
fn unescape(
    chars: &mut Peekable<Chars<'_>>,
    ends: impl Fn(char) -> bool,
    line: usize,
) -> Result<String, PropertiesError> {
    let mut text = String::new();
    while let Some(c) = chars.next_if(|c| !ends(*c)) {
        if c != '\\' {
            text.push(c);
            continue;
        }
        match chars.next() {
            Some('t') => text.push('\t'),
            Some('n') => text.push('\n'),
            Some('r') => text.push('\r'),
            Some('f') => text.push('\x0c'),
            Some('u') => text.push(unicode(chars).ok_or(PropertiesError { line })?),
            Some(other) => text.push(other),
            None => {}
        }
    }
    Ok(text)
}

/// The character of `XXXX`, or of `XXXX\uXXXX` where two surrogates make one.
fn unicode(chars: &mut Peekable<Chars<'_>>) -> Option<char> {
    let first = four_digits(chars)?;
    if !(0xd800..0xdc00).contains(&first) {
        return char::from_u32(first);
    }
    if chars.next()? != '\\' || chars.next()? != 'u' {
        return None;
    }
    let second = four_digits(chars)?;
    if !(0xdc00..0xe000).contains(&second) {
        return None;
    }
    char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00))
}

fn four_digits(chars: &mut Peekable<Chars<'_>>) -> Option<u32> {
    (0..4).try_fold(0, |value, _| Some(value * 16 + chars.next()?.to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        let properties = parse_properties(text).unwrap();
        properties.into_iter().map(|p| (p.name, p.value)).collect()
    }

    fn one(text: &str) -> (String, String) {
        let mut all = pairs(text);
        assert_eq!(all.len(), 1, "{text:?} -> {all:?}");
        all.remove(0)
    }

    #[test]
    fn separators_blanks_and_comments() {
        for text in [
            "a.b=c d",
            "a.b:c d",
            "a.b c d",
            "  a.b \t = c d",
            "a.b\x0c:\tc d\r\n",
        ] {
            assert_eq!(one(text), ("a.b".into(), "c d".into()), "{text:?}");
        }
        assert_eq!(one("a"), ("a".into(), String::new()));
        assert_eq!(one("a="), ("a".into(), String::new()));
        assert_eq!(one("a==b"), ("a".into(), "=b".into()));
        assert_eq!(one("a=b=c"), ("a".into(), "b=c".into()));
        assert_eq!(
            one("# x=y\n  ! z=1\\\na=b # no comment"),
            ("a".into(), "b # no comment".into())
        );
        assert_eq!(pairs("\n \t\n\r\r\n"), []);
        assert_eq!(pairs("a=1\ra=2\r\na=3").len(), 3);
    }

    #[test]
    fn lines_are_continued_by_an_unescaped_backslash() {
        assert_eq!(one("a=b,\\\n   c"), ("a".into(), "b,c".into()));
        assert_eq!(one("a=b\\\r\n\tc\\\nd"), ("a".into(), "bcd".into()));
        assert_eq!(pairs("a=b\\\\\nc=d").len(), 2);
        assert_eq!(one("a=b\\"), ("a".into(), "b".into()));
        // A comment is not continued, and a continuation is never a comment.
        assert_eq!(one("#x\\\na=b"), ("a".into(), "b".into()));
        assert_eq!(one("a=b\\\n#c"), ("a".into(), "b#c".into()));
        let third = parse_properties("a=1\\\n2\nb=3").unwrap();
        assert_eq!(third[1].line, 3);
    }

    #[test]
    fn escapes() {
        assert_eq!(
            one("a\\ b\\=c\\:d = e\\tf"),
            ("a b=c:d".into(), "e\tf".into())
        );
        assert_eq!(
            one("a=\\u00e9\\uD83D\\uDE00\\q\\\\"),
            ("a".into(), "é😀q\\".into())
        );
        assert_eq!(one("a=\\ x"), ("a".into(), " x".into()));
        for bad in [
            "a=\\u12",
            "a=\\u12g4",
            "a=\\uD83D",
            "a=\\uD83D\\u0041",
            "a=\\uDE00",
        ] {
            assert_eq!(
                parse_properties(bad),
                Err(PropertiesError { line: 1 }),
                "{bad}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in any::<String>()) {
            let _ = parse_properties(&text);
        }

        #[test]
        fn what_is_escaped_comes_back(name in "[a-z.= :]{1,20}", value in "[^\\r\\n\\\\]{0,40}") {
            let escape = |text: &str| -> String {
                text.chars().flat_map(|c| match c {
                    '=' | ':' | ' ' | '\t' | '\x0c' | '#' | '!' => vec!['\\', c],
                    _ => vec![c],
                }).collect()
            };
            let text = format!("{}={}", escape(&name), escape(&value));
            let value = value.replace("\\f", "f");
            prop_assert_eq!(one(&text).0, name);
            if !value.contains(['\t', '\x0c']) {
                prop_assert_eq!(one(&text).1, value);
            }
        }
    }
}
