//! Walks a body along its table. Rules: W-4.
//!
//! The work is in proportion to the body: an array's elements take at least a byte each, and the
//! tables are trees, so the depth is theirs and not the sender's.

use super::cursor::Cursor;
use super::schema::{Element, Field, Kind, Null, Struct};
use crate::error::BodyFault;

/// Longest string that the protocol has, in bytes; older versions cannot write more (W-4).
const MAX_STRING_BYTES: usize = i16::MAX as usize;
/// What the first unknown tagged field of a struct costs: a node of the decoder's `BTreeMap`, with
/// room for eleven.
const FIRST_TAG_BYTES: usize = 448;
/// What each further one costs: nodes are half full when they are filled in order.
const NEXT_TAG_BYTES: usize = 96;

/// The memory that one body may take, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Its decoded form.
    pub(super) decoded: usize,
    /// The answer to what it names.
    pub(super) answer: usize,
}

/// A walk through one body.
#[derive(Debug)]
pub(super) struct Walker<'a> {
    cursor: Cursor<'a>,
    version: i16,
    is_flexible: bool,
    /// Memory that the decoder will allocate for what was walked, in bytes.
    memory: usize,
    /// Memory that the answer to it will take.
    answer: usize,
    limits: Limits,
    /// The field that was read last.
    field: &'static str,
}

impl<'a> Walker<'a> {
    pub(super) fn new(body: &'a [u8], version: i16, is_flexible: bool, limits: Limits) -> Self {
        let cursor = Cursor::new(body);
        Self {
            cursor,
            version,
            is_flexible,
            memory: 0,
            answer: 0,
            limits,
            field: "",
        }
    }

    /// Name of the field that was read last.
    pub(super) fn field(&self) -> &'static str {
        self.field
    }

    /// Offset in the body up to which was read.
    pub(super) fn position(&self) -> usize {
        self.cursor.position()
    }

    /// Walks the body; returns the memory that its decoded form allocates. What follows the last field nobody reads,
    /// as in Kafka: librdkafka asks for all topics with three bytes too many (Metadata from version 9 on).
    pub(super) fn message(&mut self, message: &'static Struct) -> Result<usize, BodyFault> {
        self.fields(message)?;
        Ok(self.memory)
    }

    fn fields(&mut self, of: &'static Struct) -> Result<(), BodyFault> {
        for field in of.fields {
            if field.is_in(self.version) {
                self.one(field)?;
            }
        }
        if self.is_flexible {
            self.tagged_fields(of)?;
        }
        Ok(())
    }

    fn one(&mut self, field: &Field) -> Result<(), BodyFault> {
        self.field = field.name;
        match field.kind {
            Kind::Fixed(size) => self.cursor.take(size).map(drop),
            Kind::String(null) => self.string(null),
            Kind::Bytes(null) => match self.length32(null)? {
                Some(length) => self.cursor.take(length).map(drop),
                None => Ok(()),
            },
            Kind::Array(element, null) => self.array(element, null, field.answer),
            Kind::Struct(inner) => self.fields(inner),
            Kind::OptionalStruct(inner) => match self.cursor.int8()? {
                -1 => Ok(()),
                1 => self.fields(inner),
                marker => Err(BodyFault::StructMarker(marker)),
            },
        }
    }

    fn string(&mut self, null: Null) -> Result<(), BodyFault> {
        let length = if self.is_flexible {
            self.compact_length(null)?
        } else {
            length(i32::from(self.cursor.int16()?), null)?
        };
        let Some(length) = length else {
            return Ok(());
        };
        if length > MAX_STRING_BYTES {
            return Err(BodyFault::StringLength(length));
        }
        let text = self.cursor.take(length)?;
        std::str::from_utf8(text)
            .map(drop)
            .map_err(|_| BodyFault::NotUtf8)
    }

    fn array(&mut self, element: Element, null: Null, answer: usize) -> Result<(), BodyFault> {
        let Some(count) = self.length32(null)? else {
            return Ok(());
        };
        if count == 0 {
            return Ok(());
        }
        let extent = element.extent(self.version, self.is_flexible);
        let least = count.saturating_mul(extent.least.max(1));
        if least > self.cursor.left() {
            return Err(BodyFault::Truncated {
                needed: least,
                left: self.cursor.left(),
            });
        }
        self.charge(count.saturating_mul(element.memory()))?;
        self.charge_answer(count.saturating_mul(answer))?;
        if extent.is_fixed {
            return self.cursor.take(least).map(drop);
        }
        for _ in 0..count {
            match element {
                Element::Fixed(_) => {}
                Element::String => self.string(Null::Refused)?,
                Element::Struct(inner) => self.fields(inner)?,
            }
        }
        Ok(())
    }

    fn tagged_fields(&mut self, of: &'static Struct) -> Result<(), BodyFault> {
        let count = self.cursor.varint()?;
        let mut previous = None;
        let mut cost = FIRST_TAG_BYTES;
        for _ in 0..count {
            let number = self.cursor.varint()?;
            if previous >= Some(number) {
                return Err(BodyFault::TagOrder(number));
            }
            previous = Some(number);
            let size = self.cursor.varint()? as usize;
            match of.tags.iter().find(|tag| tag.number == number) {
                Some(tag) if tag.field.is_in(self.version) => {
                    let outer = self.cursor.enter(size)?;
                    self.one(&tag.field)?;
                    self.cursor.leave(outer)?;
                }
                Some(_) => return Err(BodyFault::TagVersion(number)),
                None => {
                    self.cursor.take(size)?;
                    self.charge(cost)?;
                    cost = NEXT_TAG_BYTES;
                }
            }
        }
        Ok(())
    }

    /// The length of an array, or of bytes.
    fn length32(&mut self, null: Null) -> Result<Option<usize>, BodyFault> {
        if self.is_flexible {
            self.compact_length(null)
        } else {
            length(self.cursor.int32()?, null)
        }
    }

    fn compact_length(&mut self, null: Null) -> Result<Option<usize>, BodyFault> {
        match self.cursor.varint()?.checked_sub(1) {
            Some(length) => Ok(Some(length as usize)),
            None if null == Null::Allowed => Ok(None),
            None => Err(BodyFault::Null),
        }
    }

    fn charge(&mut self, bytes: usize) -> Result<(), BodyFault> {
        self.memory = self.memory.saturating_add(bytes);
        let (needed, limit) = (self.memory, self.limits.decoded);
        if needed > limit {
            return Err(BodyFault::Memory { needed, limit });
        }
        Ok(())
    }

    fn charge_answer(&mut self, bytes: usize) -> Result<(), BodyFault> {
        self.answer = self.answer.saturating_add(bytes);
        let (needed, limit) = (self.answer, self.limits.answer);
        if needed > limit {
            return Err(BodyFault::Answer { needed, limit });
        }
        Ok(())
    }
}

fn length(claim: i32, null: Null) -> Result<Option<usize>, BodyFault> {
    match usize::try_from(claim) {
        Ok(length) => Ok(Some(length)),
        Err(_) if claim == -1 && null == Null::Allowed => Ok(None),
        Err(_) if claim == -1 => Err(BodyFault::Null),
        Err(_) => Err(BodyFault::NegativeLength(claim)),
    }
}
