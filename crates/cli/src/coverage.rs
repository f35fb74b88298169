//! Protection of output files: a file made from a part of an experiment does not replace a file made from more of it.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use netrig_host::user_file;
use netrig_report::Coverage;

use crate::failure::Failure;

/// Length of the part at the end of a file that is searched for its stamp, bytes. The stamp is at the end of an HTML
/// page or an SVG drawing, or in the footer of a Parquet file.
const STAMPED: u64 = 1 << 20;

/// The present content of the path of an output file.
enum Occupant {
    /// Nothing that could be lost: no file, an empty one, a pipe or a device.
    Nothing,
    /// A file without a statement of the runs from which it was made.
    Unknown,
    Known(Coverage),
}

/// Returns an error if `out` is a file that was made from more runs than `new`, or if `new` covers only a part of the
/// experiment and the coverage of `out` is unknown.
pub fn may_replace(new: &Coverage, out: &Path) -> Result<(), Failure> {
    let was = match Occupant::of(out) {
        Occupant::Known(there) if there.is_lost_to(new) => format!("was made from {}", there.words()),
        Occupant::Unknown if new.is_part() => "exists, but does not say what it was made from".to_owned(),
        _ => return Ok(()),
    };
    Err(Failure::request(format!(
        "{} {was}, and would be replaced by a file made from {}; --out names another file, and --force replaces this one",
        out.display(),
        new.words()
    )))
}

/// Returns an error if `out` was made from more than one run and would be replaced by a file of one run.
pub fn spare(out: &Path, force: bool) -> Result<(), Failure> {
    match Occupant::of(out) {
        Occupant::Known(there) if there.runs() > 1 && !force => Err(Failure::request(format!(
            "{} was made from {}, and would be replaced by a file of one run; --out names another file, and --force \
             replaces this one",
            out.display(),
            there.words()
        ))),
        _ => Ok(()),
    }
}

impl Occupant {
    fn of(path: &Path) -> Self {
        Self::within(path, user_file::LONGEST_DATA)
    }

    /// As [`Self::of`]. The coverage of a document or a table of more than `longest` bytes is unknown.
    fn within(path: &Path, longest: u64) -> Self {
        let Ok(about) = path.metadata() else { return Self::Nothing };
        if !about.is_file() || about.len() == 0 {
            return Self::Nothing;
        }
        Self::read(path, longest).map_or(Self::Unknown, Self::Known)
    }

    /// The coverage that a file states.
    fn read(path: &Path, longest: u64) -> Option<Coverage> {
        let (mut file, about) = user_file::open_regular(path, "a regular file").ok()?;
        let mut tail = Vec::new();
        file.seek(SeekFrom::Start(about.len().saturating_sub(STAMPED))).ok()?;
        file.take(STAMPED).read_to_end(&mut tail).ok()?;
        let tail = String::from_utf8_lossy(&tail);
        Coverage::stamped(&tail).unwrap_or_else(|| {
            let ending = path.extension()?.to_str()?;
            Coverage::of_file(&user_file::read_text(path, longest).ok()?, ending)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_or_a_table_is_read_up_to_a_limit() {
        let folder = tempfile::tempdir().expect("a folder");
        let document = r#"{"experiment": "x", "points": [{"substrate": "sim", "responses": {"goodput": {"runs": [1, 2]}}}]}"#;
        let table = "substrate,response,unit,mean,low,high,n\r\nsim,goodput,B/s,1,,,2\r\n";
        for (name, text) in [("report.json", document), ("report.csv", table)] {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("a file");
            let length = text.len() as u64;
            let Occupant::Known(made) = Occupant::within(&path, length) else { panic!("{name}") };
            assert_eq!(made.words(), "1 point and 2 runs on sim", "{name}");
            assert!(matches!(Occupant::within(&path, length - 1), Occupant::Unknown), "{name}");
        }
        // The limit does not apply to files with a stamp.
        let page = folder.path().join("report.html");
        std::fs::write(&page, "<!-- netrig-coverage: whole 1 2 sim x; -->\n").expect("a file");
        assert!(matches!(Occupant::within(&page, 1), Occupant::Known(_)));
    }
}
