//! The shared profile files of the AWS tools, as the link of the credentials chain that the store's
//! client does not have: static keys and the region of one profile.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// What a profile says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Profile {
    pub(crate) access_key_id: Option<String>,
    pub(crate) secret_access_key: Option<String>,
    pub(crate) session_token: Option<String>,
    pub(crate) region: Option<String>,
}

/// Reads the profile that `AWS_PROFILE` names (or `default`) from the two files, where they are.
pub(crate) fn load(env: impl Fn(&str) -> Option<String>) -> Profile {
    let name = env("AWS_PROFILE").unwrap_or_else(|| "default".to_owned());
    let home = env("HOME").map(PathBuf::from);
    let file = |variable: &str, default: &str| {
        env(variable)
            .map(PathBuf::from)
            .or_else(|| home.as_ref().map(|h| h.join(".aws").join(default)))
    };
    let credentials = file("AWS_SHARED_CREDENTIALS_FILE", "credentials");
    let config = file("AWS_CONFIG_FILE", "config");
    let mut values = config.map(|p| section(&p, &name)).unwrap_or_default();
    values.extend(credentials.map(|p| section(&p, &name)).unwrap_or_default());
    let mut take = |key: &str| values.remove(key);
    Profile {
        access_key_id: take("aws_access_key_id"),
        secret_access_key: take("aws_secret_access_key"),
        session_token: take("aws_session_token"),
        region: take("region"),
    }
}

fn section(path: &Path, name: &str) -> HashMap<String, String> {
    let Ok(text) = std::fs::read_to_string(path) else {
        return HashMap::new();
    };
    parse_section(&text, name)
}

/// `[name]` in the credentials file, `[profile name]` (but `[default]`) in the config file.
fn parse_section(text: &str, name: &str) -> HashMap<String, String> {
    let mut values = HashMap::new();
    let mut inside = false;
    for line in text.lines() {
        let trimmed = line.trim();
        if let Some(header) = trimmed
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            let header = header.trim();
            inside = header.strip_prefix("profile ").map_or(header, str::trim) == name;
        } else if inside
            && !trimmed.starts_with(['#', ';'])
            && !line.starts_with([' ', '\t'])
            && let Some((key, value)) = trimmed.split_once('=')
        {
            values.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_named_profile_is_read_from_both_files() {
        let dir = tempfile::tempdir().unwrap();
        let credentials = dir.path().join("credentials");
        let config = dir.path().join("config");
        std::fs::write(
            &credentials,
            "[default]\naws_access_key_id = A\n\n[other]\naws_access_key_id=B\naws_secret_access_key = s=1\n",
        )
        .unwrap();
        std::fs::write(
            &config,
            "[default]\nregion = one\n[profile other]\n# region = no\nregion = two\ns3 =\n  x = y\n",
        )
        .unwrap();
        let load_as = |profile: Option<&str>| {
            load(|variable| match variable {
                "AWS_PROFILE" => profile.map(str::to_owned),
                "AWS_SHARED_CREDENTIALS_FILE" => Some(credentials.display().to_string()),
                "AWS_CONFIG_FILE" => Some(config.display().to_string()),
                _ => None,
            })
        };
        let other = load_as(Some("other"));
        assert_eq!(other.access_key_id.as_deref(), Some("B"));
        assert_eq!(other.secret_access_key.as_deref(), Some("s=1"));
        assert_eq!(other.region.as_deref(), Some("two"));
        let default = load_as(None);
        assert_eq!(default.access_key_id.as_deref(), Some("A"));
        assert_eq!(default.secret_access_key, None);
        assert_eq!(load_as(Some("none")), Profile::default());
    }
}
