//! A limit in words.

use super::limit::{End, Limit};
use crate::protocol::Way;
use crate::quantities::{percent, rate, size, time};

/// The kernel offers about half of a receive buffer as its window: the other half is for its own book-keeping.
const BUFFER_OF_WINDOW: f64 = 2.0;

/// What limited it, in one sentence.
pub(super) fn sentence(limit: &Limit, way: Way) -> String {
    let what = match limit {
        Limit::Line { bits_per_s, .. } => format!("the line, which carries {}", rate(*bits_per_s)),
        Limit::Wifi { end, bits_per_s, .. } => {
            format!("the Wi-Fi of {}, which carries {}", host(*end), rate(*bits_per_s))
        }
        Limit::Policer { bits_per_s, .. } => {
            format!("a policer, which lets {} through and drops what exceeds that", rate(*bits_per_s))
        }
        Limit::Loss { share, beneath: true, .. } => {
            format!("loss on the way: {} of the packets are lost whatever the rate is", percent(*share))
        }
        Limit::Loss { share, .. } => format!("loss on the way: {} of the packets are lost", percent(*share)),
        Limit::Window { end, bytes, round_trip_s, .. } => format!(
            "the receive window of {}: {} for each round trip of {}",
            host(*end),
            size(*bytes),
            time(*round_trip_s)
        ),
        Limit::SendBuffer { end, .. } => format!("the send buffer of {}", host(*end)),
        Limit::Processor { end, sends, .. } => {
            format!("the processor of {}, which {}", host(*end), if *sends { "sends" } else { "receives" })
        }
        Limit::Stolen { end, .. } => {
            format!("the hypervisor of {}, which gives its processors to others", host(*end))
        }
        Limit::SocketBuffer { end, .. } => {
            format!("the receive buffer of the socket at {}, which had no room for what arrived", host(*end))
        }
        Limit::PacketSize { mtu, headers, .. } => format!(
            "short packets: the path carries {mtu} B at a time, and headers take {} of the line",
            percent(*headers)
        ),
        Limit::BlackHole { .. } => "a black hole: long packets vanish on the way, short ones pass".to_owned(),
        Limit::Server { bits_per_s, .. } => {
            format!("the server, which lets a session have {} of payload", rate(*bits_per_s))
        }
        Limit::Offered { bits_per_s, .. } => {
            return format!(
                "{}: nothing limits it, {} was offered and arrived",
                name(way),
                rate(*bits_per_s)
            );
        }
        Limit::Unknown => return format!("{}: what was counted does not tell what limits it", name(way)),
    };
    format!("{} is limited by {what}", name(way))
}

/// What was counted.
pub(super) fn proof(limit: &Limit) -> String {
    match limit {
        Limit::Line { bits_per_s, reached, queue_s } => line_proof(*queue_s, reached / bits_per_s),
        Limit::Wifi { radio_bits_per_s, signal_dbm, sent_again, failed, .. } => {
            wifi_proof(*radio_bits_per_s, *signal_dbm, [*sent_again, *failed])
        }
        Limit::Policer { lost, reached, bits_per_s } => format!(
            "above that rate {} is lost and nothing waits; {} of it was reached",
            percent(*lost),
            percent(reached / bits_per_s)
        ),
        Limit::Loss { reached, adapts: true, .. } => {
            format!("congestion control takes it for congestion: {} arrived", rate(*reached))
        }
        Limit::Loss { reached, .. } => {
            format!("{} arrived, and packets waited no longer than on the idle path", rate(*reached))
        }
        Limit::Window { share, .. } => {
            format!("the sender's kernel was held back by the window for {} of the time", percent(*share))
        }
        Limit::SendBuffer { bytes, share, .. } => {
            let holds = holding(*bytes);
            format!(
                "its kernel had room in the path and no more in the buffer{holds} for {} of the time",
                percent(*share)
            )
        }
        Limit::Processor { ran, waited, softirq, .. } => format!(
            "the thread that carries the data ran for {} of the time and waited for a processor for {}; the busiest processor \
             handled packets for {}",
            percent(*ran),
            percent(*waited),
            percent(*softirq)
        ),
        Limit::Stolen { share, .. } => format!("{} of a processor's time was stolen", percent(*share)),
        Limit::SocketBuffer { dropped, arrived, bytes, .. } => {
            let holds = holding(*bytes);
            format!(
                "{dropped} datagrams were dropped by the socket{holds}, {arrived} were taken (RcvbufErrors)"
            )
        }
        Limit::PacketSize { bits_per_s, .. } => {
            format!("the line carries {} of IP packets", rate(*bits_per_s))
        }
        Limit::BlackHole { mtu, sent_again } => {
            let takes = mtu.map_or_else(String::new, |mtu| format!(", packets of up to {mtu} B,"));
            format!("{}{takes} sent again in vain while echoes came back", size(*sent_again as f64))
        }
        Limit::Server { reached, bits_per_s } => {
            format!("{} of that arrived", percent(reached / bits_per_s))
        }
        Limit::Offered { lost, .. } => format!("{} was lost", percent(*lost)),
        Limit::Unknown => "no counter of the two hosts and of the path stands out".to_owned(),
    }
}

