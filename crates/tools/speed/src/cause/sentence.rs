//! A limit in words.

use super::limit::{LimitingFactor, MeasuredHost};
use crate::protocol::DataDirection;
use crate::quantities::{percent, rate, size, time};

/// The kernel offers about half of a receive buffer as its window: the other half is for its own book-keeping.
const BUFFER_OF_WINDOW: f64 = 2.0;

/// The same of a buffer to send from: what is underway takes about twice its length there.
const BUFFER_OF_DATA: f64 = 2.0;

/// What limited it, in one sentence.
pub(super) fn sentence(limit: &LimitingFactor, way: DataDirection, at_once: bool) -> String {
    let name = name(way, at_once);
    let what = match limit {
        LimitingFactor::Line { bits_per_s, .. } => format!("the line, which carries {}", rate(*bits_per_s)),
        LimitingFactor::WayBack { .. } => {
            "the way back: what tells the sender that its data has come waits in the other direction's queue"
                .to_owned()
        }
        LimitingFactor::Wifi { end, bits_per_s, .. } => {
            format!("the Wi-Fi of {}, which carries {}", host(*end), rate(*bits_per_s))
        }
        LimitingFactor::Policer { bits_per_s, .. } => {
            format!("a policer, which lets {} through and drops what exceeds that", rate(*bits_per_s))
        }
        LimitingFactor::Loss { share, beneath: true, .. } => {
            format!("loss on the way: {} of the packets are lost whatever the rate is", percent(*share))
        }
        LimitingFactor::Loss { share, .. } => {
            format!("loss on the way: {} of the packets are lost", percent(*share))
        }
        LimitingFactor::Window { end, bytes, round_trip_s, .. } => format!(
            "the receive window of {}: {} for each round trip of {}",
            host(*end),
            size(*bytes),
            time(*round_trip_s)
        ),
        LimitingFactor::SendBuffer { end, .. } => format!("the send buffer of {}", host(*end)),
        LimitingFactor::Processor { end, sends, .. } => {
            format!("the processor of {}, which {}", host(*end), if *sends { "sends" } else { "receives" })
        }
        LimitingFactor::Stolen { end, .. } => {
            format!("the hypervisor of {}, which gives its processors to others", host(*end))
        }
        LimitingFactor::SocketBuffer { end, .. } => {
            format!("the receive buffer of the socket at {}, which had no room for what arrived", host(*end))
        }
        LimitingFactor::PacketSize { mtu, headers, .. } => format!(
            "short packets: the path carries {mtu} B at a time, and headers take {} of the line",
            percent(*headers)
        ),
        LimitingFactor::BlackHole { .. } => {
            "a black hole: long packets vanish on the way, short ones pass".to_owned()
        }
        LimitingFactor::Server { bits_per_s, .. } => {
            format!("the server, which lets a session have {} of payload", rate(*bits_per_s))
        }
        LimitingFactor::Offered { bits_per_s, .. } => {
            return format!("{name}: nothing limits it, {} was offered and arrived", rate(*bits_per_s));
        }
        LimitingFactor::Unfinished => {
            return format!(
                "{name}: the search did not come to its end, so what the line carries is not known"
            );
        }
        LimitingFactor::Unknown { steady: true } => {
            return format!("{name}: what was counted does not tell what limits it");
        }
        LimitingFactor::Unknown { .. } => {
            return format!("{name}: what arrived was not steady, and does not tell what limits it");
        }
    };
    format!("{name} is limited by {what}")
}

