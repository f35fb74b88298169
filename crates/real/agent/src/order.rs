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
    /// Longest wait for datagrams in flight after the end of the run, ns. A datagram that arrives during this wait is
    /// counted neither as sent nor as lost.
    #[serde(default)]
    pub grace_ns: u64,
    /// Interval of counted samples, ns; above zero.
    pub sample_every_ns: u64,
    /// Names and values of network sysctls of this namespace (such as `net.ipv4.tcp_sack`). Each value is read back.
    #[serde(default)]
    pub sysctls: Vec<(String, String)>,
    /// Whether the run measures the processors and the memory of the host too. If so, the agent's threads run with
    /// normal priority and without spinning.
    #[serde(default)]
    pub constrained: bool,
    /// The ends of flows on this node. In the control protocol, each end is sent in its own frame
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
    /// The flow's name. The names of its random streams derive from it.
    pub name: String,
    /// Whether this is the client or the server of the flow.
    pub side: FlowSide,
    /// The application, which decides which data to send and when.
    pub application: Settings,
    /// Read schedule of the application at this end. `None`: the application reads data as soon as it arrives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<Reads>,
    /// The transport (UDP, TCP or SCTP) with its socket options.
    pub carrier: CarrierOptions,
    /// The address of the client. The kernel chooses its port.
    pub client: IpAddr,
    /// The address and port at which the server listens.
    pub server: SocketAddr,
    /// The differentiated services code point (DSCP) of the packets that this end sends, below 64.
    #[serde(default)]
    pub dscp: u8,
    /// Start of the flow, ns after the start of the run.
    pub start_ns: u64,
    /// Stop of the flow, ns after the start of the run. From then on, the application starts nothing new and closes its
    /// connections once all data is sent.
    pub stop_ns: u64,
    /// Length of the IP and UDP headers of a datagram, bytes, for rates that count whole IP packets.
    pub datagram_headers: u32,
    /// The DNS server, if the users of a SIP flow look up their server by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<NamesOrder>,
    /// Which messages of SIP users are written to files, and to which folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<KeepOrder>,
}

/// The DNS server that resolves the name of a SIP server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamesOrder {
    /// The address of the DNS server.
    pub resolver: SocketAddr,
    /// The DNS records, as lines of a zone file.
    pub records: String,
    /// Whether this end is the DNS server itself.
    pub serves: bool,
}

/// The transport that carries a flow, with its socket options.
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
    /// The error that this order cannot be executed, for the reason `why`.
    pub(crate) fn wrong(&self, why: impl ToString) -> AgentError {
        AgentError::Order { flow: self.name.clone(), why: why.to_string() }
    }

    /// The sentence `why`, preceded by the name of the flow.
    pub(crate) fn of_flow(&self, why: impl Display) -> String {
        format!("flow `{}`: {why}", self.name)
    }

    /// Whether this end sends datagrams on a schedule and therefore needs a precise event loop.
    pub(crate) fn is_precise(&self) -> bool {
        self.side == FlowSide::Client && self.application.sends_datagrams()
    }

    /// Whether this end has SCTP associations, which need an event loop without other ends.
    pub(crate) const fn has_associations(&self) -> bool {
        matches!(self.carrier, CarrierOptions::Sctp(_))
    }

    /// Whether this end receives datagrams that it does not answer.
    pub(crate) fn only_receives(&self) -> bool {
        self.side == FlowSide::Server && self.application.is_one_way()
    }

    /// The address to which this end binds its sockets.
    pub fn local(&self) -> SocketAddr {
        match self.side {
            FlowSide::Client => (self.client, 0).into(),
            FlowSide::Server => self.server,
        }
    }

    /// Start of the flow, since the start of the run.
    pub const fn start(&self) -> Instant {
        Instant::from_nanos(self.start_ns)
    }

    /// Stop of the flow, since the start of the run.
    pub const fn stop(&self) -> Instant {
        Instant::from_nanos(self.stop_ns)
    }

    /// Whether this end sends most of the flow's data. That end counts the offered data; the other end counts the
    /// received data.
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

    /// The requested distribution of the gaps between the datagrams of this end.
    pub(crate) fn asked(&self) -> RequestedGaps {
        let is_poisson = match &self.application {
            Settings::Poisson(_) => true,
            // A server sends an answer when a request arrives, not by a distribution of its own.
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
