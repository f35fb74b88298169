//! One direction of a telephone call: voice packets over RTP at a constant rate, with or without the pauses of a
//! conversation.

use std::net::SocketAddr;

use netrig_core::setting::SettingValue;
use netrig_core::{Data, Duration, Instant, Stream, UnitError, choices};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::application_settings::ApplicationSettings;
use crate::media_sink::MediaSink;
use crate::{AppAction, AppEvent, Application, Ends, FlowContext, SettingsError};

/// Length of the fixed RTP header (RFC 3550 section 5.1), bytes.
const RTP_HEADER: u64 = 12;

/// Mean length of a talk spurt and of a pause in conversation (ITU-T P.59 (03/1993), Table 1). Both are exponential.
const TALK_SPURT: Duration = Duration::from_millis(1004);
const PAUSE: Duration = Duration::from_millis(1587);

/// One direction of a telephone call: RTP packets from the flow's first end to its second. The E-model computes its
/// quality after a simulated play-out buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Voice {
    /// The codec.
    #[serde(default)]
    pub codec: VoiceCodec,
    /// Duration of speech in a packet: a multiple of 10 ms, up to 120 ms.
    #[serde(default = "packet_time")]
    pub packet: Duration,
    /// When there is speech.
    #[serde(default)]
    pub talk: Talk,
    /// Play-out buffer of the receiver.
    #[serde(default)]
    pub playout: Playout,
}

fn packet_time() -> Duration {
    Duration::from_millis(20)
}

choices! {
    /// A voice codec.
    #[derive(Default)]
    pub enum VoiceCodec {
        /// ITU-T G.711, 64 kbit/s; lost speech is silence.
        G711 = "g711",
        /// ITU-T G.711 with packet-loss concealment (its Appendix I).
        [default]
        G711Concealed = "g711-plc",
        /// ITU-T G.729 Annex A, 8 kbit/s.
        G729a = "g729a",
    }
}

impl VoiceCodec {
    /// Bytes of 10 ms of speech.
    const fn bytes_per_10_ms(self) -> u64 {
        match self {
            Self::G711 | Self::G711Concealed => 80,
            Self::G729a => 10,
        }
    }

    /// Look-ahead of the codec (G.729 section 2).
    const fn lookahead(self) -> Duration {
        match self {
            Self::G711 | Self::G711Concealed => Duration::ZERO,
            Self::G729a => Duration::from_millis(5),
        }
    }
}

/// When there is speech.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Talk {
    /// Always, as with a codec without voice activity detection.
    #[default]
    Continuous,
    /// Talk spurts and pauses of a conversation: exponential with means of 1.004 and 1.587 s (ITU-T P.59).
    Spurts,
}

/// Play-out buffer of the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Playout {
    /// Play-out delay of the first packet. Each packet is played at its send time plus the same total delay.
    Fixed(Duration),
    /// The wait is chosen at the start of each talk spurt (Ramjee et al. 1994).
    Adaptive,
}

impl SettingValue for Playout {
    const VALUE_NAME: &'static str = "TIME|adaptive";

    fn read(word: &str) -> Result<Self, String> {
        match word {
            "adaptive" => Ok(Self::Adaptive),
            time => {
                time.parse().map(Self::Fixed).map_err(|error: UnitError| format!("{error}; or `adaptive`"))
            }
        }
    }

    fn word(&self) -> String {
        match self {
            Self::Fixed(time) => time.to_string(),
            Self::Adaptive => "adaptive".to_owned(),
        }
    }
}

impl Default for Playout {
    fn default() -> Self {
        Self::Fixed(Duration::from_millis(40))
    }
}

impl Voice {
    /// Payload of a datagram, bytes: the RTP header and the speech.
    pub fn payload(&self) -> u64 {
        RTP_HEADER + self.packet.as_nanos() / 10_000_000 * self.codec.bytes_per_10_ms()
    }

    /// Time from a sound until its packet can be sent: the packet time plus the look-ahead of the codec.
    pub fn coding_delay(&self) -> Duration {
        self.packet + self.codec.lookahead()
    }

    /// Share of the time during which there is speech.
    fn activity(&self) -> f64 {
        match self.talk {
            Talk::Continuous => 1.0,
            Talk::Spurts => TALK_SPURT.as_secs_f64() / (TALK_SPURT + PAUSE).as_secs_f64(),
        }
    }
}

impl ApplicationSettings for Voice {
    fn check(&self) -> Result<(), SettingsError> {
        let nanos = self.packet.as_nanos();
        if nanos == 0 || !nanos.is_multiple_of(10_000_000) || nanos > 120_000_000 {
            return Err(SettingsError::new("packet", "it must be a multiple of 10 ms, up to 120 ms"));
        }
        if self.playout == Playout::Adaptive && self.talk == Talk::Continuous {
            let why = "an adaptive buffer changes its wait in the pauses, so it needs `talk = \"spurts\"`";
            return Err(SettingsError::new("playout", why));
        }
        Ok(())
    }

