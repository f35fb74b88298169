//! Text about a limit: the sentence, the proof and the advice.

use netrig_core::number::{measured_share, rate, size, time};

use super::{LimitingFactor, MeasuredHost};

/// Size of a receive buffer divided by its window. The kernel offers about half of the buffer as the window and uses
/// the other half for book-keeping.
const BUFFER_OF_WINDOW: f64 = 2.0;

/// Size of a send buffer divided by the data in it. Data in flight take about twice their length in the buffer.
const BUFFER_OF_DATA: f64 = 2.0;

impl LimitingFactor {
    /// A sentence that states what limited the transfer with this name, such as `the download`.
    pub fn sentence(&self, name: &str) -> String {
        let what = match self {
            Self::Line { bits_per_s, .. } => format!("the line, which carries {}", rate(*bits_per_s)),
            Self::WayBack { .. } => {
                "the way back: acknowledgements wait in the queue of the other direction".to_owned()
            }
            Self::Wifi { end, bits_per_s, .. } => {
                format!("the Wi-Fi of {}, which carries {}", host(*end), rate(*bits_per_s))
            }
            Self::Policer { bits_per_s, .. } => {
                format!("a policer, which passes {} and drops the excess", rate(*bits_per_s))
            }
            Self::Loss { share, beneath: true, .. } => {
                format!("loss on the path: {} of the packets are lost at any rate", measured_share(*share))
            }
            Self::Loss { share, .. } => {
                format!("loss on the path: {} of the packets are lost", measured_share(*share))
            }
            Self::Window { end, bytes, round_trip_s, .. } => format!(
                "the receive window of {}: {} for each round trip of {}",
                host(*end),
                size(*bytes),
                time(*round_trip_s)
            ),
            Self::SendBuffer { end, .. } => format!("the send buffer of {}", host(*end)),
            Self::Processor { end, sends, .. } => {
                format!(
                    "the processor of {}, which {}",
                    host(*end),
                    if *sends { "sends" } else { "receives" }
                )
            }
            Self::Stolen { end, .. } => {
                format!("the hypervisor of {}, which gives processor time to other guests", host(*end))
            }
            Self::SocketBuffer { end, .. } => {
                format!("the receive buffer of the socket at {}, which was full", host(*end))
            }
            Self::PacketSize { mtu, headers, .. } => format!(
                "short packets: the path carries {mtu} B at a time, and headers take {} of the line",
                measured_share(*headers)
            ),
            Self::BlackHole { .. } => {
                "a black hole: long packets are dropped on the path, short ones pass".to_owned()
            }
            Self::Server { bits_per_s, .. } => {
                format!("the server, which limits a session to {} of payload", rate(*bits_per_s))
            }
            Self::Offered { bits_per_s, .. } => {
                return format!("{name} has no limit: {} was offered and arrived", rate(*bits_per_s));
            }
            Self::Unfinished => {
                return format!(
                    "{name}: the search did not finish, so the capacity of the line is not known"
                );
            }
            Self::Unknown { steady: true } => {
                return format!("{name}: the counts do not show what limits it");
            }
            Self::Unknown { .. } => {
                return format!("{name}: the received rate was not steady and does not show what limits it");
            }
        };
        format!("{name} is limited by {what}")
    }

