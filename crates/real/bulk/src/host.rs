//! Processor load and kernel drops of the host during a transfer.

use std::collections::BTreeMap;

use netrig_host::proc::{self, TICK_S};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kernel counters of the host since boot. A counter that the kernel lacks is absent or zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostCounters {
    processors: Vec<Ticks>,
    /// Counters by table and name in the kernel, such as `Udp.RcvbufErrors`.
    counts: BTreeMap<&'static str, u64>,
}

/// How one processor spent its time, ticks (proc(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticks {
    busy: u64,
    softirq: u64,
    steal: u64,
    idle: u64,
}

/// Shares of one processor's time, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessorShare {
    /// Share spent on programs and the kernel, interrupts included.
    pub busy: f64,
    /// Part of `busy` that handled packets and timers (softirq).
    pub softirq: f64,
    /// Share that the hypervisor gave to other machines.
    pub steal: f64,
}

/// Changes of a host's counters between two readings.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostReport {
    /// For each processor, the shares of its time.
    pub processors: Vec<ProcessorShare>,
    /// Packets that the kernel dropped between the readings or had no room for, by the kernel's names (`Udp.RcvbufErrors`,
    /// `TcpExt.TCPRcvQDrop`, `softnet.dropped`).
    pub losses: BTreeMap<String, u64>,
}

/// The shares of a shorter time are taken as shares of this time, s: one of its ticks says little.
const SHORTEST_S: f64 = 10.0 * TICK_S;

/// Counters of packets that a host dropped or had no room for (`Documentation/networking/snmp_counter`).
const LOSSES: [&str; 14] = [
    "Ip.InDiscards",
    "Ip.OutDiscards",
    "Ip.ReasmFails",
    "Ip.FragFails",
    "Udp.RcvbufErrors",
    "Udp.SndbufErrors",
    "Udp.MemErrors",
    "Udp6.RcvbufErrors",
    "Udp6.SndbufErrors",
    "TcpExt.TCPBacklogDrop",
    "TcpExt.TCPRcvQDrop",
    "TcpExt.RcvPruned",
    "TcpExt.TCPZeroWindowDrop",
    "TcpExt.TCPToZeroWindowAdv",
];

impl HostCounters {
    /// Reads the counters of this host and of the calling thread's network namespace.
    pub fn read() -> Self {
        let net = |table| proc::text(format!("/proc/thread-self/net/{table}"));
        let mut counts = counts([net("snmp"), net("netstat"), net("snmp6")]);
        counts.extend(softnet(&net("softnet_stat")));
        Self { processors: processors(&proc::text("/proc/stat")), counts }
    }

    /// The changes of the counters from `earlier` to this reading.
    pub fn since(&self, earlier: &Self) -> HostReport {
        let pairs = self.processors.iter().zip(&earlier.processors);
        let losses = LOSSES.into_iter().chain(SOFTNET).filter_map(|name| {
            let count = self.counts.get(name)?.saturating_sub(*earlier.counts.get(name)?);
            (count > 0).then(|| (name.to_owned(), count))
        });
        HostReport {
            processors: pairs.map(|(now, before)| now.since(before)).collect(),
            losses: losses.collect(),
        }
    }
}

impl Ticks {
    fn since(self, earlier: &Self) -> ProcessorShare {
        let spans = [
            self.busy.saturating_sub(earlier.busy),
            self.softirq.saturating_sub(earlier.softirq),
            self.steal.saturating_sub(earlier.steal),
            self.idle.saturating_sub(earlier.idle),
        ];
        let [busy, softirq, steal, idle] = spans.map(|ticks| ticks as f64 * TICK_S);
        let all = (busy + steal + idle).max(SHORTEST_S);
        ProcessorShare { busy: busy / all, softirq: softirq / all, steal: steal / all }
    }
}

/// Parses the lines of the single processors in `/proc/stat`.
fn processors(stat: &str) -> Vec<Ticks> {
    let single = |(processor, ticks): (Option<u32>, [u64; 8])| {
        let [user, nice, system, idle, waiting, irq, softirq, steal] = processor.map(|_| ticks)?;
        let busy = user + nice + system + irq + softirq;
        Some(Ticks { busy, softirq, steal, idle: idle + waiting })
    };
    proc::processor_ticks(stat).filter_map(single).collect()
}

