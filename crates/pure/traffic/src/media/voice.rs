//! Quality of a call: its packets pass a play-out buffer, and the E-model rates the result.

use netrig_stats::path::LossPattern;
use netrig_stats::playout::{PlayoutBuffer, played};
use netrig_stats::theory::e_model::{Codec, TelephoneCall};

use super::{MediaArrival, in_order};
use crate::{Playout, Voice, VoiceCodec};

/// Quality of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallQuality {
    /// Transmission rating R of ITU-T G.107. It can be below 0.
    pub rating: f64,
    /// Mean opinion score, 1 to 4.5.
    pub opinion: f64,
    /// Mouth-to-ear delay, s: coding, network and play-out buffer. If no packet was played, the coding delay alone.
    pub delay_s: f64,
    /// Share of the packets that were missing at their play-out time.
    pub missing: f64,
    /// Packets that arrived after their play-out time.
    pub late: u64,
    /// Burst ratio of the missing packets (ITU-T G.107 section 7.5). It is 1 if none or all packets are missing.
    pub burst_ratio: f64,
}

impl CallQuality {
    /// Computes the quality of a call from its `received` packets, in any order. `sent` packets were sent, beginning
    /// with number `first`.
    ///
    /// # Errors
    ///
    /// If no packet was sent, or if a time is invalid.
    pub fn of(
        voice: &Voice,
        first: u64,
        sent: u64,
        received: impl IntoIterator<Item = MediaArrival>,
    ) -> Result<Self, String> {
        let packets = in_order(first, sent, voice.packet.as_secs_f64(), received);
        let buffer = match voice.playout {
            Playout::Fixed(wait) => PlayoutBuffer::Fixed(wait.as_secs_f64()),
            Playout::Adaptive => PlayoutBuffer::Adaptive,
        };
        let played = played(&packets, buffer).map_err(|error| error.to_string())?;
        let pattern = LossPattern::new(played.missing);
        let missing = pattern.share().ok_or("no packet of voice was sent")?;
        let burst_ratio = pattern.burst_ratio().unwrap_or(1.0);
        let delay_s = voice.coding_delay().as_secs_f64() + played.delay_s.unwrap_or(0.0);
        let call =
            TelephoneCall { delay_s, loss: missing, burst_ratio, ..TelephoneCall::new(codec(voice.codec)) };
        let rating = call.rating().map_err(|error| error.to_string())?;
        let opinion = call.opinion().map_err(|error| error.to_string())?;
        Ok(Self { rating, opinion, delay_s, missing, late: played.late, burst_ratio })
    }
}

/// The codec's entry in the tables of ITU-T G.113.
fn codec(codec: VoiceCodec) -> Codec {
    match codec {
        VoiceCodec::G711 => Codec::G711,
        VoiceCodec::G711Concealed => Codec::G711_CONCEALED,
        VoiceCodec::G729a => Codec::G729A,
    }
}

#[cfg(test)]
mod tests {
    use netrig_core::Duration;

    use super::*;
    use crate::Talk;

    fn voice() -> Voice {
        Voice {
            codec: VoiceCodec::G711Concealed,
            packet: Duration::from_millis(20),
            talk: Talk::Continuous,
            playout: Playout::default(),
        }
    }

    fn g711() -> Voice {
        Voice { codec: VoiceCodec::G711, ..voice() }
    }

    /// One packet every 20 ms with this delay, except those for which `lost` returns true.
    fn received(count: u64, delay_s: f64, lost: impl Fn(u64) -> bool) -> Vec<MediaArrival> {
        let all = (0..count).filter(|number| !lost(*number));
        all.map(|number| MediaArrival { number, sent_s: 0.02 * number as f64, delay_s }).collect()
    }

    /// The delay is 20 ms of packet time, 30 ms of network and 40 ms of buffer. The impairment is small: 0.024 per ms
    /// by the fit of Cole and Rosenbluth, with a tolerance of 1.
    #[test]
    fn a_call_without_loss() {
        let quality = CallQuality::of(&g711(), 0, 500, received(500, 0.03, |_| false)).unwrap();
        assert!((quality.delay_s - 0.09).abs() < 1e-9);
        assert!((quality.rating - (93.2 - 0.024 * 90.0)).abs() < 1.0, "{}", quality.rating);
        assert_eq!((quality.missing, quality.late), (0.0, 0));
    }

    /// Every tenth packet is lost: 10 % in bursts of length 1, so BurstR = 0.9. For G.711 without concealment, R falls
    /// by 95 · 10 / (10/0.9 + 4.3).
    #[test]
    fn loss_costs_what_g_113_says() {
        let call =
            |lost: &dyn Fn(u64) -> bool| CallQuality::of(&g711(), 0, 500, received(500, 0.03, lost)).unwrap();
        let (clear, lossy) = (call(&|_| false), call(&|number| number % 10 == 9));
        assert!((lossy.missing - 0.1).abs() < 1e-12);
        let impairment = 95.0 * 10.0 / (10.0 / 0.9 + 4.3);
        assert!((clear.rating - lossy.rating - impairment).abs() < 1e-9);
        let bursts = call(&|number| number % 100 >= 90);
        assert!((bursts.missing - 0.1).abs() < 1e-12 && bursts.rating < lossy.rating, "bursts are worse");
    }

    /// Packets that were sent but not received count as lost, also at the start and at the end. A received packet with
    /// a number that was never sent is ignored.
    #[test]
    fn losses_at_both_ends() {
        let mut some = received(90, 0.03, |number| number < 10);
        some.push(MediaArrival { number: u64::MAX, sent_s: 1.0, delay_s: 0.0 });
        let quality = CallQuality::of(&voice(), 0, 100, some).unwrap();
        assert_eq!((quality.missing, quality.burst_ratio), (0.2, 8.0), "20 of 100 in two bursts");
        let nothing = CallQuality::of(&voice(), 0, 100, []).unwrap();
        assert!((nothing.missing - 1.0).abs() < 1e-12 && nothing.opinion < 1.2, "{nothing:?}");
        assert!(CallQuality::of(&voice(), 0, 0, []).is_err());
    }

    /// There are three talk spurts with pauses of a second. In the second spurt, the first packet is lost and the
    /// network's delay is 200 ms longer. A fixed buffer plays no packet of the second and third spurts; an adaptive
    /// buffer has adapted by the third.
    #[test]
    fn spurts_are_found_in_the_times_of_sending() {
        let spurt = |number: u64| number / 1000;
        let all = (0..3000_u64).filter(|number| *number != 1000).map(|number| MediaArrival {
            number,
            sent_s: 0.02 * number as f64 + spurt(number) as f64,
            delay_s: if spurt(number) == 0 { 0.02 } else { 0.22 },
        });
        let late = |playout: Playout| {
            let voice = Voice { talk: Talk::Spurts, playout, ..voice() };
            CallQuality::of(&voice, 0, 3000, all.clone()).unwrap().late
        };
        assert_eq!(late(Playout::default()), 1999);
        assert_eq!(late(Playout::Adaptive), 999);
    }
}
