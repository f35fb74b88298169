//! The command line of `netrig probe`.

use clap::{Args, Subcommand};
use netrig_core::setting::SettingsTable;
use netrig_host::ConnectionLimits;
use netrig_probe::path_mtu::PathMtuSettings;
use netrig_probe::trace::TraceSettings;
use netrig_probe::train::TrainSettings;
use netrig_probe::transfer::TransferSettings;
use netrig_probe::video::VideoSettings;
use netrig_probe::voice::VoiceSettings;
use netrig_probe::web::WebSettings;
use netrig_probe::{FarEndSettings, OneWaySettings, PacketSettings, PingSettings, StampSettings};

use super::common::{Form, IpVersionFlags, KeyPlace, Target};
use crate::typed::Typed;

/// `netrig probe`.
#[derive(Debug, Args)]
pub struct Probe {
    /// Which probe
    #[command(subcommand)]
    pub kind: Kind,
}

/// The probes, and the far end.
#[derive(Debug, Subcommand)]
pub enum Kind {
    /// Quantiles of the one-way delay, in which a lost packet counts as an infinite delay, and delay variation (RFC 7679, RFC
    /// 7680, RFC 3393); needs `probe reflect` at the target
    Owd(StreamProbe<OneWaySettings>),
    /// One-way loss and its pattern, reordering and duplicates (RFC 7680, RFC 3357, RFC 4737, RFC 5560); needs `probe reflect`
    /// at the target
    Loss(StreamProbe<OneWaySettings>),
    /// Round-trip time and two-way loss by ICMP echo (RFC 2681, RFC 6673)
    Ping(Ping),
    /// The hops of a path, by packets of one flow, and the speed of the links between them
    Trace(OpenProbe<TraceSettings>),
    /// The path MTU (RFC 8899), whether longer packets are lost silently, and whether TCP's segments fit
    Mtu(KeyedProbe<PathMtuSettings>),
    /// Trains of echoes of several sizes: how the round-trip time grows with the length of the packets
    Train(OpenProbe<TrainSettings>),
    /// Rate of fetching one object by HTTP
    Web(Web),
    /// Round-trip and one-way delay and loss with any STAMP or TWAMP Light reflector (RFC 8762, RFC 8972)
    Stamp(StreamProbe<StampSettings>),
    /// TCP throughput with the metrics of RFC 6349, or a file by FTP; needs `probe reflect` or an FTP server at the target
    Transfer(KeyedProbe<TransferSettings>),
    /// A call: rating and opinion score by the E-model (ITU-T G.107); needs `probe reflect` at the target
    Voice(KeyedProbe<VoiceSettings>),
    /// Video by RTP: each received picture is compared with the sent one; needs `probe reflect` at the target, and ffmpeg here
    Video(KeyedProbe<VideoSettings>),
    /// The far end of every probe, and a STAMP reflector
    Reflect(Reflect),
}

/// A probe without a key.
#[derive(Debug, Args)]
pub struct OpenProbe<S: SettingsTable + Default + 'static> {
    #[command(flatten)]
    pub target: Target,
    #[command(flatten)]
    pub probe: Typed<S>,
    #[command(flatten)]
    pub form: Form,
}

/// A probe whose far end may require a key.
#[derive(Debug, Args)]
pub struct KeyedProbe<S: SettingsTable + Default + 'static> {
    #[command(flatten)]
    pub target: Target,
    #[command(flatten)]
    pub probe: Typed<S>,
    #[command(flatten)]
    pub key: KeyPlace,
    #[command(flatten)]
    pub form: Form,
}

/// A probe that sends a stream of packets to a far end that may require a key.
#[derive(Debug, Args)]
pub struct StreamProbe<S: SettingsTable + Default + 'static> {
    #[command(flatten)]
    pub target: Target,
    #[command(flatten)]
    pub probe: Typed<S>,
    #[command(flatten)]
    pub packets: Typed<PacketSettings>,
    #[command(flatten)]
    pub key: KeyPlace,
    #[command(flatten)]
    pub form: Form,
}

/// `netrig probe ping`.
#[derive(Debug, Args)]
pub struct Ping {
    #[command(flatten)]
    pub target: Target,
    #[command(flatten)]
    pub probe: Typed<PingSettings>,
    #[command(flatten)]
    pub packets: Typed<PacketSettings>,
    #[command(flatten)]
    pub form: Form,
}

/// `netrig probe web`.
#[derive(Debug, Args)]
pub struct Web {
    /// URL of the object: http://HOST[:PORT]/PATH
    #[arg(value_name = "URL")]
    pub url: String,
    #[command(flatten)]
    pub version: IpVersionFlags,
    #[command(flatten)]
    pub probe: Typed<WebSettings>,
    #[command(flatten)]
    pub form: Form,
}

/// `netrig probe reflect`.
#[derive(Debug, Args)]
pub struct Reflect {
    #[command(flatten)]
    pub far_end: Typed<FarEndSettings>,
    #[command(flatten)]
    pub connections: Typed<ConnectionLimits>,
    #[command(flatten)]
    pub key: KeyPlace,
    #[command(flatten)]
    pub form: Form,
}
