//! The programs and libraries that the tests need.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::journal::Journal;

/// The source of the peer's program.
const PEER: &str = include_str!("../peer/usrsctp_peer.c");

/// A program that uses the library. It is compiled to check that the library is installed.
const PROBE: &str = "#include <usrsctp.h>\nint main(void) { return usrsctp_finish(); }\n";

/// The peer's program. A value of this type proves that the machine can run these tests.
#[derive(Debug)]
pub struct Tools {
    peer: PathBuf,
    /// The folder of the program, which is removed at the end of the test.
    _journal: Journal,
}

impl Tools {
    /// Checks the requirements and compiles the peer's program. If a requirement is missing, prints it directly to
    /// stderr, because the test harness would hide it, and returns `None`.
    ///
    /// # Panics
    /// If the library is installed and the peer's program does not compile.
    pub fn find() -> Option<Self> {
        let found = Self::look();
        if let Err(missing) = &found {
            let _ = writeln!(std::io::stderr(), "skipped: needs {missing}");
        }
        found.ok()
    }

    /// The peer's program.
    pub(crate) fn peer(&self) -> &Path {
        &self.peer
    }

    fn look() -> Result<Self, &'static str> {
        if !rustix::process::geteuid().is_root() {
            return Err("root, for raw IP sockets and network namespaces");
        }
        for (program, argument, missing) in [
            ("cc", "--version", "a C compiler"),
            ("ip", "-V", "iproute2"),
            ("dumpcap", "--version", "tshark"),
            ("tshark", "--version", "tshark"),
        ] {
            if !succeeds(Command::new(program).arg(argument)) {
                return Err(missing);
            }
        }
        let journal = Journal::open();
        if !succeeds(Command::new("ip").args(["netns", "add", &journal.name('p')])) {
            return Err("the right to make network namespaces");
        }
        compile(PROBE, &journal.folder().join("probe")).map_err(|_| "libusrsctp-dev")?;
        let peer = journal.folder().join("usrsctp_peer");
        if let Err(why) = compile(PEER, &peer) {
            panic!("the peer does not compile: {why}");
        }
        Ok(Self { peer, _journal: journal })
    }
}

fn succeeds(command: &mut Command) -> bool {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Compiles a C program with usrsctp.
fn compile(source: &str, program: &Path) -> Result<(), String> {
    let file = program.with_extension("c");
    std::fs::write(&file, source).map_err(|error| error.to_string())?;
    let out = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .args([program, &file])
        .args(["-lusrsctp", "-pthread"])
        .output()
        .map_err(|error| error.to_string())?;
    if out.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&out.stderr).into_owned()) }
}
