//! The counters of a server.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use netrig_core::prometheus::{MetricKind, MetricsPage};
use netrig_core::{Size, named};
use netrig_host::{Reasons, shown_up_to};
use serde_json::{Value, json};

use crate::admission::AdmissionRefusal;

named! {
    /// The protocol of a client.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum ClientProtocol {
        /// netrig's own protocol.
        Netrig = "netrig",
        /// The protocol of iperf3.
        Iperf3 = "iperf3",
        /// The ndt7 protocol of M-Lab.
        Ndt7 = "ndt7",
        /// HTTP, for objects and counters.
        Http = "http",
        /// The protocol was not detected.
        Unknown = "unknown",
    }
}

/// A failure of a connection or a session: it has a kind, for counters, and a sentence.
pub trait ServiceFailure: fmt::Display {
    /// The kind, for counters.
    fn kind(&self) -> &'static str;
}

/// The counters of a server.
#[derive(Debug, Default)]
pub struct ServerTally {
    of: [ProtocolCounters; ClientProtocol::ALL.len()],
    refused: Mutex<BTreeMap<(ClientProtocol, &'static str), u64>>,
    failed: Mutex<BTreeMap<(ClientProtocol, &'static str), u64>>,
    /// Closed connections and failed sessions, counted by their sentence.
    sentences: Mutex<Reasons>,
    /// Finished phases.
    pub phases: AtomicU64,
    /// Datagrams that belong to no session. They are not answered.
    pub strays: AtomicU64,
}

#[derive(Debug, Default)]
struct ProtocolCounters {
    sessions: AtomicU64,
    /// Bytes received and sent.
    bytes: [AtomicU64; 2],
}

/// The longest kept sentence, characters.
const LONGEST_SENTENCE: usize = 300;

impl ServerTally {
    fn of(&self, protocol: ClientProtocol) -> &ProtocolCounters {
        &self.of[protocol as usize]
    }

    /// Counts an admitted session.
    pub fn admitted(&self, protocol: ClientProtocol) {
        self.of(protocol).sessions.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts bytes received and sent.
    pub fn carried(&self, protocol: ClientProtocol, bytes: [u64; 2]) {
        for (all, more) in self.of(protocol).bytes.iter().zip(bytes) {
            all.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// Counts a refused session.
    pub fn refused(&self, protocol: ClientProtocol, why: AdmissionRefusal) {
        *lock(&self.refused).entry((protocol, why.name())).or_default() += 1;
    }

    /// Counts a failure.
    pub fn failed(&self, protocol: ClientProtocol, why: &dyn ServiceFailure) {
        *lock(&self.failed).entry((protocol, why.kind())).or_default() += 1;
        // The sentence may contain text of the peer.
        lock(&self.sentences).count(shown_up_to(LONGEST_SENTENCE, &why.to_string()));
    }

    /// Admitted sessions.
    pub fn sessions(&self, protocol: ClientProtocol) -> u64 {
        self.of(protocol).sessions.load(Ordering::Relaxed)
    }

    /// Bytes received and sent.
    pub fn bytes(&self, protocol: ClientProtocol) -> [u64; 2] {
        self.of(protocol).bytes.each_ref().map(|bytes| bytes.load(Ordering::Relaxed))
    }

    /// Refused sessions by protocol and reason.
    pub fn refusals(&self) -> BTreeMap<(ClientProtocol, &'static str), u64> {
        lock(&self.refused).clone()
    }

    /// Failures by their sentence.
    pub fn failures(&self) -> BTreeMap<String, u64> {
        lock(&self.sentences).0.clone()
    }

    /// Failures by protocol and kind.
    pub fn kinds(&self) -> BTreeMap<(ClientProtocol, &'static str), u64> {
        lock(&self.failed).clone()
    }

    /// The counters as a JSON document.
    pub fn document(&self) -> Value {
        let of = |protocol: ClientProtocol| {
            let [received, sent] = self.bytes(protocol);
            let counts = json!({ "sessions": self.sessions(protocol), "bytes_received": received, "bytes_sent": sent });
            (protocol.name().to_owned(), counts)
        };
        let refused = self.refusals().into_iter().map(|((protocol, reason), count)| {
        json!({ "protocol": protocol.name(), "reason": reason, "count": count })
    });
        let failures = self.kinds().into_iter().map(
            |((protocol, kind), count)| json!({ "protocol": protocol.name(), "kind": kind, "count": count }),
        );
        json!({
            "protocols": ClientProtocol::ALL.map(of).into_iter().collect::<serde_json::Map<_, _>>(),
            "phases": self.phases.load(Ordering::Relaxed),
            "refused": refused.collect::<Vec<_>>(),
            "failures": failures.collect::<Vec<_>>(),
            "sentences": self.failures(),
            "strays": self.strays.load(Ordering::Relaxed),
        })
    }

    /// The counters as lines of text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for protocol in ClientProtocol::ALL {
            let (sessions, [received, sent]) = (self.sessions(protocol), self.bytes(protocol));
            if sessions > 0 {
                let (name, [received, sent]) = (protocol.name(), [received, sent].map(Size::from_bytes));
                text += &format!("sessions of {name}: {sessions}; {received} received, {sent} sent\n");
            }
        }
        if text.is_empty() {
            text += "no sessions\n";
        }
        for ((protocol, reason), count) in self.refusals() {
            text += &format!("refused, {}: {count}; {reason}\n", protocol.name());
        }
        for (why, count) in self.failures() {
            text += &format!("aborted: {count}; {why}\n");
        }
        let strays = self.strays.load(Ordering::Relaxed);
        if strays > 0 {
            text += &format!("datagrams without a session: {strays}\n");
        }
        text
    }

    /// The counters and the current activity as a page for Prometheus.
    pub fn metrics(&self, now: &ServerActivity) -> MetricsPage {
        use MetricKind::{Counter, Gauge};
        let mut page = MetricsPage::default();
        let of = |protocol: ClientProtocol| ("protocol", protocol.name());
        let sessions =
            ClientProtocol::ALL.map(|protocol| (vec![of(protocol)], self.sessions(protocol) as f64));
        page.family(("netrig_speed_sessions_total", "Sessions that were let in.", Counter), sessions);
        for (name, help, count) in [
            ("netrig_speed_measuring", "Sessions that measure.", now.measuring),
            ("netrig_speed_waiting", "Sessions that wait for their turn.", now.waiting),
            ("netrig_speed_connections", "Connections that stand, but for those of data.", now.connections),
        ] {
            page.value((name, help, Gauge), count as f64);
        }
        let bytes = ClientProtocol::ALL.into_iter().flat_map(|protocol| {
            let ways = ["received", "sent"].into_iter().zip(self.bytes(protocol));
            ways.map(move |(way, bytes)| (vec![of(protocol), ("direction", way)], bytes as f64))
        });
        page.family(("netrig_speed_bytes_total", "Bytes of data, received and sent.", Counter), bytes);
        for (name, help, label, counts) in [
            ("netrig_speed_refused_total", "Sessions that were turned away.", "reason", self.refusals()),
            (
                "netrig_speed_failures_total",
                "Connections hung up on and sessions broken off.",
                "kind",
                self.kinds(),
            ),
        ] {
            let counts = counts.into_iter();
            let counts =
                counts.map(|((protocol, why), count)| (vec![of(protocol), (label, why)], count as f64));
            page.family((name, help, Counter), counts);
        }
        let strays = self.strays.load(Ordering::Relaxed) as f64;
        page.value(("netrig_speed_strays_total", "Datagrams that belong to no session.", Counter), strays);
        page
    }
}

/// The current activity of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerActivity {
    /// Admitted sessions.
    pub measuring: usize,
    /// Waiting sessions.
    pub waiting: usize,
    /// Open connections.
    pub connections: usize,
}

fn lock<T>(counts: &Mutex<T>) -> MutexGuard<'_, T> {
    // The counters are consistent even after a panic in another thread.
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Why(String);

    impl fmt::Display for Why {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(&self.0)
        }
    }

