//! A file after parsing, before its points are resolved.

use super::captures::{FileReader, embed};
use super::diagnostic::{Diagnostic, Diagnostics};
use super::document::{self, Kind, LONGEST_FILE, Value};
use super::factors::{self, Block, FactorValues};
use super::read::Levels;
use crate::Factor;

/// The supported version of the file format.
const FORMAT: i64 = 1;

/// The key of the format version.
pub(super) const FORMAT_KEY: &str = "format";

/// The parsed file. Its values are read once for each point.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    pub(crate) file: String,
    pub(crate) own_text: String,
    /// The text, with the names of files replaced by their contents.
    pub(crate) whole: String,
    pub(crate) root: Value,
    pub(crate) factors: Vec<FactorValues>,
    /// The factors with the levels in the file. Claims may name levels that `--set` omits: they are valid, but not
    /// tested.
    pub(crate) written: Vec<Factor>,
    pub(crate) blocks: Vec<Block>,
}

impl Definition {
    /// The values of the factors at the point whose levels have these indices.
    pub(crate) fn levels(&self, places: &[usize]) -> Levels<'_> {
        self.factors.iter().zip(places).map(|(f, place)| (f.name.as_str(), &f.levels[*place].1)).collect()
    }

    /// Whether every factor has the levels of the file.
    pub(crate) fn is_as_written(&self) -> bool {
        let now = self.factors.iter().map(|factor| factor.levels.iter().map(|(level, _)| level));
        self.written.iter().zip(now).all(|(written, now)| written.levels.iter().eq(now))
    }

    pub(crate) fn diagnostics(&self, problems: Vec<Diagnostic>) -> Diagnostics {
        Diagnostics::new(&self.file, &self.own_text, problems)
    }
}

/// Parses the bytes of a file and reads its factors and points. `reader` reads the files that it names.
pub(crate) fn definition(
    file: &str,
    bytes: &[u8],
    reader: Option<&dyn FileReader>,
) -> Result<Definition, Diagnostics> {
    if bytes.len() > LONGEST_FILE {
        let why = format!("the file has {} bytes; an experiment has at most {LONGEST_FILE}", bytes.len());
        return Err(Diagnostics::new(file, "", vec![Diagnostic::error(0..0, why)]));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        // The part before the fault is valid text, so the position can be shown.
        let before = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        let problem =
            Diagnostic::error(before.len()..before.len(), "the file is not text in UTF-8 from here on");
        Diagnostics::new(file, &before, vec![problem])
    })?;
    let refuse = |problems| Diagnostics::new(file, text, problems);
    let mut root = document::parse(text).map_err(refuse)?;
    check_format(&root).map_err(|problem| refuse(vec![*problem]))?;
    let whole = match reader {
        Some(reader) => embed(&mut root, text, reader).map_err(|problem| refuse(vec![*problem]))?,
        None => text.to_owned(),
    };
    let mut problems = Vec::new();
    let section = |name: &str| root.table().and_then(|root| root.get(name));
    let factors = section("factors").map(|value| factors::factors(value, &mut problems)).unwrap_or_default();
    let blocks = section("points").map(|value| factors::blocks(value, &factors, &mut problems));
    if !problems.is_empty() {
        return Err(refuse(problems));
    }
    let (file, text) = (file.to_owned(), text.to_owned());
    let written = factors.iter().map(factors::factor).collect();
    Ok(Definition { file, own_text: text, whole, root, factors, written, blocks: blocks.unwrap_or_default() })
}

/// Checks the format. In another format, every part of the file may differ, so no other faults are reported.
fn check_format(root: &Value) -> Result<(), Box<Diagnostic>> {
    let problem = match root.table().and_then(|root| root.get(FORMAT_KEY)) {
        Some(Value { kind: Kind::Integer(FORMAT), .. }) => return Ok(()),
        Some(Value { kind: Kind::Integer(format), span }) if *format > FORMAT => {
            let why = format!("the file was made for format {format}; this netrig reads {FORMAT}");
            Diagnostic::error(span.clone(), why).help("a newer netrig can read it")
        }
        Some(value) => Diagnostic::error(value.span.clone(), "this is no format of experiment files")
            .expected(format!("`format = {FORMAT}`")),
        None => Diagnostic::error(0..0, "the key `format` is missing")
            .expected(format!("`format = {FORMAT}` at the top of an experiment file")),
    };
    Err(Box::new(problem))
}
