//! Files whose lines are injected into the messages of calls (SIPp's `-inf`).

use std::collections::BTreeMap;

use netrig_core::Stream;

/// The order in which calls take lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectionOrder {
    /// One after the other. After the last line, the first one follows.
    Sequential,
    /// A random line.
    Random,
    /// The line with the number of the user.
    User,
}

/// Counted lines (SIPp's `PRINTF`): virtual lines, each of which is a line of the file with a different number
/// inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CountedLines {
    lines: usize,
    offset: i64,
    multiple: i64,
}

impl CountedLines {
    /// The number that is inserted into a line; `None` if it exceeds 64 bits.
    fn number(self, line: usize) -> Option<i64> {
        i64::try_from(line).ok()?.checked_mul(self.multiple)?.checked_add(self.offset)
    }
}

/// The largest number of counted lines, because an index contains all of them.
const MOST_COUNTED_LINES: usize = 10_000_000;

/// An injection file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InjectionFile {
    /// The order in which calls take lines.
    pub order: InjectionOrder,
    lines: Vec<String>,
    counted: Option<CountedLines>,
    next: usize,
    /// The indexed field, and the number of a line for each value of the field.
    index: Option<(usize, BTreeMap<String, usize>)>,
}

/// Why an injection file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InjectionError {
    /// The first line has no order.
    #[error("line 1: expected SEQUENTIAL, RANDOM or USER, found `{0}`")]
    Order(String),
    /// The setting with this name, after the order in the first line, is invalid.
    #[error("line 1: expected a number after {0}=")]
    Setting(&'static str),
    /// The number of counted lines is 0 or too large.
    #[error("line 1: expected 1 to {MOST_COUNTED_LINES} lines after PRINTF=, found {0}")]
    CountedLines(i64),
    /// There are no lines after the first.
    #[error("it has no line after the first")]
    Empty,
    /// A field is not a valid format for a number.
    #[error("line {line}: a `%` begins no `%d`, and `%%` stands for a percent sign")]
    Format {
        /// The line, from 1.
        line: usize,
    },
    /// A line was requested that does not exist.
    #[error("it has {lines} lines, but line {line} was requested")]
    Line {
        /// The line, from 0.
        line: i64,
        /// Number of lines.
        lines: usize,
    },
    /// Counted lines cannot be changed.
    #[error("lines of a file with PRINTF cannot be changed")]
    Counted,
}