    /// The counts that prove the limit, as text.
    pub fn proof(&self) -> String {
        match self {
            Self::Line { bits_per_s, reached, queue_s } => line_proof(*queue_s, reached / bits_per_s),
            Self::Wifi { radio_bits_per_s, signal_dbm, sent_again, failed, .. } => {
                wifi_proof(*radio_bits_per_s, *signal_dbm, [*sent_again, *failed])
            }
            Self::Policer { lost, reached, bits_per_s } => format!(
                "above that rate {} is lost without a queue; {} of it was reached",
                measured_share(*lost),
                measured_share(reached / bits_per_s)
            ),
            Self::Loss { reached, adapts: true, .. } => {
                format!("congestion control takes the loss as congestion: {} arrived", rate(*reached))
            }
            Self::Loss { reached, unqueued: true, .. } => {
                format!("{} arrived, and packets waited no longer than on the idle path", rate(*reached))
            }
            Self::Loss { reached, .. } => {
                format!(
                    "{} arrived; the queueing delay is not known, so the queue of the line may have lost them",
                    rate(*reached)
                )
            }
            Self::WayBack { reached, queue_s } => {
                format!(
                    "packets wait {} there, and do not wait in the direction of the data; {} arrived",
                    time(*queue_s),
                    rate(*reached)
                )
            }
            Self::Window { share, .. } => {
                format!("the window limited the sender's kernel for {} of the time", measured_share(*share))
            }
            Self::SendBuffer { bytes, share, underway: [underway, let_be], .. } if *share == 0.0 => {
                format!(
                    "{} of a connection were in flight{}, and its congestion window was {}",
                    size(*underway),
                    bytes.map_or_else(String::new, |bytes| format!(
                        " out of a buffer of {}",
                        size(bytes as f64)
                    )),
                    size(*let_be)
                )
            }
            Self::SendBuffer { bytes, share, .. } => {
                let holds = holding(*bytes);
                format!(
                    "the path had room and the buffer{holds} held no unsent data for {} of the time",
                    measured_share(*share)
                )
            }
            Self::Processor { ran, waited, softirq, .. } => format!(
                "the thread that carries the data ran for {} of the time and waited for a processor for {}; the busiest processor \
             handled packets for {}",
                measured_share(*ran),
                measured_share(*waited),
                measured_share(*softirq)
            ),
            Self::Stolen { share, .. } => {
                format!("{} of a processor's time was stolen", measured_share(*share))
            }
            Self::SocketBuffer { dropped, arrived, bytes, .. } => {
                let holds = holding(*bytes);
                format!("the socket{holds} dropped {dropped} datagrams and accepted {arrived} (RcvbufErrors)")
            }
            Self::PacketSize { bits_per_s, .. } => {
                format!("the line carries {} of IP packets", rate(*bits_per_s))
            }
            Self::BlackHole { mtu, sent_again } => {
                let takes = mtu.map_or_else(String::new, |mtu| format!(", packets of up to {mtu} B,"));
                format!(
                    "{}{takes} retransmitted in vain while echoes were answered",
                    size(*sent_again as f64)
                )
            }
            Self::Server { reached, bits_per_s } => {
                format!("{} of that arrived", measured_share(reached / bits_per_s))
            }
            Self::Offered { lost, .. } => format!("{} was lost", measured_share(*lost)),
            Self::Unfinished => "its time was over, or it was aborted".to_owned(),
            Self::Unknown { .. } => "no counter of the two hosts and of the path stands out".to_owned(),
        }
    }

    /// The sentence about the transfer with this name, and the proof.
    pub fn explanation(&self, name: &str) -> String {
        format!("{}: {}", self.sentence(name), self.proof())
    }

