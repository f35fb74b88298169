//! The order of an agent for a run.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};

use netrig_core::{Duration, Instant, Seeds, SpanDistribution};
use netrig_traffic::{Application, FlowContext, FlowSide, Reads, Settings};
use serde::{Deserialize, Serialize};

use crate::{AgentError, SctpOptions};
use netrig_host::RequestedGaps;
use netrig_host::socket::{TcpOptions, UdpOptions};
use netrig_sip_net::KeepOrder;

/// The part of a run that one agent carries out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunOrder {
    /// The run's seed. Applications draw from random streams named after their flows, as in virtual time.
    pub seed: u64,
    /// Duration of the run, ns.
    pub duration_ns: u64,
    /// Longest wait for datagrams in flight after the end of the run, ns. Datagrams that arrive then count as neither sent nor
    /// lost.
    #[serde(default)]
    pub grace_ns: u64,
    /// Interval of counted samples, ns; above zero.
    pub sample_every_ns: u64,
    /// Sysctls of the network in this namespace (`net.ipv4.tcp_sack`). Each is read back.
    #[serde(default)]
    pub sysctls: Vec<(String, String)>,
    /// Whether the processors and the memory of the host are part of what is measured. The agent's threads then run with
    /// ordinary priority and without spinning.
    #[serde(default)]
    pub constrained: bool,
    /// The ends of flows on this node. Over a stream each end has a frame of its own
    /// ([`control::order_frames`](crate::control::order_frames)).
    #[serde(skip)]
    pub ends: Vec<EndOrder>,
}

impl RunOrder {
    /// Interval of counted samples.
    pub(crate) const fn sample_every(&self) -> Duration {
        Duration::from_nanos(self.sample_every_ns)
    }
}

/// One end of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndOrder {
    /// The flow's index in the scenario.
    pub flow: u32,
    /// The flow's name, after which its random streams are named.
    pub name: String,
    /// Which end of the flow.
    pub side: FlowSide,
    /// The application, which decides the data and its times.
    pub application: Settings,
    /// Read schedule of the application at this end. Without one it reads at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<Reads>,
    /// The carrier.
    pub carrier: CarrierOptions,
    /// The address of the flow's first end; the kernel chooses the port.
    pub client: IpAddr,
    /// The address where the second end listens.
    pub server: SocketAddr,
    /// The differentiated services code point of what this end sends, below 64.
    #[serde(default)]
    pub dscp: u8,
    /// Start of the flow, ns.
    pub start_ns: u64,
    /// Stop of the flow, ns: from then on it starts nothing new.
    pub stop_ns: u64,
    /// Length of the headers of a datagram, bytes, where a rate counts IP packets.
    pub datagram_headers: u32,
    /// The DNS server of SIP users that look up their server by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<NamesOrder>,
    /// The messages of SIP users to be kept, and their folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<KeepOrder>,
}

/// The DNS server for the name of a SIP server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamesOrder {
    /// The address of the DNS server.
    pub resolver: SocketAddr,
    /// Its records, as lines of a zone file.
    pub records: String,
    /// Whether this end is that DNS server, and nothing else.
    pub serves: bool,
}

/// The carrier of a flow, with its socket options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CarrierOptions {
    /// A UDP socket.
    Udp(UdpOptions),
    /// TCP or MPTCP connections.
    Tcp(TcpOptions),
    /// Associations of netrig's own SCTP.
    Sctp(Box<SctpOptions>),
}

impl CarrierOptions {
    /// Streams per connection and direction.
    fn streams(&self) -> u16 {
        match self {
            Self::Sctp(options) => options.config.streams,
            Self::Udp(_) | Self::Tcp(_) => 1,
        }
    }
}

impl EndOrder {
    /// The error that this order cannot be carried out.
    pub(crate) fn wrong(&self, why: impl ToString) -> AgentError {
        AgentError::Order { flow: self.name.clone(), why: why.to_string() }
    }

    /// A sentence that begins with the flow.
    pub(crate) fn of_flow(&self, why: impl Display) -> String {
        format!("flow `{}`: {why}", self.name)
    }

    /// Whether this end sends datagrams by a schedule, so its loop must be precise.
    pub(crate) fn is_precise(&self) -> bool {
        self.side == FlowSide::Client && self.application.sends_datagrams()
    }

    /// Whether this end has SCTP associations, which the work of other ends must not delay.
    pub(crate) const fn has_associations(&self) -> bool {
        matches!(self.carrier, CarrierOptions::Sctp(_))
    }

    /// Whether this end receives datagrams that it does not answer.
    pub(crate) fn only_receives(&self) -> bool {
        self.side == FlowSide::Server && self.application.is_one_way()
    }

    /// The address to which this end binds.
    pub fn local(&self) -> SocketAddr {
        match self.side {
            FlowSide::Client => (self.client, 0).into(),
            FlowSide::Server => self.server,
        }
    }

    /// Start of the flow.
    pub const fn start(&self) -> Instant {
        Instant::from_nanos(self.start_ns)
    }

    /// Stop of the flow: from then on it starts nothing new.
    pub const fn stop(&self) -> Instant {
        Instant::from_nanos(self.stop_ns)
    }

    /// Whether most of the flow's data leaves from this end. This end then counts offered data, the other received data.
    pub fn sends_data(&self) -> bool {
        (self.side == FlowSide::Server) == self.application.answers()
    }

    /// The application at this end. It makes the same decisions as in virtual time.
    pub fn make_application(&self, seed: u64) -> Box<dyn Application> {
        let context = FlowContext {
            name: self.name.clone(),
            seeds: Seeds::new(seed),
            client: (self.client, 0).into(),
            server: self.server,
            start: self.start(),
            stop: self.stop(),
            datagram_headers: self.datagram_headers,
            streams: self.carrier.streams(),
        };
        let ends = self.application.ends(&context);
        match self.side {
            FlowSide::Client => ends.client,
            FlowSide::Server => ends.server,
        }
    }

    /// Datagrams per second while the flow sends.
    pub(crate) fn pace(&self) -> Option<f64> {
        self.application.pace(self.datagram_headers)
    }

    /// The requested distribution of the gaps between its datagrams.
    pub(crate) fn asked(&self) -> RequestedGaps {
        let is_poisson = match &self.application {
            Settings::Poisson(_) => true,
            // Answers of a server follow the arrivals.
            Settings::Ping(ping) => {
                self.side == FlowSide::Client && matches!(ping.interval, SpanDistribution::Exponential(_))
            }
            _ => false,
        };
        match self.pace() {
            Some(per_s) if is_poisson => RequestedGaps::Exponential { mean_ns: 1e9 / per_s },
            _ => RequestedGaps::Schedule,
        }
    }
}
