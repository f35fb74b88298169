//! A store on disk for rows that would fill the memory in a long load.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Rows in the order of their creation. They are in an unnamed temporary file, which the kernel deletes when the
/// process ends. If a row cannot be written, all rows are kept in memory from then on.
#[derive(Debug)]
pub(super) struct Spool<T> {
    file: Option<File>,
    written: u64,
    kept: Vec<T>,
}

impl<T> Default for Spool<T> {
    fn default() -> Self {
        // Without a file, the rows are kept in memory.
        Self { file: tempfile::tempfile().ok(), written: 0, kept: Vec::new() }
    }
}

impl<T: Serialize + DeserializeOwned> Spool<T> {
    pub const fn is_empty(&self) -> bool {
        self.written == 0 && self.kept.is_empty()
    }

    /// Appends a row.
    pub fn push(&mut self, row: T) {
        if self.file.as_mut().is_some_and(|file| write(file, &row).is_ok()) {
            self.written += 1;
            return;
        }
        // The row could not be written. The rows before it are read back, so that the order is kept.
        if let Some(Ok(before)) = self.file.take().map(|file| read(file, self.written)) {
            self.written = 0;
            self.kept = before;
        }
        self.kept.push(row);
    }

    /// All rows.
    ///
    /// # Errors
    /// If the written rows cannot be read again.
    pub fn into_rows(self) -> io::Result<Vec<T>> {
        let mut rows = match self.file {
            Some(file) => read(file, self.written)?,
            None if self.written > 0 => return Err(io::Error::other("what was written is gone")),
            None => Vec::new(),
        };
        rows.extend(self.kept);
        Ok(rows)
    }
}

fn write(file: &mut File, row: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(row)?;
    line.push(b'\n');
    file.write_all(&line)
}

/// Reads the first `count` rows of a file. All of them were written completely.
fn read<T: DeserializeOwned>(mut file: File, count: u64) -> io::Result<Vec<T>> {
    file.seek(SeekFrom::Start(0))?;
    let lines = BufReader::new(file).lines().take(count as usize);
    lines.map(|line| Ok(serde_json::from_str(&line?)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spool(file: Option<File>) -> Spool<u32> {
        Spool { file, ..Spool::default() }
    }

    #[test]
    fn rows_come_back_in_their_order() {
        let mut spool = Spool::default();
        assert!(spool.is_empty());
        (0..1000).for_each(|row| spool.push(row));
        assert!(!spool.is_empty() && spool.kept.is_empty());
        assert!(spool.into_rows().unwrap().into_iter().eq(0..1000));
    }

    #[test]
    fn what_cannot_be_written_is_kept() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        for file in [None, Some(full)] {
            let mut spool = spool(file);
            (0..3).for_each(|row| spool.push(row));
            assert_eq!(spool.kept, [0, 1, 2]);
            assert_eq!(spool.into_rows().unwrap(), [0, 1, 2]);
        }
    }

    #[test]
    fn what_was_written_before_the_disk_was_full_comes_first() {
        let mut spool = spool(tempfile::tempfile().ok());
        spool.push(0);
        // The file is replaced by one that is opened for reading only, so that the next write fails.
        let mut whole = tempfile::NamedTempFile::new().unwrap();
        write(whole.as_file_mut(), &0).unwrap();
        spool.file = Some(File::open(whole.path()).unwrap());
        (1..4).for_each(|row| spool.push(row));
        assert_eq!(spool.into_rows().unwrap(), [0, 1, 2, 3]);
    }
}