impl InjectionFile {
    /// Reads a file. The first line contains the order. Lines that begin with `#` are comments, and an empty line ends
    /// the file. Fields are separated by `;`. A byte order mark and carriage returns are ignored.
    ///
    /// # Errors
    /// If the file has no order, no line after the first, or an invalid format of a number.
    pub fn parse(text: &str) -> Result<Self, InjectionError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines = text.lines().map(|line| line.trim_end_matches('\r')).zip(1..);
        let (first, _) = lines.next().unwrap_or_default();
        let order = match first {
            first if first.contains("RANDOM") => InjectionOrder::Random,
            first if first.contains("SEQUENTIAL") => InjectionOrder::Sequential,
            first if first.contains("USER") => InjectionOrder::User,
            other => return Err(InjectionError::Order(other.chars().take(40).collect())),
        };
        let counted = match setting(first, "PRINTF")? {
            None => None,
            Some(lines) => Some(CountedLines {
                lines: usize::try_from(lines)
                    .ok()
                    .filter(|lines| (1..=MOST_COUNTED_LINES).contains(lines))
                    .ok_or(InjectionError::CountedLines(lines))?,
                offset: setting(first, "PRINTFOFFSET")?.unwrap_or(0),
                multiple: setting(first, "PRINTFMULTIPLE")?.unwrap_or(1),
            }),
        };
        if counted.is_some_and(|counted| counted.number(counted.lines - 1).is_none()) {
            return Err(InjectionError::Setting("PRINTFMULTIPLE"));
        }
        let mut kept = Vec::new();
        for (line, number) in lines {
            if line.is_empty() {
                break;
            }
            if line.starts_with('#') {
                continue;
            }
            if counted.is_some() && formatted(line, 0).is_none() {
                return Err(InjectionError::Format { line: number });
            }
            kept.push(line.to_owned());
        }
        if kept.is_empty() {
            return Err(InjectionError::Empty);
        }
        Ok(Self { order, lines: kept, counted, next: 0, index: None })
    }

    /// Number of lines.
    pub fn len(&self) -> usize {
        self.counted.map_or(self.lines.len(), |counted| counted.lines)
    }

    /// Whether there are no lines. [`InjectionFile::parse`] refuses such a file.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of the line for the next call, from 0. `user` is the number of its user, from 0. `None` if the order
    /// is `USER` and the call has no user.
    ///
    /// # Errors
    /// If there are fewer lines than users.
    pub fn next_line(
        &mut self,
        user: Option<usize>,
        draws: &mut Stream,
    ) -> Result<Option<usize>, InjectionError> {
        let lines = self.len();
        match self.order {
            InjectionOrder::Sequential => {
                let line = self.next;
                self.next = (line + 1) % lines;
                Ok(Some(line))
            }
            InjectionOrder::Random => Ok(Some(draws.below(lines as u64) as usize)),
            InjectionOrder::User => match user {
                Some(user) if user >= lines => Err(InjectionError::Line { line: user as i64, lines }),
                user => Ok(user),
            },
        }
    }

    /// A field of a line. Lines and fields are numbered from 0. A missing field is empty.
    ///
    /// # Errors
    /// If there is no such line.
    pub fn field(&self, line: usize, field: usize) -> Result<String, InjectionError> {
        let lines = self.len();
        if line >= lines {
            return Err(InjectionError::Line { line: line as i64, lines });
        }
        let text = self.lines[line % self.lines.len()].split(';').nth(field).unwrap_or_default();
        Ok(match self.counted {
            // No default is used: the formats and the largest number were checked when the file was read.
            Some(counted) => {
                let number = counted.number(line).unwrap_or_default();
                formatted(text, number).unwrap_or_default()
            }
            None => text.to_owned(),
        })
    }

    /// Indexes the lines by the value of a field, for [`lookup`](Self::lookup).
    pub fn index_by(&mut self, field: usize) {
        if self.index.as_ref().is_some_and(|(indexed, _)| *indexed == field) {
            return;
        }
        let lines = (0..self.len()).filter_map(|line| Some((self.field(line, field).ok()?, line)));
        // If several lines have the same value, the last one is found.
        self.index = Some((field, lines.collect()));
    }

    /// The number of the line with this value in the indexed field; `None` if there is no such line, or no index.
    pub fn lookup(&self, value: &str) -> Option<usize> {
        self.index.as_ref()?.1.get(value).copied()
    }

    /// Adds a line.
    ///
    /// # Errors
    /// If the file has counted lines.
    pub fn insert(&mut self, line: &str) -> Result<(), InjectionError> {
        if self.counted.is_some() {
            return Err(InjectionError::Counted);
        }
        self.lines.push(line.to_owned());
        let place = self.lines.len() - 1;
        if let Some((field, lines)) = &mut self.index {
            lines.insert(line.split(';').nth(*field).unwrap_or_default().to_owned(), place);
        }
        Ok(())
    }

    /// Replaces a line.
    ///
    /// # Errors
    /// If the file has counted lines, or no line with this number.
    pub fn replace(&mut self, line: i64, text: &str) -> Result<(), InjectionError> {
        if self.counted.is_some() {
            return Err(InjectionError::Counted);
        }
        let lines = self.lines.len();
        let place = usize::try_from(line).ok().and_then(|line| self.lines.get_mut(line));
        *place.ok_or(InjectionError::Line { line, lines })? = text.to_owned();
        if let Some((field, _)) = self.index.take() {
            self.index_by(field);
        }
        Ok(())
    }
}

/// The number after `NAME=` in the first line.
fn setting(line: &str, name: &'static str) -> Result<Option<i64>, InjectionError> {
    let mut words = line.split(',').map(str::trim);
    let Some(word) = words.find(|word| word.strip_prefix(name).is_some_and(|rest| rest.starts_with('=')))
    else {
        return Ok(None);
    };
    word[name.len() + 1..].trim().parse().map(Some).map_err(|_| InjectionError::Setting(name))
}

