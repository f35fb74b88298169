//! The Arrow schema of a Parquet file. The unit of a column is metadata of the column's field.
//!
//! Programs that read Parquet as Arrow find the schema in the file's metadata, as a message of Arrow's IPC format in
//! base 64. The message is a FlatBuffer with the tables of Arrow's Message.fbs and Schema.fbs. Slots are written in the
//! order of these files.

use std::iter::StepBy;
use std::ops::Range;

use data_encoding::BASE64;

use crate::column::{Column, ColumnValues};

/// The key of the schema in the metadata of the file.
pub(crate) const KEY: &str = "ARROW:schema";

/// The key of the unit in the metadata of a field.
const UNIT: &str = "unit";

/// `MetadataVersion.V5`.
const V5: i16 = 4;

/// `MessageHeader.Schema`.
const SCHEMA: u8 = 1;

/// Members of `Type`.
const INT: u8 = 2;
const FLOATING_POINT: u8 = 3;
const UTF8: u8 = 5;
const BOOL: u8 = 6;

/// `Precision.DOUBLE`.
const DOUBLE: i16 = 2;

/// The encoded schema of columns: the value of [`KEY`].
pub(crate) fn encoded(columns: &[Column]) -> String {
    let mut buffer = FlatBuffer { bytes: vec![0; 4] };
    let [_, _, header, _] = buffer.table(
        0,
        [
            Slot::Scalar(&V5.to_le_bytes()),
            Slot::Scalar(&[SCHEMA]),
            Slot::Reference,
            Slot::Scalar(&0_i64.to_le_bytes()),
        ],
    );
    let [_, fields] = buffer.table(header, [Slot::Absent, Slot::Reference]);
    for (place, column) in buffer.vector(fields, columns.len()).zip(columns) {
        buffer.field(place, column);
    }
    buffer.align(8);
    // The message begins with a marker of its format and its length.
    let length = (buffer.bytes.len() as u32).to_le_bytes();
    BASE64.encode(&[&[0xFF; 4][..], &length, &buffer.bytes].concat())
}

/// A slot of a table.
#[derive(Clone, Copy)]
enum Slot<'a> {
    /// The slot is not written: it has its default value.
    Absent,
    /// The bytes of a number or a Boolean, little-endian.
    Scalar(&'a [u8]),
    /// A reference to a table, vector or text that is written later.
    Reference,
}

/// A FlatBuffer that is written from its root: the target of a reference follows the reference. The first four bytes are
/// the reference to the root.
struct FlatBuffer {
    bytes: Vec<u8>,
}

impl FlatBuffer {
    fn align(&mut self, to: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(to), 0);
    }

    /// Makes the reference at `from` refer to the current end of the buffer.
    fn refer(&mut self, from: usize) {
        let distance = (self.bytes.len() - from) as u32;
        self.bytes[from..from + 4].copy_from_slice(&distance.to_le_bytes());
    }

    /// Writes the table to which the reference at `from` refers. Returns the positions of its slots. The position of an
    /// absent slot is the start of the table.
    fn table<const SLOTS: usize>(&mut self, from: usize, slots: [Slot<'_>; SLOTS]) -> [usize; SLOTS] {
        let mut length = 4_usize;
        let places = slots.map(|slot| {
            let size = match slot {
                Slot::Absent => return 0,
                Slot::Scalar(bytes) => bytes.len(),
                Slot::Reference => 4,
            };
            let place = length.next_multiple_of(size);
            length = place + size;
            place
        });
        // First the list of slot positions, then the table. The table begins with its distance from the list.
        self.align(2);
        let list = self.bytes.len();
        for number in [4 + 2 * SLOTS, length].into_iter().chain(places) {
            self.bytes.extend((number as u16).to_le_bytes());
        }
        self.align(8);
        self.refer(from);
        let table = self.bytes.len();
        self.bytes.extend(((table - list) as i32).to_le_bytes());
        self.bytes.resize(table + length, 0);
        for (slot, place) in slots.into_iter().zip(places) {
            if let Slot::Scalar(bytes) = slot {
                self.bytes[table + place..table + place + bytes.len()].copy_from_slice(bytes);
            }
        }
        places.map(|place| table + place)
    }

    /// Writes the vector of references to which the reference at `from` refers. Returns the positions of its elements.
    fn vector(&mut self, from: usize, length: usize) -> StepBy<Range<usize>> {
        self.align(4);
        self.refer(from);
        self.bytes.extend((length as u32).to_le_bytes());
        let first = self.bytes.len();
        self.bytes.resize(first + 4 * length, 0);
        (first..first + 4 * length).step_by(4)
    }

    fn text(&mut self, from: usize, text: &str) {
        self.align(4);
        self.refer(from);
        self.bytes.extend((text.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(0);
    }

    fn field(&mut self, from: usize, column: &Column) {
        let kind = match column.values {
            ColumnValues::Text(_) => UTF8,
            ColumnValues::Signed(_) | ColumnValues::Unsigned(_) => INT,
            ColumnValues::Bool(_) => BOOL,
            ColumnValues::Real(_) => FLOATING_POINT,
        };
        let is_nullable = u8::from(column.values.is_nullable());
        // The fifth slot is a dictionary.
        let [name, _, _, of_kind, _, children, metadata] = self.table(
            from,
            [
                Slot::Reference,
                Slot::Scalar(&[is_nullable]),
                Slot::Scalar(&[kind]),
                Slot::Reference,
                Slot::Absent,
                Slot::Reference,
                if column.unit.is_some() { Slot::Reference } else { Slot::Absent },
            ],
        );
        self.text(name, &column.name);
        match column.values {
            ColumnValues::Text(_) | ColumnValues::Bool(_) => {
                self.table(of_kind, []);
            }
            ColumnValues::Signed(_) | ColumnValues::Unsigned(_) => {
                let is_signed = u8::from(matches!(column.values, ColumnValues::Signed(_)));
                self.table(of_kind, [Slot::Scalar(&64_i32.to_le_bytes()), Slot::Scalar(&[is_signed])]);
            }
            ColumnValues::Real(_) => {
                self.table(of_kind, [Slot::Scalar(&DOUBLE.to_le_bytes())]);
            }
        }
        let _no_children = self.vector(children, 0);
        if let Some(unit) = &column.unit {
            for pair in self.vector(metadata, 1) {
                let [key, value] = self.table(pair, [Slot::Reference; 2]);
                self.text(key, UNIT);
                self.text(value, unit);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pyarrow 26 and Polars read the column as a nullable column of doubles with the metadata `unit` = `%`.
    #[test]
    fn a_column_with_a_unit_is_a_field_with_metadata() {
        let share = Column::in_unit("share", "%", ColumnValues::Real(Vec::new()));
        let expected = "/////8gAAAAQAAAADAAYAAQABgAIABAADAAAAAQAAQAYAAAAAAAAAAAAAAAAAAAACAAIAAAABAAIAAAABAAAAAEAAAAcAAAA\
             EgAYAAQACAAJAAwAAAAQABQAAAAAAAAAGAAAABQAAAABAwAAJAAAACgAAAAoAAAACQAAAHNoYXJlIFslXQAGAAYABAAAAAAA\
             CgAAAAIAAAAAAAAAAQAAABAAAAAIAAwABAAIAAAAAAAMAAAACAAAABAAAAAEAAAAdW5pdAAAAAABAAAAJQAAAA==";
        assert_eq!(encoded(&[share]), expected);
    }
}
