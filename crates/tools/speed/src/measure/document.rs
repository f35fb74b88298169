//! The report as a JSON document.

use std::io::{self, Write};

use serde::Serialize;
use serde::ser::Error as _;
use serde_json::Serializer;
use serde_json::ser::{Formatter, PrettyFormatter};

use super::SpeedReport;

impl SpeedReport {
    /// The report as JSON. Objects are indented. A list is written in one line, so that a column of readings is one
    /// line.
    ///
    /// # Errors
    /// If the report cannot be serialised.
    pub fn json(&self) -> serde_json::Result<String> {
        json(self)
    }
}

fn json(document: &impl Serialize) -> serde_json::Result<String> {
    let mut text = Vec::new();
    let form = ListsInLine(PrettyFormatter::new());
    document.serialize(&mut Serializer::with_formatter(&mut text, form))?;
    String::from_utf8(text).map_err(serde_json::Error::custom)
}

struct ListsInLine(PrettyFormatter<'static>);

/// The methods that are not overridden write no white space.
impl Formatter for ListsInLine {
    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn a_column_stands_in_a_line() {
        let document = json!({ "a": [1, 2.5, null], "b": [{ "c": "x", "d": {} }, { "c": [] }] });
        let text = super::json(&document).unwrap();
        let wanted = "{\n  \"a\": [1, 2.5, null],\n  \"b\": [{\n    \"c\": \"x\",\n    \"d\": {}\n  }, {\n    \"c\": []\n  }]\n}";
        assert_eq!(text, wanted);
    }
}