/// The counters of [`LOSSES`] from the texts of `/proc/net/snmp`, `/proc/net/netstat` and `/proc/net/snmp6`.
fn counts([v4, more, v6]: [String; 3]) -> BTreeMap<&'static str, u64> {
    let count = |name: &'static str| {
        let (table, column) = name.split_once('.')?;
        let found = [&v4, &more].into_iter().find_map(|text| proc::counter(text, table, column));
        Some((name, found.or_else(|| proc::number(&v6, &format!("{table}{column}")))?))
    };
    LOSSES.into_iter().filter_map(count).collect()
}

/// Counters of the processors' receive queues: packets dropped because the queue was full
/// (`net.core.netdev_max_backlog`), and polling turns that ended with packets left (`net.core.netdev_budget`).
const SOFTNET: [&str; 2] = ["softnet.dropped", "softnet.time_squeeze"];

/// Parses `/proc/net/softnet_stat`, which has a line of hexadecimal numbers for each processor. The second number
/// counts drops, the third number counts polling turns that were cut short (`softnet_seq_show` in Linux's
/// net/core/net-procfs.c).
fn softnet(text: &str) -> BTreeMap<&'static str, u64> {
    let column = |at: usize| -> Option<u64> {
        let numbers = text.lines().filter_map(|line| line.split_whitespace().nth(at));
        let numbers: Vec<_> = numbers.map(|word| u64::from_str_radix(word, 16).unwrap_or(0)).collect();
        (!numbers.is_empty()).then(|| numbers.iter().sum())
    };
    let named = SOFTNET.into_iter().zip(1..);
    named.filter_map(|(name, at)| Some((name, column(at)?))).collect()
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn processors_are_told_one_by_one() {
        let before = "cpu  3 0 0 0\ncpu0 100 0 50 800 50 10 40 0 0 0\ncpu1 0 0 0 1000 0 0 0 0\nintr 1\n";
        let after = "cpu  3 0 0 0\ncpu0 130 10 60 830 50 10 50 10 0 0\ncpu1 0 0 0 1100 0 0 0 0\nintr 1\n";
        let counters = |stat| HostCounters { processors: processors(stat), counts: BTreeMap::new() };
        let report = counters(after).since(&counters(before));
        let [first, second] = report.processors[..] else { panic!("{report:?}") };
        // 30 + 10 + 10 + 10 busy, 10 stolen, 30 idle.
        assert_eq!((first.busy, first.softirq, first.steal), (0.6, 0.1, 0.1));
        assert_eq!(second, ProcessorShare::default());
        // In a time of one tick, this tick does not show that the processor is saturated.
        let short = "cpu0 100 0 50 800 50 10 41 0 0 0\n";
        let [short] = counters(short).since(&counters(before)).processors[..] else { panic!("{short}") };
        assert!((short.softirq - 0.1).abs() < 1e-9, "{short:?}");
    }

    #[test]
    fn only_what_grew_is_told() {
        let text = |dropped, pruned| {
            format!(
                "Udp: InDatagrams RcvbufErrors\nUdp: 900 {dropped}\nTcpExt: X RcvPruned\nTcpExt: -1 {pruned}\n"
            )
        };
        let counters = |text| HostCounters {
            processors: Vec::new(),
            counts: counts([text, String::new(), String::new()]),
        };
        let report = counters(text(12, 5)).since(&counters(text(7, 5)));
        assert_eq!(report.losses, BTreeMap::from([("Udp.RcvbufErrors".to_owned(), 5)]));
    }

    #[test]
    fn queues_of_packets_are_added_up() {
        let counts = softnet("0000000a 00000001 00000010 0\n0000000b 00000002 00000020 0\n");
        assert_eq!(counts["softnet.dropped"], 3);
        assert_eq!(counts["softnet.time_squeeze"], 0x30);
        assert!(softnet("").is_empty());
    }

    #[test]
    fn what_this_kernel_throws_away_is_counted() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let before = HostCounters::read();
        // The socket is not read, and the datagrams exceed any default buffer size.
        for _ in 0..1000 {
            sender.send_to(&[0; 60_000], receiver.local_addr().unwrap()).unwrap();
        }
        let report = HostCounters::read().since(&before);
        assert!(report.losses.get("Udp.RcvbufErrors").is_some_and(|count| *count > 0), "{report:?}");
        assert!(!report.processors.is_empty());
    }
}