    impl ServiceFailure for Why {
        fn kind(&self) -> &'static str {
            "why"
        }
    }

    /// The lines have the format of <https://prometheus.io/docs/instrumenting/exposition_formats/>.
    #[test]
    fn counters_are_told_as_prometheus_reads_them() {
        let tally = ServerTally::default();
        tally.admitted(ClientProtocol::Iperf3);
        tally.carried(ClientProtocol::Iperf3, [7, 9]);
        tally.refused(ClientProtocol::Netrig, AdmissionRefusal::Full);
        tally.failed(ClientProtocol::Ndt7, &Why("x".into()));
        let text = tally.metrics(&ServerActivity { measuring: 1, waiting: 2, connections: 3 }).into_text();
        for line in [
            "netrig_speed_sessions_total{protocol=\"iperf3\"} 1",
            "netrig_speed_waiting 2",
            "netrig_speed_bytes_total{protocol=\"iperf3\",direction=\"sent\"} 9",
            "netrig_speed_refused_total{protocol=\"netrig\",reason=\"full\"} 1",
            "netrig_speed_failures_total{protocol=\"ndt7\",kind=\"why\"} 1",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} in {text}");
        }
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (series, value) = line.rsplit_once(' ').unwrap();
            assert!(series.starts_with("netrig_speed_") && value.parse::<u64>().is_ok(), "{line}");
        }
    }

    #[test]
    fn what_others_say_cannot_fill_the_memory() {
        let tally = ServerTally::default();
        (0..1000).for_each(|number| tally.failed(ClientProtocol::Unknown, &Why(number.to_string())));
        assert!(tally.failures().len() < 100);
        assert_eq!(tally.failures().values().sum::<u64>(), 1000);
    }
}