    /// Advice on how to remove the limit, if that is possible.
    pub fn advice(&self) -> Option<String> {
        let advice = match self {
            Self::Line { bits_per_s, queue_s, .. } if *queue_s > 0.05 => format!(
                "a shaper a little below {} keeps the queue of {} away, with fair queueing (fq_codel, CAKE) if available",
                rate(*bits_per_s),
                time(*queue_s)
            ),
            Self::Wifi { .. } => "go nearer to the access point, to another channel or band, or measure over a cable".to_owned(),
            Self::Policer { bits_per_s, .. } => {
                format!("pace what is sent to {}, or have the policer's burst raised or a shaper in its place", rate(*bits_per_s))
            }
            Self::Loss { beneath: false, searched: true, .. } => "search again (--only capacity), with nothing else on the line and \
                                                                   the hosts: this search does not tell a policer, which drops what \
                                                                   exceeds a rate, from a link that loses"
                .to_owned(),
            Self::Loss { beneath: false, .. } => "have the capacity searched for, too (--only capacity, of `netrig speed serve`): it \
                                                   tells a policer, which drops what exceeds a rate, from a link that loses"
                .to_owned(),
            Self::Loss { .. } => "find the link that loses (netrig probe trace); a congestion control that does not take each loss \
                                   for congestion (--congestion bbr) gets more until then"
                .to_owned(),
            Self::Window { end: MeasuredHost::Server, told: true, .. } => {
                "carry it over TCP (without --sctp), whose window the kernel chooses: the server bounds the buffers of all associations \
                 together"
                    .to_owned()
            }
            Self::Window { end, needed, told: true, .. } => {
                format!("have {} offer {} or more (--window): that is enough for twice the rate", host(*end), size(*needed))
            }
            Self::Window { end, needed, chosen: true, .. } => format!(
                "give the sockets of {} a receive buffer of {} or more, or leave its length to the kernel (--receive-buffer): that is \
                 enough for twice the rate",
                host(*end),
                size(BUFFER_OF_WINDOW * needed)
            ),
            Self::Window { end, needed, .. } => format!(
                "raise the last value of net.ipv4.tcp_rmem at {} to {} or more: that is enough for twice the rate",
                host(*end),
                size(BUFFER_OF_WINDOW * needed)
            ),
            Self::SendBuffer { end, chosen, underway: [underway, _], .. } => {
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
            Self::Processor { end, .. } => format!(
                "remove other load from {}, give it more processors, or spread its packets over them (receive packet steering)",
                host(*end)
            ),
            Self::Stolen { .. } => "measure from a host whose processors are its own".to_owned(),
            Self::SocketBuffer { end, chosen: true, .. } => {
                format!("give the socket of {} a longer receive buffer, or leave its length out (--receive-buffer)", host(*end))
            }
            Self::SocketBuffer { end, .. } => format!("raise net.core.rmem_max at {}", host(*end)),
            Self::WayBack { .. } => "keep the other direction free: pace or shape what goes there, or let acknowledgements pass first (a \
                                      queue of their own, or fair queueing; RFC 3449 section 5)"
                .to_owned(),
            Self::Unfinished => "search again, with nothing else on the line; with much loss a search takes long".to_owned(),
            Self::Unknown { steady: false } => "measure for longer (--time)".to_owned(),
            Self::PacketSize { .. } => "use a path with a larger MTU: look for the tunnel or the link that shortens packets \
                                         (netrig probe mtu)"
                .to_owned(),
            Self::BlackHole { .. } => "let ICMP \"fragmentation needed\" and \"packet too big\" through, clamp the MSS, or set \
                                        net.ipv4.tcp_mtu_probing=1"
                .to_owned(),
            Self::Server { .. } => {
                "measure when fewer clients do, or ask the operator for a higher rate (--max-rate)".to_owned()
            }
            Self::Line { .. } | Self::Offered { .. } | Self::Unknown { .. } => return None,
        };
        Some(advice)
    }
}

fn line_proof(queue_s: f64, used: f64) -> String {
    let queue = (queue_s > 0.0).then(|| format!("packets wait {} in its queue", time(queue_s)));
    let part = (queue.is_none() || used <= 0.98)
        .then(|| format!("{} of what it carries was reached", measured_share(used)));
    queue.into_iter().chain(part).collect::<Vec<_>>().join("; ")
}

fn wifi_proof(bits_per_s: Option<f64>, signal_dbm: Option<i8>, [sent_again, failed]: [f64; 2]) -> String {
    let at = bits_per_s
        .map(|bits| format!("the bit rate of its frames is {}, including gaps and headers; ", rate(bits)));
    let signal = signal_dbm.map(|dbm| format!("the signal of the other station is {dbm} dBm; "));
    format!(
        "{}{}{} of the frames were retransmitted, {} given up",
        at.unwrap_or_default(),
        signal.unwrap_or_default(),
        measured_share(sent_again),
        measured_share(failed)
    )
}

/// The size of a buffer as a phrase. Empty if the size is not known.
fn holding(bytes: Option<u64>) -> String {
    bytes.map_or_else(String::new, |bytes| format!(" of {}", size(bytes as f64)))
}

const fn host(end: MeasuredHost) -> &'static str {
    match end {
        MeasuredHost::Client => "this host",
        MeasuredHost::Server => "the server",
    }
}
