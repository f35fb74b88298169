//! A terminal made by script(1), to which keys are sent.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Time limit for events that should happen immediately.
const AT_ONCE: Duration = Duration::from_secs(60);

/// A shell on a terminal.
pub struct Terminal {
    child: Child,
    keys: ChildStdin,
    came: Receiver<Vec<u8>>,
    shown: String,
}

impl Terminal {
    /// Runs commands in a folder, on a terminal of 30 lines.
    pub fn run(folder: &Path, commands: &str) -> Self {
        let commands = format!("stty rows 30 cols 150; {commands}");
        let mut script = Command::new("script");
        script.args(["--quiet", "--flush", "--return", "--command", &commands, "/dev/null"]);
        script.current_dir(folder).env("TERM", "xterm").env("SHELL", "/bin/sh").env_remove("NO_COLOR");
        let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (keys, mut out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (tell, came) = channel();
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(length @ 1..) = out.read(&mut part) {
                if tell.send(part[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { child, keys, came, shown: String::new() }
    }

    /// Waits until the terminal shows a text after the text of the previous call. Returns the output up to the text.
    pub fn wait_for(&mut self, words: &str) -> String {
        let end = Instant::now() + AT_ONCE;
        loop {
            if let Some(place) = self.shown.find(words) {
                let before = self.shown[..place].to_owned();
                self.shown.drain(..place + words.len());
                return before;
            }
            let left = end.saturating_duration_since(Instant::now());
            let part = self.came.recv_timeout(left);
            let part = part.unwrap_or_else(|_| panic!("`{words}` is not shown: {:?}", self.shown));
            self.shown.push_str(&String::from_utf8_lossy(&part));
        }
    }

    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Waits until the commands have ended. Returns the output after the last awaited text.
    pub fn end(mut self) -> String {
        while let Ok(part) = self.came.recv_timeout(AT_ONCE) {
            self.shown.push_str(&String::from_utf8_lossy(&part));
        }
        self.child.wait().unwrap();
        self.shown
    }
}
