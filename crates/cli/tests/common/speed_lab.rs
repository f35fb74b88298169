//! A client and a server of the meter, each in a namespace of its own, with a line between them that tells of every packet.
#![allow(dead_code, reason = "each test uses a part")]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;

use netrig_core::{Direction, FiveTuple, Instant, PacketEvent, Sample, Sink, Step, Subject};
use netrig_experiment::Experiment;
use netrig_netns::{Journals, Lab, Namespaces};
use serde_json::Value;

/// The line, from the server to the client.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Megabits of IP packets per second, down and up.
    pub mbit: [f64; 2],
    /// One way, ms.
    pub delay_ms: f64,
    /// What its queue holds, ms of its rate.
    pub queue_ms: f64,
    /// Share of packets that are lost behind the queue, whatever the rate.
    pub loss: f64,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// When.
    pub at: Instant,
    /// From the server to the client.
    pub down: bool,
    /// Length of the IP packet, bytes.
    pub len: u32,
    /// Of which conversation.
    pub flow: FiveTuple,
    /// What happened.
    pub step: Step,
}

/// Keeps what became of packets.
#[derive(Default)]
pub struct Trace(pub Vec<Seen>);

impl Sink for Trace {
    fn sample(&mut self, _subject: Subject, _sample: Sample) {}

    fn wants_packets(&self, _link: u32, _direction: Direction) -> bool {
        true
    }

    fn packet(&mut self, event: &PacketEvent) {
        if matches!(event.step, Step::Sent { .. } | Step::Delivered | Step::Dropped(_)) {
            self.0.push(Seen {
                at: event.at,
                down: event.direction == Direction::Forward,
                len: event.header.ip_len,
                flow: event.header.flow,
                step: event.step,
            });
        }
    }
}

/// A server that ends with what holds it.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A lab with a server that listens.
pub struct SpeedLab {
    // Ended before its namespace goes.
    server: Option<Serving>,
    lab: Lab<Trace>,
    _journals: tempfile::TempDir,
}

impl SpeedLab {
    /// Builds it.
    pub fn build(line: Line) -> Self {
        let bytes = |mbit: f64| (mbit * 1e6 / 8.0 * line.queue_ms * 1e-3).max(6000.0) as u64;
        let [down, up] = line.mbit;
        let loss = match line.loss {
            0.0 => String::new(),
            share => format!("loss = {{ kind = \"bernoulli\", probability = {share} }}"),
        };
        let file = format!(
            r#"
format = 1
name = "speed"
duration = "100 s"
[node.server]
[node.client]
[link.line]
between = ["server", "client"]
rate = "{down} Mbit/s"
delay = "{} ms"
queue = {{ kind = "fifo", bytes = "{} B" }}
{loss}
reverse = {{ rate = "{up} Mbit/s", queue = {{ kind = "fifo", bytes = "{} B" }} }}
[flow.beside]
from = "client"
to = "server"
application = {{ kind = "cbr", interval = "20 s", size = "100 B" }}
[response.loss]
of = "flow.beside"
metric = "datagram_loss"
"#,
            line.delay_ms,
            bytes(down),
            bytes(up)
        );
        let experiment = Experiment::parse("speed", &file).unwrap_or_else(|problems| panic!("{problems}"));
        let run = experiment.plan().run(0, 1).unwrap_or_else(|problems| panic!("{problems}"));
        let journals = tempfile::tempdir().expect("a folder");
        let substrate = Namespaces::new(env!("CARGO_BIN_EXE_netrig"), Journals::at(journals.path()));
        let nobody = AtomicBool::new(false);
        let lab = substrate.lab(&run, Trace::default(), |_, _, _| {}, &nobody).expect("it is built");
        Self { lab, server: None, _journals: journals }
    }

    /// Runs the words of a shell on a node.
    pub fn set(&self, node: &str, words: &str) {
        let mut command = self.inside(node);
        let output = command.args(["sh", "-ec", words]).output().expect("a shell starts");
        assert!(output.status.success(), "{words}: {output:?}");
    }

    fn inside(&self, node: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.lab.namespace(node).expect("it is there")]);
        command
    }

    /// Starts the server, by words that stand before the program.
    pub fn serve(&mut self, wrapped: &[&str]) {
        let mut command = self.inside("server");
        command.args(wrapped).arg(env!("CARGO_BIN_EXE_netrig"));
        command.args(["speed", "serve", "--listen", "10.0.0.1", "--open"]);
        let mut server = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut told = String::new();
        let mut err = BufReader::new(server.stderr.take().expect("it is piped"));
        while !told.contains("expected at 10.0.0.1") {
            assert!(err.read_line(&mut told).expect("it can be read") > 0, "the server has ended: {told}");
        }
        // What it says later fills no pipe.
        std::thread::spawn(move || std::io::copy(&mut err, &mut std::io::sink()));
        self.server = Some(Serving(server));
    }

    /// Measures, by words that stand before the program; the document.
    pub fn measure(&self, wrapped: &[&str], arguments: &[&str]) -> Value {
        let mut command = self.inside("client");
        command.args(wrapped).arg(env!("CARGO_BIN_EXE_netrig"));
        let output =
            command.args(["speed", "10.0.0.1", "--json"]).args(arguments).output().expect("it starts");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    }

    /// Takes it down; what became of its packets, and what the router itself did to them, each a sentence.
    pub fn close(self) -> (Trace, Vec<String>) {
        let Self { server, lab, _journals } = self;
        drop(server);
        let (passed, trace) = lab.close().expect("it is removed");
        (trace, passed.faults)
    }
}
