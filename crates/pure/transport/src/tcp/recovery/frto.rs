//! Forward RTO-recovery (RFC 5682): detects spurious time-outs.

/// The current step of the algorithm after a time-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frto {
    /// Step 2: the first segment has been retransmitted, and its acknowledgement is expected.
    First,
    /// Step 3: two new segments have been sent, and the second acknowledgement is expected.
    Second,
}

/// Conclusion from one acknowledgement about the time-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrtoVerdict {
    /// Steps 2a and 3a: the time-out was not spurious. Retransmit as usual.
    Genuine,
    /// Step 2b: send new data before further retransmissions.
    TryNewData,
    /// Step 3b: data sent before the time-out arrived.
    Spurious,
    /// Not decided by this acknowledgement.
    Undecided,
}

/// Properties of one acknowledgement that F-RTO uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrtoEvidence {
    /// Whether SND.UNA advanced.
    pub advanced: bool,
    /// Whether all data that was outstanding at the time-out is acknowledged.
    pub complete: bool,
    /// Whether the acknowledgement is a duplicate, or reports new arrivals selectively.
    pub duplicate: bool,
    /// Whether it acknowledges a segment that was outstanding at the time-out and sent only once, and was not caused by
    /// the retransmission.
    pub original_arrived: bool,
    /// Whether selective acknowledgements are used.
    pub sack: bool,
}

impl Frto {
    /// RFC 5682 section 2.1; with SACK, section 3.1.
    pub fn judge(self, evidence: FrtoEvidence) -> FrtoVerdict {
        let FrtoEvidence { advanced, complete, duplicate, original_arrived, sack } = evidence;
        if original_arrived && (sack || self == Self::Second) {
            return FrtoVerdict::Spurious;
        }
        match self {
            // Step 2a: a duplicate, or everything is acknowledged, which the retransmission may have caused.
            Self::First if complete || (duplicate && !advanced && !sack) => FrtoVerdict::Genuine,
            Self::First if advanced => FrtoVerdict::TryNewData,
            // Step 3a.
            Self::Second if duplicate => FrtoVerdict::Genuine,
            // Step 3b without SACK: the second acknowledgement advances SND.UNA too.
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

    /// RFC 5682 section 3.1: with SACK, only the arrival of data that was not retransmitted is evidence.
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
