//! Reports the packets whose hop limit expires at a node, as counted by the node's kernel.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};

use netrig_core::{Instant, Sample, Sink, Subject, quantity};
use netrig_experiment::RunError;
use netrig_host::proc::{counter, number};

use crate::testbed::Testbed;

/// The counter tables of a node's kernel (proc_pid_net(5)), which stay open during a run. A table belongs to
/// the network namespace in which it was opened.
pub(crate) struct HopLimitWatch {
    node: u32,
    name: String,
    v4: File,
    /// `None` on a kernel without IPv6.
    v6: Option<File>,
    /// The count before the run.
    begun: u64,
    /// The count at the last read.
    last: u64,
}

impl HopLimitWatch {
    /// Opens the tables of a node and counts from now on. Call this before the run: if a thread read the tables first
    /// at the start of the run, it could wake up late on a busy machine and miss early packets.
    ///
    /// # Errors
    /// If the counters of the kernel cannot be read.
    pub fn open(testbed: &Testbed, node: usize) -> Result<Self, RunError> {
        let opened = testbed.in_node(node, || {
            let table = |name: &str| File::open(format!("/proc/thread-self/net/{name}"));
            table("snmp").map(|v4| (v4, table("snmp6").ok()))
        })?;
        let name = testbed.wiring().nodes[node].name.clone();
        let (v4, v6) = opened.map_err(|error| unreadable(&name, &error))?;
        let mut watch = Self { node: node as u32, name, v4, v6, begun: 0, last: 0 };
        watch.begun = watch.count()?;
        watch.last = watch.begun;
        Ok(watch)
    }

    /// Reports how many packets were dropped in the interval that ends at `at`. Reports nothing before the first dropped
    /// packet.
    ///
    /// # Errors
    /// If the tables cannot be read.
    pub fn tick(&mut self, at: Instant, sink: &mut dyn Sink) -> Result<(), RunError> {
        let all = self.count()?;
        if all > self.begun {
            let value = all.saturating_sub(self.last) as f64;
            let sample = Sample { at, quantity: &quantity::HOP_LIMIT_DROPS, value };
            sink.sample(Subject::Node(self.node), sample);
        }
        self.last = all;
        Ok(())
    }

    fn count(&mut self) -> Result<u64, RunError> {
        let failed = |error: io::Error| unreadable(&self.name, &error);
        let v4 = text(&mut self.v4).map_err(failed)?;
        let v6 = self.v6.as_mut().map(text).transpose().map_err(failed)?;
        // The testbed's router passes no packet with a malformed header to a node. The counters of header errors
        // (RFC 4293, ipSystemStatsInHdrErrors) therefore count only expired hop limits.
        let of_v4 = counter(&v4, "Ip", "InHdrErrors").unwrap_or(0);
        let of_v6 = v6.as_deref().and_then(|table| number(table, "Ip6InHdrErrors")).unwrap_or(0);
        Ok(of_v4 + of_v6)
    }
}

fn unreadable(node: &str, error: &io::Error) -> RunError {
    RunError::Failed(format!("cannot read the counters of the kernel of node `{node}`: {error}"))
}

/// The contents of an open file from its beginning.
fn text(file: &mut File) -> io::Result<String> {
    file.rewind()?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}
