//! Detection of spurious retransmissions by timestamps (Eifel, RFC 3522) and by DSACK (RFC 3708).

/// The retransmissions since the last reduction of the window. Times are in the clock of the timestamps option,
/// milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Undo {
    /// Duplicates reported before this offset belong to earlier retransmissions.
    from: u64,
    first_resent: Option<u32>,
    resent: u32,
    /// Number of retransmitted segments that the peer has not reported as duplicates.
    unreported: u32,
}

impl Undo {
    /// The window is reduced when SND.UNA is `una`. `resent` segments in flight were retransmitted before, the first of
    /// them at `first_resent`. Their acknowledgements are no evidence about this reduction.
    pub const fn new(una: u64, resent: u32, first_resent: Option<u32>) -> Self {
        Self { from: una, first_resent, resent, unreported: resent }
    }

    /// A segment is retransmitted.
    pub fn on_resent(&mut self, clock: u32) {
        self.first_resent.get_or_insert(clock);
        self.resent += 1;
        self.unreported += 1;
    }

    /// The peer reports `segments` duplicate segments that begin at offset `start`.
    pub fn on_duplicates(&mut self, start: u64, segments: u32) {
        if start >= self.from {
            self.unreported = self.unreported.saturating_sub(segments);
        }
    }

    /// RFC 3708 section 2: whether the original of every retransmitted segment had arrived.
    pub const fn is_refuted_by_duplicates(&self) -> bool {
        self.resent > 0 && self.unreported == 0
    }

    /// RFC 3522 section 3.2, step 4: whether the acknowledgement of a retransmitted segment echoes a timestamp from
    /// before the retransmission.
    pub fn is_refuted_by_echo(&self, echoed: u32) -> bool {
        self.first_resent.is_some_and(|resent| crate::Serial(echoed).before(crate::Serial(resent)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_from_before_the_retransmission_refutes_it() {
        let mut undo = Undo::new(1000, 0, None);
        assert!(!undo.is_refuted_by_echo(5), "nothing was sent again");
        undo.on_resent(70);
        undo.on_resent(75);
        assert!(undo.is_refuted_by_echo(69));
        assert!(!undo.is_refuted_by_echo(70));
    }

    /// A segment that was retransmitted before the reduction echoes the time of its retransmission, which is no
    /// evidence.
    #[test]
    fn an_earlier_retransmission_refutes_nothing() {
        let mut undo = Undo::new(1000, 1, Some(60));
        undo.on_resent(70);
        assert!(!undo.is_refuted_by_echo(60));
        assert!(undo.is_refuted_by_echo(59));
        undo.on_duplicates(1000, 1);
        assert!(!undo.is_refuted_by_duplicates());
        undo.on_duplicates(2000, 1);
        assert!(undo.is_refuted_by_duplicates());
    }

    #[test]
    fn every_retransmission_must_be_reported() {
        let mut undo = Undo::new(1000, 0, None);
        assert!(!undo.is_refuted_by_duplicates());
        undo.on_resent(1);
        undo.on_resent(1);
        undo.on_duplicates(500, 1);
        undo.on_duplicates(1000, 1);
        assert!(!undo.is_refuted_by_duplicates());
        undo.on_duplicates(2000, 1);
        assert!(undo.is_refuted_by_duplicates());
    }
}