/// What was counted.
pub(super) fn proof(limit: &LimitingFactor) -> String {
    match limit {
        LimitingFactor::Line { bits_per_s, reached, queue_s } => line_proof(*queue_s, reached / bits_per_s),
        LimitingFactor::Wifi { radio_bits_per_s, signal_dbm, sent_again, failed, .. } => {
            wifi_proof(*radio_bits_per_s, *signal_dbm, [*sent_again, *failed])
        }
        LimitingFactor::Policer { lost, reached, bits_per_s } => format!(
            "above that rate {} is lost and nothing waits; {} of it was reached",
            percent(*lost),
            percent(reached / bits_per_s)
        ),
        LimitingFactor::Loss { reached, adapts: true, .. } => {
            format!("congestion control takes it for congestion: {} arrived", rate(*reached))
        }
        LimitingFactor::Loss { reached, unqueued: true, .. } => {
            format!("{} arrived, and packets waited no longer than on the idle path", rate(*reached))
        }
        LimitingFactor::Loss { reached, .. } => {
            format!(
                "{} arrived; how long packets waited is not known, so it may be the line's queue that lost them",
                rate(*reached)
            )
        }
        LimitingFactor::WayBack { reached, queue_s } => {
            format!(
                "packets wait {} there, and none on the way of the data, of which {} arrived",
                time(*queue_s),
                rate(*reached)
            )
        }
        LimitingFactor::Window { share, .. } => {
            format!("the sender's kernel was held back by the window for {} of the time", percent(*share))
        }
        LimitingFactor::SendBuffer { bytes, share, underway: [underway, let_be], .. } if *share == 0.0 => {
            format!(
                "{} of a connection were underway{}, where its congestion control would have let {} be",
                size(*underway),
                bytes.map_or_else(String::new, |bytes| format!(" out of a buffer of {}", size(bytes as f64))),
                size(*let_be)
            )
        }
        LimitingFactor::SendBuffer { bytes, share, .. } => {
            let holds = holding(*bytes);
            format!(
                "its kernel had room in the path and no more in the buffer{holds} for {} of the time",
                percent(*share)
            )
        }
        LimitingFactor::Processor { ran, waited, softirq, .. } => format!(
            "the thread that carries the data ran for {} of the time and waited for a processor for {}; the busiest processor \
             handled packets for {}",
            percent(*ran),
            percent(*waited),
            percent(*softirq)
        ),
        LimitingFactor::Stolen { share, .. } => {
            format!("{} of a processor's time was stolen", percent(*share))
        }
        LimitingFactor::SocketBuffer { dropped, arrived, bytes, .. } => {
            let holds = holding(*bytes);
            format!(
                "{dropped} datagrams were dropped by the socket{holds}, {arrived} were taken (RcvbufErrors)"
            )
        }
        LimitingFactor::PacketSize { bits_per_s, .. } => {
            format!("the line carries {} of IP packets", rate(*bits_per_s))
        }
        LimitingFactor::BlackHole { mtu, sent_again } => {
            let takes = mtu.map_or_else(String::new, |mtu| format!(", packets of up to {mtu} B,"));
            format!("{}{takes} sent again in vain while echoes came back", size(*sent_again as f64))
        }
        LimitingFactor::Server { reached, bits_per_s } => {
            format!("{} of that arrived", percent(reached / bits_per_s))
        }
        LimitingFactor::Offered { lost, .. } => format!("{} was lost", percent(*lost)),
        LimitingFactor::Unfinished => "its time was over, or it was broken off".to_owned(),
        LimitingFactor::Unknown { .. } => "no counter of the two hosts and of the path stands out".to_owned(),
    }
}

