//! Addresses: `listeners`, `advertised.listeners`, `listener.security.protocol.map`.

use std::fmt;

use crate::error::{ConfigError, ConfigErrors, ConfigWarning, Conflict};

/// Host and port. IPv6 addresses carry no brackets here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    /// Host name or address; empty = all interfaces (to listen on).
    pub host: String,
    /// Port; 0 = a free one.
    pub port: u16,
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl HostPort {
    /// Reads `host:port`, `[v6]:port` or `:port`.
    pub fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.trim().rsplit_once(':')?;
        let host = match host.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']')?,
            None if host.contains(':') => return None,
            None => host,
        };
        let legal =
            |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':' | b'%');
        if !host.bytes().all(legal) {
            return None;
        }
        Some(Self {
            host: host.to_owned(),
            port: port.parse().ok()?,
        })
    }
}

pub(crate) fn is_host_port_or_empty(text: &str) -> bool {
    text.is_empty() || HostPort::parse(text).is_some()
}

/// How a listener protects its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SecurityProtocol {
    /// TCP as it is.
    Plaintext,
}

/// One address for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// Name in upper case, `PLAINTEXT` unless chosen otherwise.
    pub name: String,
    /// How it is protected.
    pub security_protocol: SecurityProtocol,
    /// Where it is.
    pub address: HostPort,
}

/// Settings that decide the listeners, as they were given.
#[derive(Debug)]
pub(crate) struct ListenerSettings<'a> {
    pub(crate) listeners: &'a [String],
    pub(crate) advertised: Option<&'a [String]>,
    pub(crate) protocol_map: &'a str,
    pub(crate) controller_names: &'a [String],
    pub(crate) host_name: &'a str,
}

/// What came of them.
#[derive(Debug, Default)]
pub(crate) struct ResolvedListeners {
    pub(crate) listeners: Vec<Listener>,
    pub(crate) advertised: Vec<Listener>,
    pub(crate) warnings: Vec<ConfigWarning>,
    pub(crate) errors: ConfigErrors,
}

const NOT_AN_ADDRESS: &str = "must be NAME://host:port with a port of 0 to 65535";

impl ListenerSettings<'_> {
    /// Resolves and checks all of them together.
    pub(crate) fn resolve(&self) -> ResolvedListeners {
        let mut out = ResolvedListeners::default();
        let listening = self.read("listeners", self.listeners, &mut out);
        if listening.is_empty() && out.errors.0.is_empty() {
            out.conflict(
                "listeners",
                &self.listeners.join(","),
                "no listener for clients is left",
            );
        }
        for (index, listener) in listening.iter().enumerate() {
            let before = listening.iter().take(index);
            let port = listener.address.port;
            if port != 0
                && before
                    .clone()
                    .any(|other| other.address == listener.address)
            {
                out.conflict(
                    "listeners",
                    &listener.address.to_string(),
                    "used more than once",
                );
            }
        }
        out.advertised = self.advertise(&listening, &mut out);
        out.listeners = listening;
        out
    }

    /// One advertised listener for each that listens, in the same order: the one given, or its own
    /// address.
    fn advertise(&self, listening: &[Listener], out: &mut ResolvedListeners) -> Vec<Listener> {
        let given = self.read(
            "advertised.listeners",
            self.advertised.unwrap_or_default(),
            out,
        );
        for listener in &given {
            if !listening.iter().any(|other| other.name == listener.name) {
                let reason = "every advertised listener must also be in listeners";
                out.conflict("advertised.listeners", &listener.name, reason);
            }
        }
        let advertised = listening.iter().map(|listener| {
            let given = given.iter().find(|other| other.name == listener.name);
            let mut advertised = given.unwrap_or(listener).clone();
            let host = &mut advertised.address.host;
            if host.is_empty() {
                self.host_name.clone_into(host);
            }
            if matches!(host.as_str(), "0.0.0.0" | "::") {
                let reason = "clients cannot connect to this address: \
                              set advertised.listeners to a name or address that they can reach";
                out.conflict(
                    "advertised.listeners",
                    &advertised.address.to_string(),
                    reason,
                );
            }
            advertised
        });
        advertised.collect()
    }

    /// Reads one list; what is for controllers is left out with a warning.
    fn read(
        &self,
        setting: &'static str,
        items: &[String],
        out: &mut ResolvedListeners,
    ) -> Vec<Listener> {
        let mut read: Vec<Listener> = Vec::new();
        for item in items {
            let Some((name, address)) = item.split_once("://") else {
                out.conflict(setting, item, NOT_AN_ADDRESS);
                continue;
            };
            let name = name.trim().to_ascii_uppercase();
            if self
                .controller_names
                .iter()
                .any(|other| other.eq_ignore_ascii_case(&name))
            {
                if setting == "listeners" {
                    out.warnings.push(ConfigWarning::ControllerListener(name));
                }
                continue;
            }
            let Some(address) = HostPort::parse(address) else {
                out.conflict(setting, item, NOT_AN_ADDRESS);
                continue;
            };
            if read.iter().any(|other| other.name == name) {
                out.conflict(setting, item, "the name of a listener may come only once");
                continue;
            }
            match self.protocol_of(&name) {
                Some("PLAINTEXT") => {
                    let security_protocol = SecurityProtocol::Plaintext;
                    read.push(Listener {
                        name,
                        security_protocol,
                        address,
                    });
                }
                Some(protocol) => out.errors.0.push(ConfigError::NotServed {
                    name: setting.to_owned(),
                    value: item.clone(),
                    allowed: format!("{protocol} is not, only PLAINTEXT"),
                }),
                None => {
                    let reason = "the name has no protocol in listener.security.protocol.map";
                    out.conflict(setting, item, reason);
                }
            }
        }
        read
    }

    fn protocol_of(&self, listener: &str) -> Option<&str> {
        self.protocol_map.split(',').find_map(|pair| {
            let (name, protocol) = pair.split_once(':')?;
            name.trim()
                .eq_ignore_ascii_case(listener)
                .then(|| protocol.trim())
        })
    }
}

