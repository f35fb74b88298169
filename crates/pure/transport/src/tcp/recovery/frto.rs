//! Forward RTO-recovery (RFC 5682): detects spurious time-outs.

/// The algorithm's step after a time-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frto {
    /// Step 2: the first segment is retransmitted and its acknowledgement expected.
    First,
    /// Step 3: two new segments are sent and the second acknowledgement expected.
    Second,
}

/// Conclusion from one acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrtoVerdict {
    /// Steps 2a and 3a: retransmit as after any time-out.
    Genuine,
    /// Step 2b: send new data before further retransmissions.
    TryNewData,
    /// Step 3b: data sent before the time-out arrived.
    Spurious,
    /// Not decided by this acknowledgement.
    Undecided,
}

/// One acknowledgement as F-RTO sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrtoEvidence {
    /// SND.UNA advanced.
    pub advanced: bool,
    /// Everything that was outstanding at the time-out is acknowledged.
    pub complete: bool,
    /// It is a duplicate, or a selective acknowledgement reports new arrivals.
    pub duplicate: bool,
    /// A segment arrived that was outstanding at the time-out and sent only once, and the acknowledgement does not come
    /// from the retransmission.
    pub original_arrived: bool,
    /// Selective acknowledgements are in use.
    pub sack: bool,
}

impl Frto {
    /// RFC 5682 section 2.1, with SACK section 3.1.
    pub fn judge(self, evidence: FrtoEvidence) -> FrtoVerdict {
        let FrtoEvidence { advanced, complete, duplicate, original_arrived, sack } = evidence;
        if original_arrived && (sack || self == Self::Second) {
            return FrtoVerdict::Spurious;
        }
        match self {
            // Step 2a: a duplicate, or the retransmission acknowledged everything.
            Self::First if complete || (duplicate && !advanced && !sack) => FrtoVerdict::Genuine,
            Self::First if advanced => FrtoVerdict::TryNewData,
            // Step 3a.
            Self::Second if duplicate => FrtoVerdict::Genuine,
            // Step 3b without SACK: the second acknowledgement advances too.
            Self::Second if advanced && !sack => FrtoVerdict::Spurious,
            _ => FrtoVerdict::Undecided,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: FrtoEvidence = FrtoEvidence {
        advanced: false,
        complete: false,
        duplicate: false,
        original_arrived: false,
        sack: false,
    };

    /// RFC 5682 section 2.1, steps 2 and 3.
    #[test]
    fn two_advances_are_spurious_and_a_duplicate_is_not() {
        let advance = FrtoEvidence { advanced: true, ..NOTHING };
        let duplicate = FrtoEvidence { duplicate: true, ..NOTHING };
        assert_eq!(Frto::First.judge(advance), FrtoVerdict::TryNewData);
        assert_eq!(Frto::Second.judge(advance), FrtoVerdict::Spurious);
        assert_eq!(Frto::First.judge(duplicate), FrtoVerdict::Genuine);
        assert_eq!(Frto::Second.judge(duplicate), FrtoVerdict::Genuine);
        assert_eq!(Frto::First.judge(FrtoEvidence { complete: true, ..advance }), FrtoVerdict::Genuine);
    }

    /// RFC 5682 section 3.1: with SACK only data that was not retransmitted counts.
    #[test]
    fn with_sack_only_originals_count() {
        let advance = FrtoEvidence { advanced: true, sack: true, ..NOTHING };
        assert_eq!(Frto::First.judge(advance), FrtoVerdict::TryNewData);
        assert_eq!(Frto::Second.judge(advance), FrtoVerdict::Undecided);
        assert_eq!(
            Frto::Second.judge(FrtoEvidence { original_arrived: true, ..advance }),
            FrtoVerdict::Spurious
        );
    }
}
