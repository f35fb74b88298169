//! The command line of `netrig probe transfer`, `voice` and `video`.

use std::path::PathBuf;

use clap::Args;
use netrig_core::{Dscp, Duration, Rate, Size};
use netrig_probe::receiver::MOST_CONNECTIONS;
use netrig_traffic::VoiceCodec;

use super::super::common::{Form, KeyPlace, Target};
use crate::choice::{Choice, choice};

/// The codecs of voice.
const CODECS: &[Choice<VoiceCodec>] = &[
    ("g711", "ITU-T G.711, 64 kbit/s; what is lost is silence", VoiceCodec::G711),
    ("g711-plc", "ITU-T G.711 with packet-loss concealment", VoiceCodec::G711Concealed),
    ("g729a", "ITU-T G.729 Annex A, 8 kbit/s", VoiceCodec::G729a),
];

/// `netrig probe transfer`.
#[derive(Debug, Args)]
pub struct Transfer {
    #[command(flatten)]
    pub target: Target,
    /// Amount of data; default: 10 MB over TCP, 952320 B by FTP
    #[arg(long, value_name = "SIZE")]
    pub bytes: Option<Size>,
    /// Connections at the same time, 1 to 64
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=i64::from(MOST_CONNECTIONS)))]
    pub streams: u16,
    /// Congestion control of the kernel: `reno`, `cubic`, `bbr`; default: the kernel's
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,
    /// Code point to send with: `ef`, `af11`, `cs5` or 0 to 63
    #[arg(long, value_name = "DSCP", default_value_t = Dscp::BE)]
    pub dscp: Dscp,
    /// Rate of the path in IP packets, to which RFC 6349's ratio of transfer times refers
    #[arg(long, value_name = "RATE", conflicts_with = "ftp")]
    pub bottleneck: Option<Rate>,
    /// Time between two readings of the kernel's connection state
    #[arg(long, value_name = "TIME", default_value = "100ms", conflicts_with = "ftp")]
    pub sample_every: Duration,
    #[command(flatten)]
    pub ftp: Ftp,
    #[command(flatten)]
    pub key: KeyPlace,
    #[command(flatten)]
    pub form: Form,
}

/// A file by FTP.
#[derive(Debug, Args)]
pub struct Ftp {
    /// Transfer a file by FTP, passive, with any server (port 21)
    #[arg(long, help_heading = "FTP (--ftp)", conflicts_with_all = ["streams", "key", "key_env"])]
    pub ftp: bool,
    /// User to log in as
    #[arg(
        long,
        help_heading = "FTP (--ftp)",
        value_name = "NAME",
        default_value = "anonymous",
        requires = "ftp"
    )]
    pub user: String,
    /// Environment variable with the password
    #[arg(long, help_heading = "FTP (--ftp)", value_name = "NAME", requires = "ftp")]
    pub password_env: Option<String>,
    /// Fetch this file, instead of storing one and deleting it again
    #[arg(long, help_heading = "FTP (--ftp)", value_name = "NAME", requires = "ftp")]
    pub download: Option<String>,
    /// Time after which the session is ended
    #[arg(long, help_heading = "FTP (--ftp)", value_name = "TIME", default_value = "300s")]
    pub patience: Duration,
}

/// `netrig probe voice`.
#[derive(Debug, Args)]
pub struct Voice {
    #[command(flatten)]
    pub target: Target,
    /// Codec
    #[arg(long, value_parser = choice(CODECS), default_value = "g711-plc")]
    pub codec: VoiceCodec,
    /// Speech in a packet
    #[arg(long, value_name = "TIME", default_value = "20ms")]
    pub packet: Duration,
    /// Talk spurts and pauses of a conversation (ITU-T P.59) instead of continuous speech
    #[arg(long)]
    pub spurts: bool,
    /// Wait of the first packet in the play-out buffer; `adaptive` needs --spurts
    #[arg(long, value_name = "TIME|adaptive", default_value = "40ms")]
    pub playout: String,
    /// Duration of the call
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub duration: Duration,
    /// Code point to send with: `ef`, `af11`, `cs5` or 0 to 63
    #[arg(long, value_name = "DSCP", default_value_t = Dscp::EF)]
    pub dscp: Dscp,
    /// Seed of the talk spurts
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub key: KeyPlace,
    #[command(flatten)]
    pub form: Form,
}

/// `netrig probe video`.
#[derive(Debug, Args)]
pub struct Video {
    #[command(flatten)]
    pub target: Target,
    /// An H.264 clip without reordered pictures (`ffmpeg -i IN -c:v libx264 -bf 0 -f h264 OUT`); default: netrig's own
    #[arg(long, value_name = "FILE")]
    pub clip: Option<PathBuf>,
    /// Pictures per second of that clip
    #[arg(long, value_name = "N", default_value_t = 25, requires = "clip")]
    pub frames: u32,
    /// Wait of the first packet in the play-out buffer; packets that are later than this are lost
    #[arg(long, value_name = "TIME", default_value = "200ms")]
    pub playout: Duration,
    /// Code points, separated by commas: the clip is sent with each of them at the same time
    #[arg(long, value_name = "DSCP[,..]", value_delimiter = ',', default_value = "ef,be")]
    pub dscp: Vec<Dscp>,
    /// Write one picture as sent and as each flow received it, side by side (PNG)
    #[arg(long, value_name = "FILE")]
    pub picture: Option<PathBuf>,
    /// Number of that picture, from 0; default: the most damaged one
    #[arg(long, value_name = "N", requires = "picture")]
    pub number: Option<usize>,
    #[command(flatten)]
    pub key: KeyPlace,
    #[command(flatten)]
    pub form: Form,
}