impl ResolvedListeners {
    fn conflict(&mut self, setting: &'static str, value: &str, reason: &'static str) {
        let settings = vec![(setting, value.to_owned())];
        self.errors
            .0
            .push(ConfigError::Conflict(Conflict { settings, reason }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT,CLIENTS:PLAINTEXT";

    fn resolve(listeners: &[&str], advertised: Option<&[&str]>) -> ResolvedListeners {
        let own = |items: &[&str]| -> Vec<String> { items.iter().map(|s| s.to_string()).collect() };
        ListenerSettings {
            listeners: &own(listeners),
            advertised: advertised.map(own).as_deref(),
            protocol_map: MAP,
            controller_names: &["CONTROLLER".into()],
            host_name: "box",
        }
        .resolve()
    }

    fn shown(listeners: &[Listener]) -> Vec<String> {
        listeners
            .iter()
            .map(|l| format!("{}://{}", l.name, l.address))
            .collect()
    }

    #[test]
    fn listeners_of_a_stock_file_are_resolved() {
        let out = resolve(&["PLAINTEXT://:9092", "CONTROLLER://:9093"], None);
        assert_eq!(out.errors, ConfigErrors::default());
        assert_eq!(shown(&out.listeners), ["PLAINTEXT://:9092"]);
        assert_eq!(shown(&out.advertised), ["PLAINTEXT://box:9092"]);
        assert_eq!(
            out.warnings,
            [ConfigWarning::ControllerListener("CONTROLLER".into())]
        );
        let out = resolve(&["plaintext://[::1]:0"], None);
        assert_eq!(shown(&out.advertised), ["PLAINTEXT://[::1]:0"]);
    }

    #[test]
    fn advertised_listeners_must_be_reachable_and_known() {
        let all = &["PLAINTEXT://0.0.0.0:9092"];
        assert_eq!(
            resolve(all, Some(&["PLAINTEXT://example.org:9092"]))
                .errors
                .0,
            []
        );
        assert_eq!(resolve(all, None).errors.0.len(), 1);
        assert_eq!(
            resolve(all, Some(&["CLIENTS://example.org:9092"]))
                .errors
                .0
                .len(),
            2
        );
        assert_eq!(
            resolve(&["PLAINTEXT://:1"], Some(&["SSL://a:1"]))
                .errors
                .0
                .len(),
            1
        );
        let two = &["PLAINTEXT://:1", "CLIENTS://a:2"];
        let out = resolve(two, Some(&["CLIENTS://b:3"]));
        assert_eq!(
            shown(&out.advertised),
            ["PLAINTEXT://box:1", "CLIENTS://b:3"]
        );
    }

    #[test]
    fn wrong_listeners_are_refused() {
        for bad in [
            &["localhost:9092"][..],
            &["PLAINTEXT://localhost"],
            &["PLAINTEXT://localhost:99999"],
            &["PLAINTEXT://::1:9092"],
            &["PLAINTEXT://a b:9092"],
            &["NOBODY://localhost:9092"],
            &["SSL://localhost:9093"],
            &["PLAINTEXT://a:1", "PLAINTEXT://b:2"],
            &["CONTROLLER://:9093"],
            &[],
        ] {
            assert!(!resolve(bad, None).errors.0.is_empty(), "{bad:?}");
        }
    }
}
