//! A journal of the namespaces that a test makes. Their names are written before they are made, so that the next run
//! can remove what a killed test has left behind.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};

/// The folder of one test's files, with the list of its namespaces. When this value is dropped, the folder and the
/// namespaces are removed.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    prefix: String,
}

/// The file with the names of the namespaces, one per line.
const NAMESPACES: &str = "namespaces";

/// Prefix of the names of namespaces made by a process.
fn prefix(process: u32) -> String {
    format!("netrig-interop-{process}-")
}

impl Journal {
    /// Opens a journal in a new folder. The first call in a process also removes what ended processes have left behind.
    pub fn open() -> Self {
        static CLEARED: Once = Once::new();
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let journals = std::env::temp_dir().join("netrig-interop");
        CLEARED.call_once(|| clear_leftovers(&journals));
        let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = journals.join(format!("{process}-{count}"));
        fs::create_dir_all(&folder).expect("a folder for temporary files can be made");
        Self { folder, prefix: format!("{}{count}", prefix(process)) }
    }

    /// The folder of the test's files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A unique name for a namespace, written to the journal.
    pub fn name(&self, side: char) -> String {
        let name = format!("{}{side}", self.prefix);
        let file = fs::OpenOptions::new().create(true).append(true).open(self.folder.join(NAMESPACES));
        writeln!(file.expect("the journal can be opened"), "{name}").expect("the journal can be written");
        name
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        clear(&self.folder, &self.prefix);
    }
}

/// Removes the folders and namespaces of processes that have ended.
fn clear_leftovers(journals: &Path) {
    for folder in fs::read_dir(journals).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(process) = name.split('-').next().and_then(|text| text.parse::<u32>().ok()) else {
            continue;
        };
        if !Path::new("/proc").join(process.to_string()).exists() {
            clear(&folder, &prefix(process));
        }
    }
}

/// Removes the namespaces that a folder lists, and then the folder. A missing one is not an error, because two
/// processes may remove them at the same time.
fn clear(folder: &Path, prefix: &str) {
    let made = fs::read_to_string(folder.join(NAMESPACES)).unwrap_or_default();
    made.lines().filter(|name| name.starts_with(prefix)).for_each(remove_namespace);
    let _ = fs::remove_dir_all(folder);
}

/// Kills the processes in a namespace, and removes the namespace.
fn remove_namespace(name: &str) {
    let ip = |words: [&str; 3]| Command::new("ip").args(words).stderr(Stdio::null()).output();
    let inside = ip(["netns", "pids", name]).map(|out| out.stdout).unwrap_or_default();
    for process in String::from_utf8_lossy(&inside).lines() {
        if let Some(process) = process.trim().parse().ok().and_then(Pid::from_raw) {
            let _ = kill_process(process, Signal::KILL);
        }
    }
    let _ = ip(["netns", "del", name]);
}
