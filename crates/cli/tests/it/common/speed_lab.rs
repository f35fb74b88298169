//! A client and a server of the speed meter, each in its own namespace. The line between them records every packet.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use netrig_core::{Direction, FiveTuple, Instant, PacketEvent, Sample, Sink, Step, Subject};
use netrig_test_support::ExperimentText;
use serde_json::Value;

use super::path_lab::PathLab;
use super::{Guarded, as_json};

/// The line between the server and the client.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Rate of IP packets, Mbit/s: from the server to the client, and from the client to the server.
    pub mbit: [f64; 2],
    /// One-way delay, ms.
    pub delay_ms: f64,
    /// The size of the queue, as the time in ms that the line needs to send it.
    pub queue_ms: f64,
    /// Share of packets lost after the queue, independent of the rate.
    pub loss: f64,
}

/// An event of a packet on the line.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Time of the event.
    pub at: Instant,
    /// Whether the packet goes from the server to the client.
    pub down: bool,
    /// Length of the IP packet, bytes.
    pub len: u32,
    /// The addresses, ports and protocol of the packet.
    pub flow: FiveTuple,
    /// The event.
    pub step: Step,
}

/// A sink that stores the events of packets.
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

/// A lab with a listening server.
pub struct SpeedLab {
    // It is killed before its namespace is removed.
    server: Option<Guarded>,
    lab: PathLab<Trace>,
}

impl SpeedLab {
    /// Builds the lab, without a server.
    pub fn build(line: Line) -> Self {
        let bytes = |mbit: f64| (mbit * 1e6 / 8.0 * line.queue_ms * 1e-3).max(6000.0) as u64;
        let [down, up] = line.mbit;
        let loss = match line.loss {
            0.0 => String::new(),
            share => format!("loss = {{ kind = \"bernoulli\", probability = {share} }}"),
        };
        let delay = line.delay_ms;
        let [room, room_up] = [down, up].map(bytes);
        let file = ExperimentText::new("speed", "100 s")
            .nodes("server client")
            .link(
                "line",
                "server client",
                &format!(
                    r#"rate = "{down} Mbit/s", delay = "{delay} ms",
                queue = {{ kind = "fifo", bytes = "{room} B" }}, {loss},
                reverse = {{ rate = "{up} Mbit/s", queue = {{ kind = "fifo", bytes = "{room_up} B" }} }}"#
                ),
            )
            .flow(
                "beside",
                "client server",
                r#"application = { kind = "cbr", interval = "20 s", size = "100 B" }"#,
            )
            .response("loss", "flow.beside", "datagram_loss")
            .build();
        Self { lab: PathLab::build("speed", &file, Trace::default()), server: None }
    }

    /// Runs a shell command on a node.
    pub fn set(&self, node: &str, words: &str) {
        self.lab.run(node, "sh", &["-ec", words]);
    }

    /// A command that starts netrig on a node. The words of `wrapped` are before the program.
    fn netrig(&self, node: &str, wrapped: &[&str]) -> Command {
        let words = [wrapped, &[env!("CARGO_BIN_EXE_netrig")]].concat();
        let mut command = self.lab.inside(node, words[0]);
        command.args(&words[1..]);
        command
    }

    /// Starts the server. The words of `wrapped` are before the program.
    pub fn serve(&mut self, wrapped: &[&str]) {
        let mut command = self.netrig("server", wrapped);
        // A measurement with many packets takes minutes on a slow line.
        command.args(["speed", "serve", "--listen", "10.0.0.1", "--open", "--max-time", "300s"]);
        let mut server = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut told = String::new();
        let mut err = BufReader::new(server.stderr.take().expect("it is piped"));
        while !told.contains("expected at 10.0.0.1") {
            assert!(err.read_line(&mut told).expect("it can be read") > 0, "the server has ended: {told}");
        }
        // All further output is read, so that the pipe does not fill up.
        std::thread::spawn(move || std::io::copy(&mut err, &mut std::io::sink()));
        self.server = Some(Guarded(server));
    }

    /// Starts an iperf3 server instead.
    pub fn serve_iperf3(&mut self) {
        let mut command = self.lab.inside("server", "iperf3");
        let server = command.args(["-s", "-B", "10.0.0.1"]).stdout(Stdio::null()).spawn().expect("it starts");
        self.server = Some(Guarded(server));
        // iperf3 buffers its output to a pipe, so its message cannot be awaited.
        let listens = || self.lab.run("server", "ss", &["-Hltn", "sport = :5201"]).contains("5201");
        let begun = std::time::Instant::now();
        while !listens() {
            assert!(begun.elapsed().as_secs() < 10, "iperf3 does not listen");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// Measures and returns the document. The words of `wrapped` are before the program.
    pub fn measure(&self, wrapped: &[&str], arguments: &[&str]) -> Value {
        let mut command = self.netrig("client", wrapped);
        command.args(["speed", "10.0.0.1", "--json"]).args(arguments);
        let output = command.output().expect("it starts");
        as_json(&output)
    }

    /// Removes the lab. Returns the events of its packets, and the faults of the router as sentences.
    pub fn close(self) -> (Trace, Vec<String>) {
        let Self { server, lab } = self;
        drop(server);
        let (passed, trace) = lab.close();
        (trace, passed.faults)
    }
}
