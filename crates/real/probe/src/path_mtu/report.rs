//! The results of a path MTU search, as numbers and as a sentence.

use std::net::IpAddr;

use serde::Serialize;

use super::super::icmp_error::IcmpErrors;
use super::super::segments::{Clamped, SegmentEnd, SegmentEnds, clamped, headers};
use super::order::{MtuResponder, PathMtuOrder};
use super::search::{PathMtuPhase, PathMtuSearch, SizeCounts, TooLongReason};
use netrig_host::HostAddress;

/// Results of a path MTU search. All sizes are octets of whole IP packets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathMtuReport {
    /// Name of the probe: `mtu`.
    pub probe: &'static str,
    /// The target.
    pub target: HostAddress,
    /// How packets were answered: `echo` or `far-end`.
    pub answered_by: &'static str,
    /// Whether the results are valid: this host did not limit the measurement.
    pub valid: bool,
    /// Reasons why the results are not valid.
    pub faults: Vec<String>,
    /// Whether the search was interrupted.
    pub interrupted: bool,
    /// The longest packet that arrived; `None` if none did.
    pub path_mtu: Option<usize>,
    /// The kernel's estimate of the path MTU before the search.
    pub kernel_mtu: usize,
    /// Phase at the end of the search (RFC 8899 section 5.2).
    pub phase: PathMtuPhase,
    /// The smallest size that counts as too long.
    pub refused: TooLongSize,
    /// Whether longer packets vanish without an ICMP error.
    pub black_hole: bool,
    /// The hop after which packets vanish, if it was searched for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<BlackHolePlace>,
    /// Results for each size, in rising order of the size.
    pub sizes: Vec<SizeOutcome>,
    /// ICMP errors about the packets, except those that report a packet as too long.
    pub icmp_errors: IcmpErrors,
    /// Number of ICMP errors that cannot be true.
    pub untrue: u32,
    /// Whether the path changed during the search.
    pub unsteady: bool,
    /// Sizes of TCP segments, if there was a TCP connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segments: Option<SegmentSizes>,
    /// The result as a sentence.
    pub found: String,
    /// Further remarks.
    pub notes: Vec<String>,
}

/// A size that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TooLongSize {
    /// Size of the packets.
    pub size: usize,
    /// The reason.
    pub why: TooLongReason,
}

/// The part of the path in which packets vanish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlackHolePlace {
    /// After this hop, which is the last that answers packets of the size.
    Behind {
        /// TTL of the hop.
        hop: u8,
        /// Address of the hop.
        address: IpAddr,
    },
    /// Before the first hop that could answer: no hop answers packets of the size.
    BeforeAnybody,
}

/// Results for packets of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SizeOutcome {
    /// Size of the packets.
    pub size: usize,
    /// Counts of the outcomes.
    #[serde(flatten)]
    pub tried: SizeCounts,
}

/// Sizes of TCP segments between the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SegmentSizes {
    /// Sizes seen at this end.
    pub near: SegmentEnd,
    /// Sizes seen at the far end, if it is a far end of netrig.
    pub far: Option<SegmentEnd>,
    /// Reduction on the path of the MSS that this end announces; `None` if it was not reduced.
    pub clamped_there: Option<Clamped>,
    /// Reduction on the path of the MSS that the far end announces; `None` if it was not reduced.
    pub clamped_back: Option<Clamped>,
    /// Length of the longest packet that TCP sends from this end, octets of IP.
    pub packet: u32,
    /// Whether the path carries a packet of this length; `None` if the path MTU is not known.
    pub fits: Option<bool>,
}

impl SegmentSizes {
    /// Computes the sizes from those of both ends, on a path with this MTU.
    fn of(ends: &SegmentEnds, v4: bool, path_mtu: Option<usize>) -> Self {
        let SegmentEnds { near, far } = *ends;
        let packet = (near.received + headers(v4)).min(near.path_mtu);
        Self {
            near,
            far,
            clamped_there: far.and_then(|far| clamped(&near, &far)),
            clamped_back: far.and_then(|far| clamped(&far, &near)),
            packet,
            fits: path_mtu.map(|mtu| packet as usize <= mtu),
        }
    }

    /// The part of the result's sentence that describes TCP segments.
    fn in_words(&self, v4: bool, path_mtu: usize, black_hole: bool) -> String {
        let mut text = String::new();
        let mut arrives = |clamped: Option<Clamped>, whose: &str, place: &str| {
            if let Some(Clamped { announced, received }) = clamped {
                text += &format!(
                    "; the MSS of {announced} B that {whose} announces arrives {place} as {received} B: it is clamped on the path"
                );
            }
        };
        arrives(self.clamped_there, "this end", "there");
        arrives(self.clamped_back, "the far end", "here");
        let packet = self.packet;
        match (self.fits, black_hole) {
            (Some(true), _) if text.is_empty() => text += "; TCP's packets fit it",
            (Some(true), _) => text += ", and TCP's packets fit the path",
            (Some(false), true) => {
                let most = path_mtu.saturating_sub(headers(v4) as usize);
                text += &format!(
                    "; TCP from here sends packets of {packet} B, which vanish, and its connections stall: let ICMP through, or \
                     clamp the MSS to {most} B"
                );
            }
            (Some(false), false) => {
                text += &format!(
                    "; TCP from here sends packets of {packet} B until an ICMP message reports the MTU"
                );
            }
            (None, _) => {}
        }
        let spare = path_mtu.saturating_sub(headers(v4) as usize);
        let received = self.near.received;
        if self.far.is_none() && self.near.exactly && (received as usize) < spare {
            text += &format!(
                "; the far end's MSS arrives as {received} B, less than the path carries ({spare} B): its own link carries less, \
                 or a router on the path clamps it"
            );
        }
        text
    }
}