fn line_proof(queue_s: f64, used: f64) -> String {
    let queue = (queue_s > 0.0).then(|| format!("packets wait {} in its queue", time(queue_s)));
    let part = (queue.is_none() || used <= 0.98)
        .then(|| format!("{} of what it carries was reached", percent(used)));
    queue.into_iter().chain(part).collect::<Vec<_>>().join("; ")
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
pub(super) fn advice(limit: &LimitingFactor) -> Option<String> {
    let advice = match limit {
        LimitingFactor::Line { bits_per_s, queue_s, .. } if *queue_s > 0.05 => format!(
            "a shaper a little below {} keeps the queue of {} away, with fair queueing (fq_codel, CAKE) where that is to be had",
            rate(*bits_per_s),
            time(*queue_s)
        ),
        LimitingFactor::Wifi { .. } => "go nearer to the access point, to another channel or band, or measure over a cable".to_owned(),
        LimitingFactor::Policer { bits_per_s, .. } => {
            format!("pace what is sent to {}, or have the policer's burst raised or a shaper in its place", rate(*bits_per_s))
        }
        LimitingFactor::Loss { beneath: false, searched: true, .. } => "search again (--only capacity), with nothing else on the line and \
                                                               the hosts: this search does not tell a policer, which drops what \
                                                               exceeds a rate, from a link that loses"
            .to_owned(),
        LimitingFactor::Loss { beneath: false, .. } => "have the capacity searched for, too (--only capacity, of `netrig speed serve`): it \
                                               tells a policer, which drops what exceeds a rate, from a link that loses"
            .to_owned(),
        LimitingFactor::Loss { .. } => "find the link that loses (netrig probe trace); a congestion control that does not take each loss \
                               for congestion (--congestion bbr) gets more until then"
            .to_owned(),
        LimitingFactor::Window { end: MeasuredHost::Server, told: true, .. } => {
            "carry it over TCP (without --sctp), whose window is the kernel's: what all associations together may keep waiting at the \
             server is bounded"
                .to_owned()
        }
        LimitingFactor::Window { end, needed, told: true, .. } => {
            format!("have {} offer {} or more (--window): that is enough for twice the rate", host(*end), size(*needed))
        }
        LimitingFactor::Window { end, needed, chosen: true, .. } => format!(
            "give the sockets of {} a receive buffer of {} or more, or leave its length to the kernel (--receive-buffer): that is \
             enough for twice the rate",
            host(*end),
            size(BUFFER_OF_WINDOW * needed)
        ),
        LimitingFactor::Window { end, needed, .. } => format!(
            "raise the last value of net.ipv4.tcp_rmem at {} to {} or more: that is enough for twice the rate",
            host(*end),
            size(BUFFER_OF_WINDOW * needed)
        ),
        LimitingFactor::SendBuffer { end, chosen, underway: [underway, _], .. } => {
            let needed = size(BUFFER_OF_DATA * 2.0 * underway);
            let enough = "that is enough for twice the rate";
            match chosen {
                true => format!(
                    "give the sockets of {} a send buffer of {needed} or more, or leave its length to the kernel (--send-buffer): {enough}",
                    host(*end)
                ),
                false => format!("raise the last value of net.ipv4.tcp_wmem at {} to {needed} or more: {enough}", host(*end)),
            }
        }
        LimitingFactor::Processor { end, .. } => format!(
            "take other load away from {}, give it more processors, or spread its packets over them (receive packet steering)",
            host(*end)
        ),
        LimitingFactor::Stolen { .. } => "measure from a host whose processors are its own".to_owned(),
        LimitingFactor::SocketBuffer { end, chosen: true, .. } => {
            format!("give the socket of {} a longer receive buffer, or leave its length out (--receive-buffer)", host(*end))
        }
        LimitingFactor::SocketBuffer { end, .. } => format!("raise net.core.rmem_max at {}", host(*end)),
        LimitingFactor::WayBack { .. } => "keep the other direction free: pace or shape what goes there, or let acknowledgements pass first (a \
                                  queue of their own, or fair queueing; RFC 3449 section 5)"
            .to_owned(),
        LimitingFactor::Unfinished => "search again, with nothing else on the line; on one that loses much the search takes long".to_owned(),
        LimitingFactor::Unknown { steady: false } => "measure for longer (--time)".to_owned(),
        LimitingFactor::PacketSize { .. } => "use a path with a larger MTU: look for the tunnel or the link that shortens packets \
                                     (netrig probe mtu)"
            .to_owned(),
        LimitingFactor::BlackHole { .. } => "let ICMP \"fragmentation needed\" and \"packet too big\" through, clamp the MSS, or set \
                                    net.ipv4.tcp_mtu_probing=1"
            .to_owned(),
        LimitingFactor::Server { .. } => {
            "measure when fewer others do, or ask its operator for a larger share (--max-rate)".to_owned()
        }
        LimitingFactor::Line { .. } | LimitingFactor::Offered { .. } | LimitingFactor::Unknown { .. } => return None,
    };
    Some(advice)
}

const fn name(way: DataDirection, at_once: bool) -> &'static str {
    match (way, at_once) {
        (DataDirection::Down, false) => "the download",
        (DataDirection::Down, true) => "the download beside the upload",
        (DataDirection::Up, false) => "the upload",
        (DataDirection::Up, true) => "the upload beside the download",
        (DataDirection::Both, _) => "both ways",
    }
}

const fn host(end: MeasuredHost) -> &'static str {
    match end {
        MeasuredHost::Client => "this host",
        MeasuredHost::Server => "the server",
    }
}
