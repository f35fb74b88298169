//! What an agent is told to do in a run.

use std::net::{IpAddr, SocketAddr};

use netrig_core::{Instant, Seeds, SpanDistribution};
use netrig_traffic::{Application, FlowContext, Reads, Settings};
use serde::{Deserialize, Serialize};

use crate::SctpOptions;
use crate::side::Side;
use netrig_host::RequestedGaps;
use netrig_host::socket::{TcpOptions, UdpOptions};
use netrig_sip_net::KeepOrder;

/// A run, as far as it concerns one agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunOrder {
    /// The run's seed: applications draw from streams named after their flows, as in virtual time.
    pub seed: u64,
    /// How long the run lasts, ns.
    pub duration_ns: u64,
    /// How long after its end datagrams that are on their way are waited for at most, ns: those that come are neither sent
    /// nor lost.
    #[serde(default)]
    pub grace_ns: u64,
    /// Interval of counted samples, ns; above zero.
    pub sample_every_ns: u64,
    /// Settings of the kernel's network in this namespace (`net.ipv4.tcp_sack`), each read back.
    #[serde(default)]
    pub sysctls: Vec<(String, String)>,
    /// Whether the processors and the memory of the host are part of what is measured: then the agent's threads run as
    /// anybody's program does, before nobody and without spinning.
    #[serde(default)]
    pub constrained: bool,
    /// The ends of flows that live here; over a stream each is told by itself
    /// ([`control::order_frames`](crate::control::order_frames)).
    #[serde(skip)]
    pub ends: Vec<EndOrder>,
}

/// One end of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndOrder {
    /// The flow's place in the scenario.
    pub flow: u32,
    /// The flow's name, after which its random streams are named.
    pub name: String,
    /// Which of its ends.
    pub side: Side,
    /// Who sends what, when.
    pub application: Settings,
    /// How fast the application at this end reads from its connections; at once, if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<Reads>,
    /// What carries it.
    pub carrier: CarrierOptions,
    /// The address of the flow's first end; the kernel chooses the port.
    pub client: IpAddr,
    /// Where the second end listens.
    pub server: SocketAddr,
    /// The differentiated services code point of what this end sends, below 64.
    #[serde(default)]
    pub dscp: u8,
    /// When the flow starts, ns.
    pub start_ns: u64,
    /// When it begins nothing new any more, ns.
    pub stop_ns: u64,
    /// What headers add to a datagram's payload, bytes, where a rate counts IP packets.
    pub datagram_headers: u32,
    /// Of users of SIP who look for their server by its name: who knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<NamesOrder>,
    /// Of users of SIP: which of their messages are kept, and where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<KeepOrder>,
}

/// Who knows the name of a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamesOrder {
    /// Where the DNS server is.
    pub resolver: SocketAddr,
    /// Its records, as lines of a zone file.
    pub records: String,
    /// Whether this end is that server, and nothing else.
    pub serves: bool,
}

/// What carries a flow, with the options of its sockets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CarrierOptions {
    /// Datagrams.
    Udp(UdpOptions),
    /// Connections of TCP or MPTCP.
    Tcp(TcpOptions),
    /// Associations of netrig's own SCTP.
    Sctp(Box<SctpOptions>),
}

impl CarrierOptions {
    /// Streams of a connection, in one direction.
    fn streams(&self) -> u16 {
        match self {
            Self::Sctp(options) => options.config.streams,
            Self::Udp(_) | Self::Tcp(_) => 1,
        }
    }
}

impl EndOrder {
    /// Where this end is bound.
    pub fn local(&self) -> SocketAddr {
        match self.side {
            Side::Client => (self.client, 0).into(),
            Side::Server => self.server,
        }
    }

    /// When the flow starts.
    pub const fn start(&self) -> Instant {
        Instant::from_nanos(self.start_ns)
    }

    /// When it begins nothing new any more.
    pub const fn stop(&self) -> Instant {
        Instant::from_nanos(self.stop_ns)
    }

    /// Whether most of the flow's data leaves from here: then this end counts what is offered, the other what arrives.
    pub fn sends_data(&self) -> bool {
        (self.side == Side::Server) == self.application.answers()
    }

    /// The application at this end, which makes the same decisions as in virtual time.
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
            Side::Client => ends.client,
            Side::Server => ends.server,
        }
    }

    /// Datagrams per second that the flow sends while it does.
    pub(crate) fn pace(&self) -> Option<f64> {
        self.application.pace(self.datagram_headers)
    }

    /// What the gaps between its datagrams are to be.
    pub(crate) fn asked(&self) -> RequestedGaps {
        let is_poisson = match &self.application {
            Settings::Poisson(_) => true,
            // Its answers follow what arrives.
            Settings::Ping(ping) => {
                self.side == Side::Client && matches!(ping.interval, SpanDistribution::Exponential(_))
            }
            _ => false,
        };
        match self.pace() {
            Some(per_s) if is_poisson => RequestedGaps::Exponential { mean_ns: 1e9 / per_s },
            _ => RequestedGaps::Schedule,
        }
    }
}