/// The results of a search, from which its report is built.
pub struct PathMtuFindings<'a> {
    pub search: &'a PathMtuSearch,
    /// The kernel's estimate of the path MTU before the search.
    pub kernel: usize,
    pub faults: Vec<String>,
    pub interrupted: bool,
    /// ICMP errors about the packets, except those that report a packet as too long.
    pub icmp_errors: IcmpErrors,
    /// Segment sizes of a connection, or why there was none.
    pub segments: Option<Result<SegmentEnds, String>>,
    pub place: Option<BlackHolePlace>,
}

impl PathMtuFindings<'_> {
    /// Builds the report.
    pub fn report(self, order: &PathMtuOrder) -> PathMtuReport {
        let Self { search, kernel, faults, interrupted, icmp_errors, segments, place } = self;
        let (v4, path_mtu) = (order.target.is_ipv4(), search.confirmed());
        let (size, why) = search.refused();
        let black_hole = path_mtu.is_some() && why == TooLongReason::Vanished;
        let (ends, no_ends) = match segments {
            Some(Ok(ends)) => (Some(SegmentSizes::of(&ends, v4, path_mtu)), None),
            Some(Err(why)) => (None, Some(why)),
            None => (None, None),
        };
        let mut found = in_words(order, search, place);
        if let (Some(ends), Some(mtu)) = (&ends, path_mtu) {
            found += &ends.in_words(v4, mtu, black_hole);
        }
        let sizes = search.tried().iter().map(|(size, tried)| SizeOutcome { size: *size, tried: *tried });
        let mut notes = icmp_errors.sentences();
        notes.extend(no_ends.map(|why| format!("the sizes of TCP segments are not known: {why}")));
        notes.extend(limit_note(&order.responder, search));
        if search.untrue() > 0 {
            let messages = search.untrue();
            notes.push(format!("{messages} ICMP messages cannot be true and were ignored"));
        }
        if search.is_unsteady() {
            notes.push(
                "packets of a size that had arrived were lost later: the path changed, and the search was restarted"
                    .into(),
            );
        }
        if path_mtu.is_some_and(|mtu| mtu < kernel) && !interrupted {
            notes.push(format!("the kernel's estimate of the path MTU is {kernel} B"));
        }
        PathMtuReport {
            probe: "mtu",
            target: order.target.into(),
            answered_by: if matches!(order.responder, MtuResponder::Echo(_)) { "echo" } else { "far-end" },
            valid: faults.is_empty(),
            faults,
            interrupted,
            path_mtu,
            kernel_mtu: kernel,
            phase: search.phase(),
            refused: TooLongSize { size, why },
            black_hole,
            place,
            sizes: sizes.collect(),
            icmp_errors,
            untrue: search.untrue(),
            unsteady: search.is_unsteady(),
            segments: ends,
            found,
            notes,
        }
    }
}

/// A note that answers may be missing because the target limits its ICMP messages, not because of the path. `None` if
/// no such answers are missing.
pub(super) fn limit_note(responder: &MtuResponder, search: &PathMtuSearch) -> Option<String> {
    if !matches!(responder, MtuResponder::Echo(_)) {
        return None;
    }
    let is_partial = |tried: &SizeCounts| (1..tried.sent).contains(&tried.answered);
    let has_vanished = search.confirmed().is_some() && search.refused().1 == TooLongReason::Vanished;
    (has_vanished || search.tried().values().any(is_partial)).then(|| {
        "echo requests stayed without an answer: a target that limits its ICMP messages looks like this, too (of Linux: \
         net.ipv4.icmp_ratelimit and icmp_msgs_per_sec; of routers: often 1 or 100 per second). More packets of each size (--probes) \
         outlast it, and with --far-end `netrig probe reflect` answers there, which has no such limit"
            .to_owned()
    })
}

/// The first part of the result's sentence, which states the path MTU.
fn in_words(order: &PathMtuOrder, search: &PathMtuSearch, place: Option<BlackHolePlace>) -> String {
    let target = HostAddress::from(order.target);
    let Some(mtu) = search.confirmed() else {
        let sizes: Vec<_> = search.tried().keys().map(|size| format!("{size} B")).collect();
        return format!("no packet to {target} was answered, of {}", sizes.join(" or "));
    };
    let (size, why) = search.refused();
    let carries = format!("the path to {target} carries packets of {mtu} B");
    match why {
        TooLongReason::Untried => format!("{carries}, and longer packets were not tried"),
        TooLongReason::Here => format!("{carries}, which is what this host's interface carries"),
        TooLongReason::Told { by, .. } if size > mtu + 1 => {
            format!("{carries} at least; {by} reports that those of {size} B are too long for its next link")
        }
        TooLongReason::Told { by, mtu: 0 } => {
            format!(
                "{carries}; {by} reports that longer ones are too long for its next link, without its MTU"
            )
        }
        TooLongReason::Told { by, mtu } => {
            format!("{carries}; {by} reports that its next link carries {mtu} B")
        }
        TooLongReason::Vanished => {
            let tried = search.tried().get(&size).copied().unwrap_or_default();
            let place = match place {
                Some(BlackHolePlace::Behind { hop, address }) => format!(" behind hop {hop}, {address}"),
                Some(BlackHolePlace::BeforeAnybody) => {
                    " before the first hop that answers packets of this size".into()
                }
                None => String::new(),
            };
            format!(
                "{carries}; those of {size} B vanish{place}, {} of {}, without an ICMP error: a black hole",
                tried.sent - tried.answered.min(tried.sent),
                tried.sent
            )
        }
    }
}
