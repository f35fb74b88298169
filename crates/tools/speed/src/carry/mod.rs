//! One end of a phase: runs the transfer of the phase and converts its readings to the types of the protocol.
//!
//! The client and the server use the same code. They differ only in the direction of the data.

mod readings;

use std::io;
use std::net::{IpAddr, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use netrig_bulk::{
    AssociationOrder, ByteBudget, MeasuredHost, PartObserver, PartReading, RunningTransfer, SourceOrder,
    Spacing, StreamEnding, StreamOrder, Throttle, TransferDirection, TransferPart, pacing,
};
use netrig_core::Rate;
use netrig_host::{Clock, random};
use rustix::net::sockopt;

use self::readings::{heard_of, lasted, until_silence};
use crate::protocol::{
    Carrier, ConnectionCounts, DataDirection, DatagramCounts, DatagramLoad, EndReport, MeasurementPhase,
};

/// Maximum length of the queue of live readings. If the queue is full, a reading appears only in the outcome.
const UNTAKEN: usize = 64;

/// Whether a host sends, receives, or does both, in a phase whose data has the direction `way`.
const fn direction(host: MeasuredHost, way: DataDirection) -> TransferDirection {
    match (host, way) {
        (_, DataDirection::Both) => TransferDirection::Both,
        (MeasuredHost::Client, DataDirection::Up) | (MeasuredHost::Server, DataDirection::Down) => {
            TransferDirection::Sends
        }
        (MeasuredHost::Client, DataDirection::Down) | (MeasuredHost::Server, DataDirection::Up) => {
            TransferDirection::Receives
        }
    }
}

/// The sockets of a phase.
#[derive(Debug)]
pub enum PhaseSockets {
    /// No socket: an idle phase.
    None,
    /// The TCP connections of a phase.
    Tcp {
        /// The connections in the order of the stream numbers.
        streams: Vec<TcpStream>,
        /// Maximum receive window of this end, bytes. `None` if the kernel chooses it.
        window: Option<u32>,
    },
    /// A UDP socket that is connected to the peer.
    Udp(UdpSocket),
    /// A UDP socket that is connected to the peer and carries SCTP packets.
    Sctp {
        /// The socket.
        socket: UdpSocket,
        /// Maximum receive window of this end, bytes. `None` stands for a default that suffices for most paths.
        window: Option<u32>,
    },
}

impl PhaseSockets {
    /// The address of the peer.
    fn peer(&self) -> Option<IpAddr> {
        let peer = match self {
            Self::None => return None,
            Self::Tcp { streams, .. } => streams.first()?.peer_addr(),
            Self::Udp(socket) | Self::Sctp { socket, .. } => socket.peer_addr(),
        };
        peer.ok().map(|peer| peer.ip())
    }
}

/// A reading that an end reports during a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LiveReading {
    /// The sums over all connections.
    Bytes {
        /// Time since the phase began, ns.
        at_ns: u64,
        /// Bytes received.
        received: u64,
        /// Bytes that were passed to the kernel for sending.
        sent: u64,
    },
    /// The counts of received datagrams.
    Datagrams(DatagramCounts),
}

/// The counters of one end in a phase.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PhaseOutcome {
    /// The counts of each connection at each reading.
    pub counted: Vec<ConnectionCounts>,
    /// The counts of received datagrams at each reading.
    pub heard: Vec<DatagramCounts>,
    /// The totals of the phase.
    pub report: EndReport,
}

impl PhaseOutcome {
    /// Appends a live reading. Readings of connections are sums over all of them.
    pub(crate) fn keep(&mut self, live: &LiveReading) {
        match live {
            LiveReading::Bytes { at_ns, received, sent } => self.counted.push(ConnectionCounts {
                at_ns: *at_ns,
                received: *received,
                sent: *sent,
                ..ConnectionCounts::default()
            }),
            LiveReading::Datagrams(heard) => self.heard.push(*heard),
        }
    }
}

/// The limits of the rate and of the amount of data of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    /// The highest rate in each direction. `None` means unlimited.
    pub rate: Option<Rate>,
    /// Maximum number of bytes that the connections of the session send. `None` means unlimited. The bytes of datagrams
    /// are checked elsewhere, while they are sent.
    pub bytes: Option<u64>,
}

/// A phase that is running.
pub struct RunningPhase {
    pub(crate) transfer: RunningTransfer,
    /// The planned duration, ns.
    lasts: u64,
    carrier: Carrier,
    host: MeasuredHost,
    throttle: Arc<Throttle>,
    record: Arc<Mutex<PhaseOutcome>>,
    live: Receiver<LiveReading>,
}

