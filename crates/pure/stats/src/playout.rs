//! A play-out buffer: what a receiver of voice or video plays of what the network delivered, and when.
//!
//! Packets come with delays that vary; a buffer waits until each packet's moment of play-out, and what comes later might
//! as well have been lost. [`played`] simulates it over the packets of a run, [`LossBursts`] says what was missing.

use crate::StatsError;

/// What became of a packet on its way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlayoutPacket {
    /// When it was sent, s.
    pub sent_s: f64,
    /// Its delay, s; `None` if it was lost.
    pub delay_s: Option<f64>,
    /// Whether it is the first after a pause (RTP's marker bit of a talk spurt, RFC 3551 section 4.1): only there may the
    /// delay of play-out change unheard.
    pub begins: bool,
}

/// How a buffer chooses how long after its sending a packet is played.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PlayoutBuffer {
    /// The first that arrives waits so long, s, in the buffer, and every other is played as long after its sending.
    Fixed(f64),
    /// From the start of each talk spurt on as long as the smoothed delay and four times its smoothed deviation. Without
    /// pauses it stays as it began.
    ///
    /// Source: Ramjee, Kurose, Towsley, Schulzrinne (1994), *Adaptive playout mechanisms for packetized audio applications
    /// in wide-area networks*, algorithm 1, with its weight of 0.998002.
    Adaptive,
}

/// Weight of what was before in the smoothed delay and its deviation (Ramjee et al., section 3).
const WEIGHT: f64 = 0.998_002;
/// So many deviations above the smoothed delay (Ramjee et al., equation 1).
const DEVIATIONS: f64 = 4.0;
/// The deviation that is taken for granted before anything is known of it, s: two packets of 20 ms wait at first, as in
/// receivers that are sold.
const FIRST_DEVIATION_S: f64 = 0.01;

/// What a buffer made of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct PlayoutResult {
    /// Which packets were missing when they were to be played: lost, or too late.
    pub missing: Vec<bool>,
    /// Mean time from sending to play-out over the packets that were played, s; `None` if none was.
    pub delay_s: Option<f64>,
    /// Packets that came, but too late.
    pub late: u64,
}

/// Plays the packets of a run, in the order of their sending.
///
/// # Errors
/// A time or delay that is not finite, named by the packet's place.
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

/// How long after its sending the packet at hand is played.
struct PlayoutClock {
    buffer: PlayoutBuffer,
    wait_s: f64,
    delay_s: f64,
    deviation_s: f64,
}

impl PlayoutClock {
    fn new(buffer: PlayoutBuffer, packets: &[PlayoutPacket]) -> Self {
        // A receiver can play nothing before something came; the first delay that it sees is all that it knows.
        let first = packets.iter().find_map(|packet| packet.delay_s).unwrap_or(0.0);
        let in_buffer = match buffer {
            PlayoutBuffer::Fixed(wait) => wait,
            PlayoutBuffer::Adaptive => DEVIATIONS * FIRST_DEVIATION_S,
        };
        Self { buffer, wait_s: first + in_buffer, delay_s: first, deviation_s: FIRST_DEVIATION_S }
    }

    /// The wait of this packet. What a packet's delay tells is known to the packets after it.
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

/// How losses lie among the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LossBursts {
    /// Packets.
    pub packets: u64,
    /// Those that are missing.
    pub lost: u64,
    /// Runs of missing packets without one between that is not.
    pub bursts: u64,
}

impl LossBursts {
    /// The pattern of these packets, true where one is missing.
    #[must_use]
    pub fn of(missing: &[bool]) -> Self {
        let starts = missing.iter().enumerate().filter(|(at, lost)| **lost && (*at == 0 || !missing[at - 1]));
        Self {
            packets: missing.len() as u64,
            lost: missing.iter().filter(|lost| **lost).count() as u64,
            bursts: starts.count() as u64,
        }
    }

    /// The share of packets that are missing; `None` of no packets.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        (self.packets > 0).then(|| self.lost as f64 / self.packets as f64)
    }

    /// Burst ratio, BurstR (G.107 section 7.5): the mean length of the bursts over that of independent losses of the same
    /// share, 1 / (1 - share). 1 if nothing is lost, or all: then there is nothing to compare.
    #[must_use]
    pub fn burst_ratio(&self) -> f64 {
        if self.lost == 0 || self.lost == self.packets {
            return 1.0;
        }
        let mean_burst = self.lost as f64 / self.bursts as f64;
        mean_burst * (self.packets - self.lost) as f64 / self.packets as f64
    }
}
