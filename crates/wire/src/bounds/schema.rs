//! How a message lies on the wire, as tables that are made at compile time. Rules: W-4.

use kafka_protocol::protocol::StrBytes;

/// A run of fields; in flexible versions tagged fields follow.
#[derive(Debug)]
pub(super) struct Struct {
    /// Size of the decoded struct in bytes.
    pub(super) memory: usize,
    /// In the order of the wire.
    pub(super) fields: &'static [Field],
    /// Tagged fields that the codec knows.
    pub(super) tags: &'static [Tag],
}

impl Struct {
    /// The struct that decodes to a `T`.
    pub(super) const fn of<T>(fields: &'static [Field]) -> Self {
        Self {
            memory: size_of::<T>(),
            fields,
            tags: &[],
        }
    }

    pub(super) const fn tagged(mut self, tags: &'static [Tag]) -> Self {
        self.tags = tags;
        self
    }

    /// What one element takes on the wire.
    pub(super) fn extent(&self, version: i16, is_flexible: bool) -> Extent {
        // The count of tagged fields.
        let start = Extent {
            least: usize::from(is_flexible),
            is_fixed: !is_flexible,
        };
        let present = self.fields.iter().filter(|field| field.is_in(version));
        present.fold(start, |sum, field| {
            let (least, is_fixed) = match field.kind {
                Kind::Fixed(size) => (size, true),
                Kind::String(_) if !is_flexible => (2, false),
                Kind::Bytes(_) | Kind::Array(_, _) if !is_flexible => (4, false),
                Kind::String(_) | Kind::Bytes(_) | Kind::Array(_, _) => (1, false),
                Kind::OptionalStruct(_) => (1, false),
                Kind::Struct(inner) => {
                    let extent = inner.extent(version, is_flexible);
                    (extent.least, extent.is_fixed)
                }
            };
            Extent {
                least: sum.least.saturating_add(least),
                is_fixed: sum.is_fixed && is_fixed,
            }
        })
    }
}

/// What a thing takes on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    /// The smallest size, in bytes.
    pub(super) least: usize,
    /// True when it always has this size, and any bytes are a value.
    pub(super) is_fixed: bool,
}

/// A field, and the versions that have it.
#[derive(Debug)]
pub(super) struct Field {
    /// The codec's name, for error messages.
    pub(super) name: &'static str,
    since: i16,
    until: i16,
    pub(super) kind: Kind,
    /// What each element of the array takes in the answer, in bytes; 0 if it is little beside the element.
    pub(super) answer: usize,
}

/// What an element of an answer takes beside its struct: its encoded form, and its place in a set of those
/// that were named before.
const ANSWERED_BYTES: usize = 128;

impl Field {
    /// From this version on (inclusive).
    pub(super) const fn since(mut self, version: i16) -> Self {
        self.since = version;
        self
    }

    /// Each element of the array is answered with a `T`.
    pub(super) const fn answered_by<T>(mut self) -> Self {
        self.answer = size_of::<T>().saturating_add(ANSWERED_BYTES);
        self
    }

    /// The same of an array of partitions, of which a request may name very many: without what comes besides, so
    /// that no bound meets who watches some 100,000 of them.
    pub(super) const fn answered_per_partition_by<T>(mut self) -> Self {
        self.answer = size_of::<T>();
        self
    }

    /// Up to this version (inclusive).
    pub(super) const fn until(mut self, version: i16) -> Self {
        self.until = version;
        self
    }

    pub(super) fn is_in(&self, version: i16) -> bool {
        self.since <= version && version <= self.until
    }
}

/// A field in all versions.
pub(super) const fn field(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        since: 0,
        until: i16::MAX,
        kind,
        answer: 0,
    }
}

/// A field that is sent only if it has something to say.
#[derive(Debug)]
pub(super) struct Tag {
    pub(super) number: u32,
    pub(super) field: Field,
}

pub(super) const fn tag(number: u32, field: Field) -> Tag {
    Tag { number, field }
}

/// Whether null is a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Null {
    Allowed,
    Refused,
}

/// The type of a field.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// So many bytes; all of them are values.
    Fixed(usize),
    String(Null),
    /// Bytes or records.
    Bytes(Null),
    Array(Element, Null),
    /// Only in tagged fields: elsewhere the codec's messages have none.
    Struct(&'static Struct),
    /// A marker, 1 or -1, and the struct if it is 1.
    OptionalStruct(&'static Struct),
}

/// What an array holds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Element {
    /// Numbers of so many bytes, on the wire and decoded.
    Fixed(usize),
    String,
    Struct(&'static Struct),
}

impl Element {
    /// Size of a decoded element in bytes.
    pub(super) fn memory(self) -> usize {
        match self {
            Self::Fixed(size) => size,
            Self::String => size_of::<StrBytes>(),
            Self::Struct(inner) => inner.memory,
        }
    }

    pub(super) fn extent(self, version: i16, is_flexible: bool) -> Extent {
        match self {
            Self::Fixed(size) => Extent {
                least: size,
                is_fixed: true,
            },
            Self::String => Extent {
                least: if is_flexible { 1 } else { 2 },
                is_fixed: false,
            },
            Self::Struct(inner) => inner.extent(version, is_flexible),
        }
    }
}

pub(super) const BOOL: Kind = Kind::Fixed(1);
pub(super) const INT8: Kind = Kind::Fixed(1);
pub(super) const INT16: Kind = Kind::Fixed(2);
pub(super) const INT32: Kind = Kind::Fixed(4);
pub(super) const INT64: Kind = Kind::Fixed(8);
pub(super) const UUID: Kind = Kind::Fixed(16);
pub(super) const STRING: Kind = Kind::String(Null::Refused);
pub(super) const NULLABLE_STRING: Kind = Kind::String(Null::Allowed);
pub(super) const BYTES: Kind = Kind::Bytes(Null::Refused);
pub(super) const NULLABLE_RECORDS: Kind = Kind::Bytes(Null::Allowed);
pub(super) const INT32_ARRAY: Kind = Kind::Array(Element::Fixed(4), Null::Refused);
pub(super) const STRING_ARRAY: Kind = Kind::Array(Element::String, Null::Refused);
pub(super) const NULLABLE_STRING_ARRAY: Kind = Kind::Array(Element::String, Null::Allowed);

pub(super) const fn array(inner: &'static Struct) -> Kind {
    Kind::Array(Element::Struct(inner), Null::Refused)
}

pub(super) const fn nullable_array(inner: &'static Struct) -> Kind {
    Kind::Array(Element::Struct(inner), Null::Allowed)
}
