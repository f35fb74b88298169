//! RACK-TLP (RFC 8985): detects losses by time.

use netrig_core::{Duration, Instant};

use super::scoreboard::{Delivered, Scoreboard};
use crate::tcp::clock::ago;

/// Number of recoveries without a DSACK after which the reordering window shrinks again (RFC 8985 section 6.2,
/// `RACK.reo_wnd_persist`).
const PERSIST: u32 = 16;

/// The state of RACK (RFC 8985 section 5.3).
#[derive(Clone, Debug)]
pub(crate) struct Rack {
    /// `RACK.xmit_ts` and `RACK.end_seq`: send time and end of the latest transmission that is known to have arrived.
    latest: Option<(Instant, u64)>,
    /// `RACK.rtt`.
    rtt: Duration,
    /// `RACK.min_RTT`, over the whole connection.
    min_rtt: Duration,
    reordering_seen: bool,
    /// `RACK.dsack_round`.
    dsack_round: Option<u64>,
    window_multiple: u64,
    window_persist: u32,
}

/// The sender's state that RACK reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation {
    /// Whether the sender is in fast recovery or in recovery from a time-out.
    pub recovering: bool,
    pub dup_ack_threshold: u32,
    pub srtt: Option<Duration>,
}

impl Rack {
    pub const fn new() -> Self {
        Self {
            latest: None,
            rtt: Duration::ZERO,
            min_rtt: Duration::MAX,
            reordering_seen: false,
            dsack_round: None,
            window_multiple: 1,
            window_persist: PERSIST,
        }
    }

    /// If a retransmission was sent after this time, an acknowledgement at `now` cannot refer to it (RFC 8985 section
    /// 6.2, step 2).
    pub fn plausible_until(&self, now: Instant) -> Instant {
        if self.min_rtt == Duration::MAX { now } else { ago(now, self.min_rtt) }
    }

    /// Takes an acknowledgement (RFC 8985 section 6.2, steps 1 to 3).
    pub fn on_ack(&mut self, now: Instant, delivered: &Delivered) {
        if let Some(sent_at) = delivered.earliest_original
            && !delivered.repeated
        {
            self.min_rtt = self.min_rtt.min(now.since(sent_at));
        }
        if let Some(latest) = delivered.latest {
            self.rtt = now.since(latest.0);
            self.latest = self.latest.max(Some(latest));
        }
        self.reordering_seen |= delivered.reordered;
    }

    /// RFC 8985 section 6.2, step 4: a DSACK shows that the reordering window was too small. It grows by a quarter of
    /// the smallest round-trip time, at most once per round trip.
    pub fn on_duplicate_report(&mut self, una: u64, nxt: u64) {
        if self.dsack_round.is_some_and(|round| una < round) {
            return;
        }
        self.dsack_round = Some(nxt);
        self.window_multiple += 1;
        self.window_persist = PERSIST;
    }

    /// A recovery ended.
    pub fn on_recovered(&mut self) {
        self.window_persist = self.window_persist.saturating_sub(1);
        if self.window_persist == 0 {
            self.window_multiple = 1;
        }
    }

    /// The reordering window (RFC 8985 section 6.2, step 4).
    fn reordering_window(&self, board: &Scoreboard, situation: &Situation) -> Duration {
        if !self.reordering_seen
            && (situation.recovering || board.sacked_segments() >= situation.dup_ack_threshold)
        {
            return Duration::ZERO;
        }
        let quarter = Duration::from_nanos(self.min_rtt.as_nanos() / 4);
        (quarter * self.window_multiple).min(situation.srtt.unwrap_or(Duration::MAX))
    }

    /// Marks lost segments. Returns whether any are lost, and the time of the next check.
    pub fn detect(
        &self,
        now: Instant,
        board: &mut Scoreboard,
        situation: &Situation,
    ) -> (bool, Option<Instant>) {
        let Some(latest) = self.latest else { return (false, None) };
        let patience = self.rtt + self.reordering_window(board, situation);
        board.judge_by_time(now, latest, patience)
    }

