//! The macro that makes one row of a setting into both its definition and its typed field, and the
//! reader that fills the fields.

use crate::def::{DefaultValue, Setting};
use crate::error::{ConfigError, ConfigErrors, Origin, quote};
use crate::value::{Field, Value};

/// Writes a struct of typed settings and the table of their definitions from the same rows.
macro_rules! settings {
    (
        $(#[$meta:meta])*
        pub struct $name:ident from $table:ident;
        $( $doc:literal $field:ident : $type:ty = $row:expr; )*
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $( #[doc = $doc] pub $field: $type, )*
        }

        pub(crate) const $table: &[$crate::def::Setting] = &[ $( $row.doc($doc), )* ];

        impl $name {
            /// Reads every field; what could not be read is reported in `reader`.
            pub(crate) fn read(reader: &mut $crate::table::Reader<'_>) -> Self {
                Self {
                    $( $field: {
                        const SETTING: $crate::def::Setting = $row;
                        reader.field::<$type>(&SETTING)
                    }, )*
                }
            }
        }
    };
}
pub(crate) use settings;

/// A value as text and where it comes from.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) text: String,
    pub(crate) origin: Origin,
}

/// Where a [`Reader`] finds the text of a setting: `None` means "not set, take the default".
pub(crate) type Lookup<'a> = &'a dyn Fn(&Setting) -> Option<Given>;

/// Reads typed fields out of layers and collects all errors on the way.
pub(crate) struct Reader<'a> {
    lookup: Lookup<'a>,
    derived: &'a dyn Fn(&str) -> Option<String>,
    pub(crate) errors: ConfigErrors,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(lookup: Lookup<'a>, derived: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self {
            lookup,
            derived,
            errors: ConfigErrors::default(),
        }
    }

    /// Reads one setting. A wrong value is reported and replaced by the default, so that one start
    /// reports every error and a stored wrong value cannot stop a broker.
    pub(crate) fn field<T: Field>(&mut self, setting: &Setting) -> T {
        let given = (self.lookup)(setting);
        let value = match &given {
            Some(given) => match parse(setting, given) {
                Ok(value) => Some(value),
                Err(error) => {
                    self.errors.0.push(error);
                    self.default_value(setting)
                }
            },
            None => self.default_value(setting),
        };
        T::from_value(value.as_ref()).unwrap_or_else(|| {
            // Only if a row and its field disagree: said aloud, since the tests rule it out.
            let text = value.map_or_else(String::new, |value| value.to_string());
            self.errors.0.push(invalid(
                setting,
                &text,
                setting.allowed_text(),
                Origin::Table,
            ));
            T::default()
        })
    }

    fn default_value(&self, setting: &Setting) -> Option<Value> {
        let text = match setting.default {
            DefaultValue::Null => return None,
            DefaultValue::Text(text) => text.to_owned(),
            DefaultValue::Derived(_) => (self.derived)(setting.name)?,
        };
        setting.parse(&text).ok()
    }
}

/// Reads one value against the row of its setting.
pub(crate) fn parse(setting: &Setting, given: &Given) -> Result<Value, ConfigError> {
    setting
        .parse(&given.text)
        .map_err(|allowed| invalid(setting, &given.text, allowed, given.origin.clone()))
}

fn invalid(setting: &Setting, text: &str, allowed: String, origin: Origin) -> ConfigError {
    let hidden = setting.config_type.is_sensitive();
    let value = if hidden {
        "[hidden]".to_owned()
    } else {
        quote(text)
    };
    ConfigError::InvalidValue {
        name: setting.name.to_owned(),
        value,
        allowed,
        origin,
    }
}
