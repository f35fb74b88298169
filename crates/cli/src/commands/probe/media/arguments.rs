//! What may be typed behind `netrig probe transfer`, `voice` and `video`.

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
    /// How much: 10 MB over TCP, 952320 B by FTP if not given
    #[arg(long, value_name = "SIZE")]
    pub bytes: Option<Size>,
    /// Connections at the same time, 1 to 64
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=i64::from(MOST_CONNECTIONS)))]
    pub streams: u16,
    /// Congestion control of the kernel: `reno`, `cubic`, `bbr`; its own choice if not given
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,
    /// Code point to send with: `ef`, `af11`, `cs5` or 0 to 63
    #[arg(long, value_name = "DSCP", default_value_t = Dscp::BE)]
    pub dscp: Dscp,
    /// What the path carries at most, in IP packets: RFC 6349's ratio of transfer times is one to that
    #[arg(long, value_name = "RATE", conflicts_with = "ftp")]
    pub bottleneck: Option<Rate>,
    /// How often the kernel is asked about its connections
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
    /// A file by FTP, passive, with any server there (port 21)
    #[arg(long, help_heading = "FTP (--ftp)", conflicts_with_all = ["streams", "key", "key_env"])]
    pub ftp: bool,
    /// Whom to log in as
    #[arg(
        long,
        help_heading = "FTP (--ftp)",
        value_name = "NAME",
        default_value = "anonymous",
        requires = "ftp"
    )]
    pub user: String,
    /// A variable of the environment with the password
    #[arg(long, help_heading = "FTP (--ftp)", value_name = "NAME", requires = "ftp")]
    pub password_env: Option<String>,
    /// Fetch this file, in the place of one that is put there and deleted again
    #[arg(long, help_heading = "FTP (--ftp)", value_name = "NAME", requires = "ftp")]
    pub download: Option<String>,
    /// The session is ended if it takes longer
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
    /// Talk spurts and pauses of a conversation (ITU-T P.59) in the place of continuous speech
    #[arg(long)]
    pub spurts: bool,
    /// How long the first packet waits in the play-out buffer; `adaptive` needs --spurts
    #[arg(long, value_name = "TIME|adaptive", default_value = "40ms")]
    pub playout: String,
    /// How long the call lasts
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
    /// A clip of H.264 without pictures that are shown out of order (`ffmpeg -i IN -c:v libx264 -bf 0 -f h264 OUT`); netrig's
    /// own if not given
    #[arg(long, value_name = "FILE")]
    pub clip: Option<PathBuf>,
    /// Pictures per second of that clip
    #[arg(long, value_name = "N", default_value_t = 25, requires = "clip")]
    pub frames: u32,
    /// How long the first packet waits; what comes later beside its sending is lost
    #[arg(long, value_name = "TIME", default_value = "200ms")]
    pub playout: Duration,
    /// Code points, with commas between: the clip is sent with each of them at the same time
    #[arg(long, value_name = "DSCP[,..]", value_delimiter = ',', default_value = "ef,be")]
    pub dscp: Vec<Dscp>,
    /// Write a picture as it was sent and as each came, side by side (PNG)
    #[arg(long, value_name = "FILE")]
    pub picture: Option<PathBuf>,
    /// Which picture, from 0; the one that was damaged most if not given
    #[arg(long, value_name = "N", requires = "picture")]
    pub number: Option<usize>,
    #[command(flatten)]
    pub key: KeyPlace,
    #[command(flatten)]
    pub form: Form,
}