    fn ends(&self, flow: &FlowContext) -> Ends {
        let mut spans = flow.stream("bursts");
        let until = match self.talk {
            Talk::Continuous => Instant::NEVER,
            Talk::Spurts => flow.start + spans.exponential_duration(TALK_SPURT),
        };
        let size = self.payload();
        let speaker =
            VoiceSender { server: flow.server, packet: self.packet, size, spans, until, next: None };
        Ends { client: Box::new(speaker), server: Box::new(MediaSink) }
    }

    fn datagram(&self) -> Option<f64> {
        Some(self.payload() as f64)
    }

    fn offered_load(&self) -> Option<f64> {
        Some(self.payload() as f64 / self.packet.as_secs_f64() * self.activity())
    }
}

/// Sends voice packets.
struct VoiceSender {
    server: SocketAddr,
    packet: Duration,
    size: u64,
    spans: Stream,
    /// End of the current talk spurt.
    until: Instant,
    next: Option<Instant>,
}

impl VoiceSender {
    /// Time at which the next packet is full. The packet starts at `from`, or with the next talk spurt. Like encoders,
    /// it ends a spurt with a whole packet.
    fn full(&mut self, from: Instant) -> Instant {
        let mut from = from;
        while from >= self.until {
            from = self.until.max(from) + self.spans.exponential_duration(PAUSE);
            self.until = from + self.spans.exponential_duration(TALK_SPURT);
        }
        from + self.packet
    }
}

impl Application for VoiceSender {
    fn handle(&mut self, now: Instant, event: AppEvent, act: &mut dyn FnMut(AppAction)) {
        match event {
            AppEvent::Started => self.next = Some(self.full(now)),
            AppEvent::Timeout => {
                // Computed from the due time, not from `now`: the speech continues even if the carrier is late.
                let Some(at) = self.next.filter(|at| *at <= now) else { return };
                act(AppAction::Datagram { to: self.server, data: Data::Fill(self.size) });
                self.next = Some(self.full(at));
            }
            AppEvent::Stopped => self.next = None,
            _ => {}
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Settings, react};

    fn voice(text: &str) -> Voice {
        Voice {
            codec: VoiceCodec::G711,
            talk: if text == "spurts" { Talk::Spurts } else { Talk::Continuous },
            packet: packet_time(),
            playout: Playout::default(),
        }
    }

    /// Times and lengths of the first `n` datagrams.
    fn sent(voice: Voice, n: usize) -> Vec<(Instant, u64)> {
        let flow = FlowContext::of_test("call", 5);
        let mut speaker = Settings::Voice(voice).ends(&flow).client;
        let mut out = vec![];
        let mut next = react(&mut *speaker, Instant::ZERO, AppEvent::Started, |_| {});
        while let Some(at) = next.filter(|_| out.len() < n) {
            next = react(&mut *speaker, at, AppEvent::Timeout, |action| {
                if let AppAction::Datagram { data, .. } = action {
                    out.push((at, data.size()));
                }
            });
        }
        out
    }

    /// RFC 3551 section 4.5: 160 B of G.711 or 20 B of G.729 for 20 ms, plus 12 B of RTP header.
    #[test]
    fn packets_are_what_the_codecs_make() {
        let g711 = voice("");
        assert_eq!(g711.payload(), 172);
        let g729a = Voice { codec: VoiceCodec::G729a, ..g711.clone() };
        assert_eq!(g729a.payload(), 32);
        assert_eq!(g729a.coding_delay(), Duration::from_millis(25));
        let millis: Vec<_> = sent(g711, 3).iter().map(|(at, _)| at.as_nanos() / 1_000_000).collect();
        assert_eq!(millis, [20, 40, 60]);
    }

    /// ITU-T P.59: speech fills 1.004 / (1.004 + 1.587) = 38.7 % of the time. Half a packet is added, because a spurt
    /// ends with a whole packet. The tolerance is five standard errors: 0.61 · √(2/n) of the share, for n = 4,900
    /// cycles of two exponential periods.
    #[test]
    fn spurts_are_those_of_a_conversation() {
        let sent = sent(voice("spurts"), 250_000);
        let last = sent[sent.len() - 1].0.as_secs_f64();
        let speech = 0.02 * sent.len() as f64 / last;
        let expected = (1.004 + 0.01) / (1.004 + 0.01 + 1.587);
        assert!(
            (speech - expected).abs() < 5.0 * 0.61 * expected * (2.0 / 4_900f64).sqrt(),
            "{speech} for {expected}"
        );
        let gaps = sent.windows(2).map(|pair| pair[1].0.since(pair[0].0)).filter(|gap| *gap != packet_time());
        let pauses: Vec<f64> = gaps.map(|gap| (gap - packet_time()).as_secs_f64()).collect();
        let mean = pauses.iter().sum::<f64>() / pauses.len() as f64;
        assert!((mean - 1.587).abs() < 5.0 * 1.587 / (pauses.len() as f64).sqrt(), "{mean}");
    }

    #[test]
    fn settings_that_cannot_be() {
        let odd = Voice { packet: Duration::from_millis(15), ..voice("") };
        assert_eq!(odd.check().unwrap_err().field, "packet");
        let adaptive = Voice { playout: Playout::Adaptive, ..voice("") };
        assert_eq!(adaptive.check().unwrap_err().field, "playout");
        assert!(Voice { playout: Playout::Adaptive, ..voice("spurts") }.check().is_ok());
    }
}
