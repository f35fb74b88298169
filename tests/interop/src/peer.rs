//! usrsctp as a child process in its own namespace.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::network::{Network, Side};
use crate::tools::Tools;

/// The actions of the peer.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Whether it initiates the association. Otherwise it listens.
    pub connects: bool,
    /// The folder with the files that it sends.
    pub sends: Option<PathBuf>,
    /// Whether it shuts down after it has handed over all its data.
    pub closes: bool,
    /// The folder for the files that it receives.
    pub receives: Option<PathBuf>,
    /// Number of received bytes after which it shuts down.
    pub shutdown_after: Option<u64>,
    /// Number of received bytes after which it aborts.
    pub abort_after: Option<u64>,
    /// Maximum length of a message that it sends, bytes.
    pub longest_message: Option<usize>,
    /// Path.Max.Retrans; `None` for usrsctp's default of 5.
    pub path_max_retrans: Option<u16>,
}

impl Plan {
    /// The arguments of the program.
    fn words(&self, network: &Network) -> Vec<String> {
        let addresses = |side| network.addresses(side).map(|address| address.to_string());
        let path = |path: &PathBuf| path.display().to_string();
        let locals = addresses(Side::Peer).map(|address| ("-l", address));
        let remotes = addresses(Side::Netrig).filter(|_| self.connects).map(|address| ("-r", address));
        let options = [
            ("-s", self.sends.as_ref().map(path)),
            ("-d", self.receives.as_ref().map(path)),
            ("-c", self.shutdown_after.map(|bytes| bytes.to_string())),
            ("-a", self.abort_after.map(|bytes| bytes.to_string())),
            ("-m", self.longest_message.map(|bytes| bytes.to_string())),
            ("-p", self.path_max_retrans.map(|count| count.to_string())),
        ];
        let closes = self.closes.then(|| "-e".to_owned());
        let options = options.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let pairs = locals.chain(remotes).chain(options);
        pairs.flat_map(|(name, value)| [name.to_owned(), value]).chain(closes).collect()
    }
}

/// A line of the peer's output.
#[derive(Clone, Debug)]
pub struct Said {
    /// The time at which it was read.
    pub at: Instant,
    /// The line.
    pub line: String,
}

/// The running peer. It is killed when this value is dropped.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    said: Arc<Mutex<Vec<Said>>>,
    reader: Option<JoinHandle<()>>,
}

impl Peer {
    /// Starts the peer. If it listens, it does so before this function returns.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(tools: &Tools, network: &Network, plan: &Plan) -> Self {
        let mut command = Command::new(tools.peer());
        command.args(plan.words(network)).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = network.namespace(Side::Peer).within(|| command.spawn().expect("the peer starts"));
        let lines = BufReader::new(child.stdout.take().expect("its output is piped")).lines();
        let said = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&said);
        let reader = thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                heard.lock().unwrap_or_else(PoisonError::into_inner).push(Said { at: Instant::now(), line });
            }
        });
        let this = Self { child, said, reader: Some(reader) };
        if !plan.connects {
            this.wait_for("listening");
        }
        this
    }

    /// All output so far.
    pub fn said(&self) -> Vec<Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The time at which it first printed this line.
    pub fn when(&self, line: &str) -> Option<Instant> {
        self.said().iter().find(|said| said.line == line).map(|said| said.at)
    }

    fn wait_for(&self, line: &str) {
        let start = Instant::now();
        while self.when(line).is_none() {
            assert!(start.elapsed() < Duration::from_secs(10), "the peer never said `{line}`");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether the process has ended.
    ///
    /// # Panics
    /// If it ended with an error.
    pub fn is_over(&mut self) -> bool {
        let Some(status) = self.child.try_wait().expect("a child can be waited for") else { return false };
        // After the pipe is closed, all its output has been read.
        if let Some(reader) = self.reader.take() {
            reader.join().expect("reading lines does not fail");
        }
        assert!(status.success(), "the peer failed: {status}; it said {:?}", self.said());
        true
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // An error is ignored: the process may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
