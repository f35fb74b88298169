//! A call over a real path: RTP packets to a receiver, at the packet interval of a codec.

use std::sync::atomic::AtomicBool;

use netrig_core::{Data, Dscp, Duration, Instant, Seeds, settings};
use netrig_traffic::rtp::{Packet, SequenceExtender};
use netrig_traffic::{AppAction, AppEvent, FlowContext, Playout, Settings, Talk, Voice, VoiceCodec, react};

use super::media_stream::{MediaStreamReport, ScheduledDatagram, send};
use super::receiver::Remote;
use super::{ProbeError, ProbeResult};

/// RTP clock rate of these codecs (RFC 3551 section 6), ticks per second.
const TICKS_PER_S: u64 = 8_000;

settings! {
    /// The settings of a call.
    #[derive(Clone, Debug)]
    pub struct VoiceSettings with defaults {
        /// Codec.
        codec: VoiceCodec { value_name: "CODEC" };
        /// Speech in a packet.
        packet: Duration {} = Duration::from_millis(20);
        /// Talk spurts and pauses of a conversation (ITU-T P.59) instead of continuous speech.
        spurts: bool {};
        /// Time for which the first packet waits in the play-out buffer; `adaptive` needs --spurts.
        playout: Playout {};
        /// Duration of the call.
        duration: Duration {} = Duration::from_secs(10);
        /// Code point to send with: `ef`, `af11`, `cs5` or 0 to 63.
        dscp: Dscp {} = Dscp::EF;
        /// Seed of the talk spurts.
        seed: u64 {} = 1;
    }
}

/// The longest call.
const LONGEST_CALL: Duration = Duration::from_secs(3000);

impl VoiceSettings {
    /// The order of the call.
    ///
    /// # Errors
    /// The first invalid setting.
    pub fn order(&self) -> ProbeResult<VoiceOrder> {
        let talk = if self.spurts { Talk::Spurts } else { Talk::Continuous };
        let voice = Voice { codec: self.codec, packet: self.packet, talk, playout: self.playout };
        if !(self.packet..=LONGEST_CALL).contains(&self.duration) {
            let why = "--duration: expected at least a packet and at most 3000 s";
            return Err(ProbeError::Request(why.to_owned()));
        }
        Settings::Voice(voice.clone()).check().map_err(|error| ProbeError::Request(error.to_string()))?;
        Ok(VoiceOrder { voice, lasts: self.duration, dscp: self.dscp.0, seed: self.seed })
    }
}

/// The order of a call.
#[derive(Clone, Debug)]
pub struct VoiceOrder {
    /// Codec, packet interval and speech activity.
    pub voice: Voice,
    /// Duration of the call.
    pub lasts: Duration,
    /// DSCP of the packets, below 64.
    pub dscp: u8,
    /// Seed of the talk spurts.
    pub seed: u64,
}

/// Sends a call to a receiver.
///
/// # Errors
/// If the receiver or a socket fails, or if `cancel` is set.
pub fn call(remote: &mut Remote, order: &VoiceOrder, cancel: &AtomicBool) -> ProbeResult<MediaStreamReport> {
    let mut extender = SequenceExtender::default();
    let number_of = |head: &[u8]| {
        let packet = Packet::parse(head).ok()?;
        // The first extended sequence number is in the second cycle, 65,536 or more.
        extender.extend(packet.sequence).checked_sub(1 << 16)
    };
    send(remote, order.dscp, &schedule(order), number_of, cancel)
}

/// All packets of a call. They are the same as those of the application `voice` on every substrate.
fn schedule(order: &VoiceOrder) -> Vec<ScheduledDatagram> {
    let context = FlowContext {
        name: "call".to_owned(),
        seeds: Seeds::new(order.seed),
        client: (std::net::Ipv4Addr::LOCALHOST, 0).into(),
        server: (std::net::Ipv4Addr::LOCALHOST, 0).into(),
        start: Instant::ZERO,
        datagram_headers: 0,
        stop: Instant::NEVER,
        streams: 1,
    };
    let mut speaker = Settings::Voice(order.voice.clone()).ends(&context).client;
    let mut packets: Vec<ScheduledDatagram> = Vec::new();
    let mut before = None;
    let mut next = react(&mut *speaker, Instant::ZERO, AppEvent::Started, |_| {});
    while let Some(at) = next.filter(|at| at.as_nanos() <= order.lasts.as_nanos()) {
        next = react(&mut *speaker, at, AppEvent::Timeout, |action| {
            if let AppAction::Datagram { data, .. } = action {
                let begins = before.is_none_or(|before| at - before > order.voice.packet);
                packets.push(ScheduledDatagram {
                    at,
                    bytes: packet(&order.voice, packets.len(), at, begins, &data),
                });
                before = Some(at);
            }
        });
    }
    packets
}

/// One packet of silence.
fn packet(voice: &Voice, number: usize, at: Instant, marker: bool, data: &Data) -> Vec<u8> {
    // Payload types of PCMU and G729 (RFC 3551 Table 4). In PCMU, the byte 255 is the value zero.
    let (payload_type, silence) = match voice.codec {
        VoiceCodec::G711 | VoiceCodec::G711Concealed => (0, 0xFF),
        VoiceCodec::G729a => (18, 0),
    };
    let begun = at.as_nanos().saturating_sub(voice.packet.as_nanos());
    let timestamp = (u128::from(begun) * u128::from(TICKS_PER_S) / 1_000_000_000) as u32;
    let payload = vec![silence; (data.size() as usize).saturating_sub(12)];
    Packet { marker, payload_type, sequence: number as u16, timestamp, source: 1, payload: &payload }.encode()
}

#[cfg(test)]
mod tests {
    use netrig_traffic::{Playout, Talk};

    use super::*;

    /// RFC 3551: a packet of 20 ms has 160 samples, and the first packet of a spurt has the marker bit.
    #[test]
    fn the_packets_of_a_call() {
        let voice = Voice {
            codec: VoiceCodec::G711,
            packet: Duration::from_millis(20),
            talk: Talk::Spurts,
            playout: Playout::Adaptive,
        };
        let order = VoiceOrder { voice, lasts: Duration::from_secs(60), dscp: 46, seed: 1 };
        let packets = schedule(&order);
        assert!(packets.iter().all(|packet| packet.bytes.len() == 172));
        let headers: Vec<Packet> =
            packets.iter().map(|packet| Packet::parse(&packet.bytes).unwrap()).collect();
        assert!(headers[0].marker && headers.iter().filter(|packet| packet.marker).count() > 5);
        for (number, pair) in headers.windows(2).enumerate() {
            assert_eq!(usize::from(pair[0].sequence), number);
            let step = pair[1].timestamp - pair[0].timestamp;
            assert!(if pair[1].marker { step > 160 } else { (159..=161).contains(&step) }, "{step}");
        }
    }
}
