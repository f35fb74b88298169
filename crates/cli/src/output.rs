//! Output files (`--out`), and the width of a terminal.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use crate::failure::{Failure, print};

/// Maximum length of a chain of symbolic links. Operating systems follow fewer.
const MOST_LINKS: usize = 40;

/// Width of a line in columns: the value of `COLUMNS`, else the width of the terminal, else 100.
pub fn terminal_width() -> usize {
    let typed = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let is_terminal = io::stdout().is_terminal();
    let own = || is_terminal.then(|| ratatui::crossterm::terminal::size().ok()).flatten();
    typed.or_else(|| own().map(|(columns, _)| columns.into())).filter(|columns| *columns > 0).unwrap_or(100)
}

/// Replaces a file atomically: if the disk is full, the old file stays. If `out` is a symbolic link, its target is
/// replaced. If `out` is a pipe or a device, the bytes are written to it.
pub fn replace(out: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut file = Outgoing::open(out)?;
    file.write(bytes)?;
    file.finish()
}

/// A file that is written in pieces and replaced as by [`replace`]. If it is not finished, the pieces are removed.
pub struct Outgoing {
    /// The path as given on the command line.
    named: PathBuf,
    to: BufWriter<File>,
    /// The temporary file, and the final path; `None` for a stream.
    part: Option<(PathBuf, PathBuf)>,
}

impl Outgoing {
    /// Opens a stream if `out` is one, else a temporary file beside the final path.
    pub fn open(out: &Path) -> Result<Self, Failure> {
        let opened = if is_stream(out) { Self::stream(out) } else { Self::part(out) };
        opened.map_err(|error| lost(out, &error))
    }

    /// Opens a pipe, a device, or the target of an open descriptor. If the target is a regular file, output is appended
    /// to it (`>> all.csv`).
    fn stream(out: &Path) -> io::Result<Self> {
        let regular = fs::metadata(out)?.is_file();
        let file = OpenOptions::new().write(true).append(regular).open(out)?;
        Ok(Self { named: out.to_owned(), to: BufWriter::new(file), part: None })
    }

    fn part(out: &Path) -> io::Result<Self> {
        let file = behind_links(out)?;
        let folder = folder_of(&file);
        if !folder.as_os_str().is_empty() {
            fs::create_dir_all(folder)?;
        }
        let mut part = file.clone().into_os_string();
        part.push(".part");
        let part = PathBuf::from(part);
        let to = BufWriter::new(File::create(&part)?);
        Ok(Self { named: out.to_owned(), to, part: Some((part, file)) })
    }

    /// Writes the next piece.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.to.write_all(bytes).map_err(|error| lost(&self.named, &error))
    }

    /// The file, for code that writes to it directly.
    pub fn writer(&mut self) -> &mut BufWriter<File> {
        &mut self.to
    }

    /// The failure of code that wrote to [`Self::writer`].
    pub fn lost(&self, error: &io::Error) -> Failure {
        lost(&self.named, error)
    }

    /// Moves the finished file to its final path.
    pub fn finish(mut self) -> Result<(), Failure> {
        let placed = self.to.flush().and_then(|()| match &self.part {
            Some((part, file)) => fs::rename(part, file),
            None => Ok(()),
        });
        placed.map_err(|error| lost(&self.named, &error))?;
        self.part = None;
        Ok(())
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        if let Some((part, _)) = &self.part {
            // An unfinished file is removed. An error is ignored.
            let _ = fs::remove_file(part);
        }
    }
}

/// Why `out` could not be written. A closed pipe needs no message.
fn lost(out: &Path, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::BrokenPipe,
        _ => Failure::failed(format!("cannot write {}: {error}", out.display())),
    }
}

/// Prints `text` about the written file on stdout. If `out` may be stdout, prints it on stderr.
pub fn tell(out: &Path, text: &str) -> Result<(), Failure> {
    if !is_stream(out) {
        return print(text);
    }
    eprintln!("{text}");
    Ok(())
}

/// Whether `out` is a pipe, a device, or a file that some process has open (`/dev/stdout`).
fn is_stream(out: &Path) -> bool {
    let special = fs::metadata(out).is_ok_and(|found| !found.is_file() && !found.is_dir());
    special || behind_links(out).is_ok_and(|file| is_descriptor(&file))
}

/// Whether the path is that of an open descriptor.
fn is_descriptor(path: &Path) -> bool {
    ["/proc", "/dev/fd"].iter().any(|folder| path.starts_with(folder))
}

/// The path at the end of a chain of symbolic links. It need not exist.
fn behind_links(out: &Path) -> io::Result<PathBuf> {
    let mut path = out.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&path) {
            Ok(target) if !is_descriptor(&path) => path = folder_of(&path).join(target),
            _ => return Ok(path),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}
