//! A play-out buffer: which packets a receiver of voice or video plays, and when.
//!
//! Packets arrive with varying delays. The buffer stores each packet until its play-out time. A packet that arrives
//! later counts as lost. [`played`] simulates a buffer over the packets of a run, and
//! [`LossPattern`](crate::path::LossPattern) describes the missing packets.

use crate::StatsError;

/// A sent packet with its delay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlayoutPacket {
    /// Sending time, s.
    pub sent_s: f64,
    /// Delay, s; `None` if the packet was lost.
    pub delay_s: Option<f64>,
    /// Whether it is the first packet after a pause (RTP's marker bit of a talk spurt, RFC 3551 section 4.1). Only at
    /// such a packet can the play-out delay change without an audible effect.
    pub begins: bool,
}

/// The strategy by which a buffer chooses the play-out delay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PlayoutBuffer {
    /// The first packet that arrives waits this time, s, in the buffer. All packets have the play-out delay of this
    /// packet.
    Fixed(f64),
    /// At the start of each talk spurt the play-out delay becomes the smoothed delay plus four times the smoothed
    /// deviation of the delay. Without pauses the play-out delay does not change.
    ///
    /// Source: Ramjee, Kurose, Towsley, Schulzrinne (1994), *Adaptive playout mechanisms for packetized audio applications
    /// in wide-area networks*, algorithm 1, with its weight of 0.998002.
    Adaptive,
}

/// Weight of the previous value in the smoothed delay and its deviation (Ramjee et al., section 3).
const WEIGHT: f64 = 0.998_002;
/// Number of deviations above the smoothed delay (Ramjee et al., equation 1).
const DEVIATIONS: f64 = 4.0;
/// Initial deviation, s. With this value two packets of 20 ms wait at first, as in commercial receivers.
const FIRST_DEVIATION_S: f64 = 0.01;

/// The result of a play-out.
#[derive(Debug, Clone, PartialEq)]
pub struct PlayoutResult {
    /// For each packet, whether it was missing at its play-out time: lost or late.
    pub missing: Vec<bool>,
    /// Mean time from sending to play-out over the packets that were played, s. `None` if no packet was played.
    pub delay_s: Option<f64>,
    /// Number of packets that arrived too late.
    pub late: u64,
}

/// Plays the packets of a run, which must be in the order of sending.
///
/// # Errors
/// A time or delay that is not finite, with the packet's index.
pub fn played(packets: &[PlayoutPacket], buffer: PlayoutBuffer) -> Result<PlayoutResult, StatsError> {
    if let Some(index) =
        packets.iter().position(|p| !p.sent_s.is_finite() || !p.delay_s.unwrap_or(0.0).is_finite())
    {
        return Err(StatsError::NotFinite { index });
    }
    let mut clock = PlayoutClock::new(buffer, packets);
    let mut played = PlayoutResult { missing: Vec::with_capacity(packets.len()), delay_s: None, late: 0 };
    let mut waited = 0.0;
    for packet in packets {
        let wait = clock.wait(packet);
        let late = packet.delay_s.is_some_and(|delay| delay > wait);
        let missing = late || packet.delay_s.is_none();
        played.late += u64::from(late);
        waited += if missing { 0.0 } else { wait };
        played.missing.push(missing);
    }
    let count = played.missing.iter().filter(|missing| !**missing).count();
    played.delay_s = (count > 0).then(|| waited / count as f64);
    Ok(played)
}

/// Computes the play-out delay of each packet.
struct PlayoutClock {
    buffer: PlayoutBuffer,
    wait_s: f64,
    delay_s: f64,
    deviation_s: f64,
}

impl PlayoutClock {
    fn new(buffer: PlayoutBuffer, packets: &[PlayoutPacket]) -> Self {
        // A receiver plays nothing before the first arrival, and at first it has only the delay of that packet.
        let first = packets.iter().find_map(|packet| packet.delay_s).unwrap_or(0.0);
        let in_buffer = match buffer {
            PlayoutBuffer::Fixed(wait) => wait,
            PlayoutBuffer::Adaptive => DEVIATIONS * FIRST_DEVIATION_S,
        };
        Self { buffer, wait_s: first + in_buffer, delay_s: first, deviation_s: FIRST_DEVIATION_S }
    }

    /// The play-out delay of this packet. The delay of the packet itself affects only later packets.
    fn wait(&mut self, packet: &PlayoutPacket) -> f64 {
        if self.buffer == PlayoutBuffer::Adaptive && packet.begins {
            self.wait_s = self.delay_s + DEVIATIONS * self.deviation_s;
        }
        if let Some(delay) = packet.delay_s {
            self.delay_s = WEIGHT * self.delay_s + (1.0 - WEIGHT) * delay;
            let off = (self.delay_s - delay).abs();
            self.deviation_s = WEIGHT * self.deviation_s + (1.0 - WEIGHT) * off;
        }
        self.wait_s
    }
}