impl RunningPhase {
    /// Starts a phase on this host, within the limits of `allowance`.
    ///
    /// # Errors
    /// If the kernel refuses a thread or a socket.
    pub fn begin(
        phase: &MeasurementPhase,
        host: MeasuredHost,
        sockets: PhaseSockets,
        allowance: Allowance,
    ) -> io::Result<Self> {
        let (queue, live) = sync_channel(UNTAKEN);
        let rate = match &phase.carrier {
            Carrier::Udp { load, .. } => {
                load.rate().map(|rate| allowance.rate.map_or(rate, |most| most.min(rate)))
            }
            _ => None,
        };
        let throttle = Arc::new(Throttle::new(rate.unwrap_or(Rate::from_bits_per_s(0))));
        let mut transfer = RunningTransfer::begin(sockets.peer());
        let (begun, record) = (transfer.begun(), Arc::<Mutex<PhaseOutcome>>::default());
        let clock = Clock::starting_at(begun);
        let parts = match (&phase.carrier, sockets) {
            (Carrier::Tcp { way, congestion, .. }, PhaseSockets::Tcp { streams: sockets, window }) => {
                let direction = direction(host, *way);
                if let Some(name) = congestion.as_ref().filter(|_| direction != TransferDirection::Receives) {
                    sockets.iter().try_for_each(|socket| set_congestion(socket, name))?;
                }
                let pacing = each_of(allowance.rate, sockets.len());
                let bytes = allowance.bytes.map(ByteBudget::new);
                let order = StreamOrder { direction, every: phase.every(), bytes, pacing, window };
                vec![TransferPart::Streams { sockets, order, ending: StreamEnding::Abort }]
            }
            (Carrier::Udp { way, size, load }, PhaseSockets::Udp(socket)) => {
                let (direction, flow, every) = (direction(host, *way), phase.number, phase.every());
                let mut parts = Vec::new();
                if direction != TransferDirection::Sends {
                    let socket = socket.try_clone()?;
                    parts.push(TransferPart::Sink { socket, clock, flow, every, format: None });
                }
                if direction != TransferDirection::Receives {
                    let spacing = match *load {
                        DatagramLoad::Poisson { seed, .. } => Spacing::Poisson { seed },
                        DatagramLoad::Fixed { .. } | DatagramLoad::Told => Spacing::Constant,
                    };
                    let order = SourceOrder { flow, size: *size, spacing, every };
                    let (throttle, is_scheduled) = (Arc::clone(&throttle), rate.is_some());
                    parts.push(TransferPart::Source {
                        socket,
                        clock,
                        order,
                        throttle,
                        format: None,
                        is_scheduled,
                    });
                }
                parts
            }
            (Carrier::Sctp { way, streams, size }, PhaseSockets::Sctp { socket, window }) => {
                let order = AssociationOrder {
                    count: *streams,
                    opens: host == MeasuredHost::Client,
                    direction: direction(host, *way),
                    every: phase.every(),
                    size: *size,
                    pacing: each_of(allowance.rate, (*streams).into()),
                    window,
                    seed: u64::from_ne_bytes(random()?),
                };
                vec![TransferPart::Associations { socket, order }]
            }
            _ => Vec::new(),
        };
        for part in parts {
            transfer.add(part, keep_readings(begun, &record, queue.clone()))?;
        }
        let (lasts, carrier) = (phase.lasts_ns, phase.carrier.clone());
        Ok(Self { transfer, lasts, carrier, host, throttle, record, live })
    }

    /// Sets the rate at which datagrams are sent.
    pub fn pace(&self, rate: Rate) {
        self.throttle.set(rate);
    }

    /// The next live reading, if one is queued.
    pub fn poll_live(&self) -> Option<LiveReading> {
        self.live.try_recv().ok()
    }

    /// Ends the phase. Connections are aborted. In a phase of datagrams, this call waits for datagrams in flight;
    /// `sent_there` is the number of datagrams that the peer has sent, if known. The wait ends early when `may`, which
    /// gets the bytes received and sent, returns false.
    ///
    /// # Errors
    /// If the transfer has failed.
    pub fn end(
        self,
        sent_there: Option<u64>,
        may: &mut dyn FnMut([u64; 2]) -> bool,
    ) -> io::Result<PhaseOutcome> {
        let begun = self.transfer.begun();
        let outcome = self.transfer.end(sent_there, may)?;
        // The wait for datagrams in flight does not count as part of the phase.
        let stopped = Some(outcome.stopped).filter(|_| matches!(self.carrier, Carrier::Udp { .. }));
        let lasted = lasted([begun, outcome.ended], stopped, self.lasts);
        let mut report = outcome.report(lasted);
        // In the protocol, only senders report their congestion control.
        let receives = |way| direction(self.host, way) == TransferDirection::Receives;
        report.congestion.take_if(|_| self.carrier.way().is_some_and(receives));
        let PhaseOutcome { counted, heard, .. } =
            std::mem::take(&mut *self.record.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(PhaseOutcome { counted, heard: until_silence(heard, lasted), report })
    }
}

/// Keeps the readings of a phase that began at `begun`, and queues them for the reader of live readings.
fn keep_readings(
    begun: u64,
    record: &Arc<Mutex<PhaseOutcome>>,
    queue: SyncSender<LiveReading>,
) -> PartObserver {
    let record = Arc::clone(record);
    Box::new(move |reading| {
        let mut record = record.lock().unwrap_or_else(PoisonError::into_inner);
        let live = match reading {
            PartReading::Streams(reading) => {
                let (at_ns, [received, sent]) = (reading.at - begun, reading.bytes());
                let counted = reading.connections.iter().zip(0..);
                let counted =
                    counted.map(|(counts, stream)| ConnectionCounts { at_ns, stream, ..counts.into() });
                record.counted.extend(counted);
                LiveReading::Bytes { at_ns, received, sent }
            }
            PartReading::Sink(taken) => {
                let heard = heard_of(taken, begun);
                record.heard.push(heard);
                LiveReading::Datagrams(heard)
            }
            PartReading::Source(_) => return,
        };
        // If the queue is full, this reading is skipped, and the reader gets a later one.
        let _ = queue.try_send(live);
    })
}

/// The rate limit of each of `count` connections, B/s, if `most` is the limit of all of them together.
fn each_of(most: Option<Rate>, count: usize) -> Option<u32> {
    Some(pacing(Rate::from_bits_per_s(most?.bits_per_s() / count.max(1) as u64)))
}

fn set_congestion(socket: &TcpStream, name: &str) -> io::Result<()> {
    sockopt::set_tcp_congestion(socket, name)
        .map_err(|error| io::Error::other(format!("the kernel has no congestion control `{name}`: {error}")))
}