    /// RFC 8985 section 6.3: at a time-out, the first segment counts as lost. So does every segment whose
    /// acknowledgement is overdue.
    pub fn on_timeout(&self, now: Instant, board: &mut Scoreboard, situation: &Situation) {
        board.mark_first_lost();
        let patience = self.rtt + self.reordering_window(board, situation);
        board.judge_by_time(now, (Instant::NEVER, 0), patience);
    }
}

/// An outstanding tail loss probe (RFC 8985 section 7.1).
#[derive(Clone, Copy, Debug)]
pub(crate) struct TailLossProbe {
    /// `TLP.end_seq`: SND.NXT when the probe was sent.
    pub end: u64,
    /// `TLP.is_retrans`.
    pub repeated: bool,
}

/// Conclusion from an acknowledgement about a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeVerdict {
    /// Not yet decided.
    Open,
    /// The probe was received, and nothing was lost.
    Answered,
    /// The probe repaired a single loss, which is a congestion signal.
    Repaired,
}

impl TailLossProbe {
    /// RFC 8985 section 7.4.2. `duplicate_report` means that the acknowledgement has a DSACK block for the probe.
    /// `plain_duplicate` means that it is a duplicate without selective acknowledgements.
    pub fn judge(self, ack: u64, duplicate_report: bool, plain_duplicate: bool) -> ProbeVerdict {
        match self {
            Self { end, .. } if ack < end => ProbeVerdict::Open,
            Self { repeated: false, .. } => ProbeVerdict::Answered,
            _ if duplicate_report => ProbeVerdict::Answered,
            Self { end, .. } if ack > end => ProbeVerdict::Repaired,
            _ if plain_duplicate => ProbeVerdict::Answered,
            _ => ProbeVerdict::Open,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;
    use crate::tcp::config::Config;

    /// RFC 8985 section 7.4.2, case by case.
    #[test]
    fn a_probe_is_judged_by_the_acknowledgement() {
        let repeated = TailLossProbe { end: 100, repeated: true };
        assert_eq!(repeated.judge(99, false, false), ProbeVerdict::Open);
        assert_eq!(repeated.judge(100, true, false), ProbeVerdict::Answered);
        assert_eq!(repeated.judge(100, false, true), ProbeVerdict::Answered);
        assert_eq!(repeated.judge(100, false, false), ProbeVerdict::Open);
        assert_eq!(repeated.judge(101, false, false), ProbeVerdict::Repaired);
        let new = TailLossProbe { end: 100, repeated: false };
        assert_eq!(new.judge(100, false, false), ProbeVerdict::Answered);
    }

    /// RFC 8985 section 3.3.2: the reordering window never exceeds the smoothed round-trip time.
    #[test]
    fn reordering_is_given_a_round_trip_at_most() {
        let board = Scoreboard::new(&Config::of(Profile::Rfc), 1000, 0);
        let ms = Duration::from_millis;
        let situation = Situation { recovering: false, dup_ack_threshold: 3, srtt: Some(ms(120)) };
        let window = |window_multiple| {
            let rack = Rack { min_rtt: ms(100), window_multiple, reordering_seen: true, ..Rack::new() };
            rack.reordering_window(&board, &situation)
        };
        assert_eq!([1, 4, 5, 20].map(window), [ms(25), ms(100), ms(120), ms(120)]);
    }

    /// RFC 8985 section 6.2: the window grows by another quarter in each round trip with a DSACK. It is reset after 16
    /// recoveries without a DSACK.
    #[test]
    fn duplicate_reports_widen_the_window() {
        let mut rack = Rack::new();
        rack.on_duplicate_report(10, 50);
        rack.on_duplicate_report(20, 60);
        assert_eq!(rack.window_multiple, 2, "once per round");
        rack.on_duplicate_report(50, 90);
        assert_eq!(rack.window_multiple, 3);
        (0..15).for_each(|_| rack.on_recovered());
        assert_eq!(rack.window_multiple, 3);
        rack.on_recovered();
        assert_eq!(rack.window_multiple, 1);
    }
}