fn line_proof(queue_s: f64, used: f64) -> String {
    let queue = format!("packets wait {} in its queue", time(queue_s));
    if used > 0.98 {
        return queue;
    }
    format!("{queue}; {} of what it carries was reached", percent(used))
}

fn wifi_proof(bits_per_s: Option<f64>, signal_dbm: Option<i8>, [sent_again, failed]: [f64; 2]) -> String {
    let at = bits_per_s
        .map(|bits| format!("its frames go at {}, of which gaps and headers take a part; ", rate(bits)));
    let signal = signal_dbm.map(|dbm| format!("the other station is heard with {dbm} dBm; "));
    format!(
        "{}{}{} of the frames were sent again, {} given up",
        at.unwrap_or_default(),
        signal.unwrap_or_default(),
        percent(sent_again),
        percent(failed)
    )
}

/// How much a buffer holds, if that is known.
fn holding(bytes: Option<u64>) -> String {
    bytes.map_or_else(String::new, |bytes| format!(" of {}", size(bytes as f64)))
}

/// What mends it.
pub(super) fn advice(limit: &Limit) -> Option<String> {
    let advice = match limit {
        Limit::Line { bits_per_s, queue_s, .. } if *queue_s > 0.05 => format!(
            "a shaper a little below {} keeps the queue of {} away, with fair queueing (fq_codel, CAKE)",
            rate(*bits_per_s),
            time(*queue_s)
        ),
        Limit::Wifi { .. } => "go nearer to the access point, to another channel or band, or measure over a cable".to_owned(),
        Limit::Policer { bits_per_s, .. } => {
            format!("pace what is sent to {}, or have the policer's burst raised or a shaper in its place", rate(*bits_per_s))
        }
        Limit::Loss { beneath: false, .. } => "have the capacity searched for, too (--only capacity, of `netrig speed serve`): it \
                                               tells a policer, which drops what exceeds a rate, from a link that loses"
            .to_owned(),
        Limit::Loss { .. } => "find the link that loses (netrig probe trace); a congestion control that does not take each loss \
                               for congestion (--congestion bbr) gets more until then"
            .to_owned(),
        Limit::Window { end: End::Server, told: true, connections, .. } => {
            format!("carry over more than {connections} at once (--streams): each has a window of its own")
        }
        Limit::Window { end, needed, told: true, .. } => {
            format!("have {} offer {} or more (--window): that is enough for twice the rate", host(*end), size(*needed))
        }
        Limit::Window { end, needed, .. } => format!(
            "raise the last value of net.ipv4.tcp_rmem at {} to {} or more: that is enough for twice the rate",
            host(*end),
            size(BUFFER_OF_WINDOW * needed)
        ),
        Limit::SendBuffer { end, .. } => format!("raise the last value of net.ipv4.tcp_wmem at {}", host(*end)),
        Limit::Processor { end, .. } => format!(
            "take other load away from {}, give it more processors, or spread its packets over them (receive packet steering)",
            host(*end)
        ),
        Limit::Stolen { .. } => "measure from a host whose processors are its own".to_owned(),
        Limit::SocketBuffer { end, .. } => format!("raise net.core.rmem_max at {}", host(*end)),
        Limit::PacketSize { .. } => "use a path with a larger MTU: look for the tunnel or the link that shortens packets \
                                     (netrig probe mtu)"
            .to_owned(),
        Limit::BlackHole { .. } => "let ICMP \"fragmentation needed\" and \"packet too big\" through, clamp the MSS, or set \
                                    net.ipv4.tcp_mtu_probing=1"
            .to_owned(),
        Limit::Server { .. } => {
            "measure when fewer others do, or ask its operator for a larger share (--max-rate)".to_owned()
        }
        Limit::Line { .. } | Limit::Offered { .. } | Limit::Unknown => return None,
    };
    Some(advice)
}

const fn name(way: Way) -> &'static str {
    match way {
        Way::Down => "the download",
        Way::Up => "the upload",
        Way::Both => "both ways",
    }
}

const fn host(end: End) -> &'static str {
    match end {
        End::Client => "this host",
        End::Server => "the server",
    }
}