/// A text with `%d`, `%05d` or `%-5d` for a number, and `%%` for a percent sign. `None` if it has another `%`.
fn formatted(text: &str, number: i64) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(place) = rest.find('%') {
        out.push_str(&rest[..place]);
        rest = &rest[place + 1..];
        if let Some(behind) = rest.strip_prefix('%') {
            out.push('%');
            rest = behind;
            continue;
        }
        let end = rest.find('d')?;
        let format = &rest[..end];
        let is_left = format.starts_with('-');
        let digits = format.trim_start_matches('-');
        if !digits.chars().all(|letter| letter.is_ascii_digit()) {
            return None;
        }
        let width: usize =
            if digits.is_empty() { 0 } else { digits.parse().ok().filter(|width| *width <= 64)? };
        match (is_left, digits.starts_with('0')) {
            (true, _) => out.push_str(&format!("{number:<width$}")),
            (false, true) => out.push_str(&format!("{number:0width$}")),
            (false, false) => out.push_str(&format!("{number:width$}")),
        }
        rest = &rest[end + 1..];
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use netrig_core::Seeds;

    use super::*;

    #[test]
    fn lines_are_taken_in_their_order() {
        let mut file = InjectionFile::parse(
            "SEQUENTIAL\r\n#a comment\nalice;secret\nbob;[authentication];x\n\nignored\n",
        )
        .unwrap();
        let mut draws = Seeds::new(1).stream("lines");
        let lines: Vec<_> = (0..3).map(|_| file.next_line(None, &mut draws).unwrap().unwrap()).collect();
        assert_eq!(lines, [0, 1, 0]);
        assert_eq!(file.field(1, 1).unwrap(), "[authentication]");
        assert_eq!(file.field(0, 7).unwrap(), "");
        assert_eq!(file.field(2, 0), Err(InjectionError::Line { line: 2, lines: 2 }));
        let mut users = InjectionFile::parse("USERS\na\nb\n").unwrap();
        assert_eq!(users.next_line(Some(1), &mut draws), Ok(Some(1)));
        assert!(users.next_line(Some(2), &mut draws).is_err());
        let mut random = InjectionFile::parse("RANDOM\na\nb\n").unwrap();
        assert!((0..50).all(|_| random.next_line(None, &mut draws).unwrap() < Some(2)));
    }

    #[test]
    fn lines_are_counted() {
        let file = InjectionFile::parse(
            "SEQUENTIAL,PRINTF=1000,PRINTFOFFSET=10,PRINTFMULTIPLE=2\nuser%05d;100%%;%-4d|\n",
        )
        .unwrap();
        assert_eq!(file.len(), 1000);
        assert_eq!(file.field(3, 0).unwrap(), "user00016");
        assert_eq!(file.field(3, 1).unwrap(), "100%");
        assert_eq!(file.field(3, 2).unwrap(), "16  |");
    }

    #[test]
    fn lines_are_found_and_changed() {
        let mut file = InjectionFile::parse("SEQUENTIAL\nalice;1\nbob;2\n").unwrap();
        assert_eq!(file.lookup("bob"), None, "no index");
        file.index_by(0);
        assert_eq!(file.lookup("bob"), Some(1));
        file.insert("carol;3").unwrap();
        file.replace(1, "dave;2").unwrap();
        assert_eq!((file.lookup("bob"), file.lookup("dave"), file.lookup("carol")), (None, Some(1), Some(2)));
        assert!(file.replace(9, "x").is_err() && file.replace(-1, "x").is_err());
    }

    #[test]
    fn a_file_that_is_none_says_why() {
        for (text, words) in [
            ("", "expected SEQUENTIAL"),
            ("alice;bob\n", "found `alice;bob`"),
            ("SEQUENTIAL\n", "no line after the first"),
            ("SEQUENTIAL,PRINTF=x\na\n", "a number after PRINTF="),
            ("SEQUENTIAL,PRINTF=0\na\n", "expected 1 to 10000000 lines after PRINTF=, found 0"),
            ("SEQUENTIAL,PRINTF=630630921\na\n", "found 630630921"),
            ("SEQUENTIAL,PRINTF=3,PRINTFMULTIPLE=9223372036854775807\na\n", "a number after PRINTFMULTIPLE="),
            ("SEQUENTIAL,PRINTF=5\nok%d\nuser%s\n", "line 3"),
        ] {
            let wrong = InjectionFile::parse(text).unwrap_err().to_string();
            assert!(wrong.contains(words), "{text:?}: {wrong}");
        }
    }
}
