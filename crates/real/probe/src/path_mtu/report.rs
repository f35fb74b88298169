//! What a search for the path's MTU found, in numbers and in a sentence.

use std::net::IpAddr;

use serde::Serialize;

use super::super::icmp_error::IcmpErrors;
use super::super::segments::{Clamped, SegmentEnd, SegmentEnds, clamped, headers};
use super::order::{MtuResponder, PathMtuOrder};
use super::search::{PathMtuPhase, PathMtuSearch, SizeCounts, TooLongReason};
use netrig_host::HostAddress;

/// What was found. All sizes are octets of whole IP packets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathMtuReport {
    /// `mtu`.
    pub probe: &'static str,
    /// The way to whom.
    pub target: HostAddress,
    /// Who answered: `echo` or `far-end`.
    pub answered_by: &'static str,
    /// The numbers can be trusted: this host was not the limit.
    pub valid: bool,
    /// Why they cannot.
    pub faults: Vec<String>,
    /// Somebody ended it before its time.
    pub interrupted: bool,
    /// The longest packet that came through; nothing if none did.
    pub path_mtu: Option<usize>,
    /// What the kernel took the path to carry before.
    pub kernel_mtu: usize,
    /// Where the search ended (RFC 8899 section 5.2).
    pub phase: PathMtuPhase,
    /// The shortest that did not.
    pub refused: TooLongSize,
    /// Longer packets vanish, and nobody says so.
    pub black_hole: bool,
    /// Where, if that was to be found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<BlackHolePlace>,
    /// What became of packets of each size, the shortest first.
    pub sizes: Vec<SizeOutcome>,
    /// What else hosts on the way, and the target, said of packets by ICMP.
    pub icmp_errors: IcmpErrors,
    /// Messages of hosts on the way that cannot be true.
    pub untrue: u32,
    /// The path changed during the search.
    pub unsteady: bool,
    /// TCP's segments, if there was a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segments: Option<SegmentSizes>,
    /// What was found, in a sentence.
    pub found: String,
    /// What else is worth knowing.
    pub notes: Vec<String>,
}

/// A size that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TooLongSize {
    /// The size.
    pub size: usize,
    /// Who says so.
    pub why: TooLongReason,
}

/// Where packets vanish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlackHolePlace {
    /// Behind this hop, the last that answers packets of the size.
    Behind {
        /// Its TTL.
        hop: u8,
        /// Its address.
        address: IpAddr,
    },
    /// No hop answers packets of the size.
    BeforeAnybody,
}

/// What became of packets of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SizeOutcome {
    /// The size.
    pub size: usize,
    /// How often what happened.
    #[serde(flatten)]
    pub tried: SizeCounts,
}

/// TCP's segments between the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SegmentSizes {
    /// What this end knows.
    pub near: SegmentEnd,
    /// What the far end knows, if it is netrig's.
    pub far: Option<SegmentEnd>,
    /// What this end announces was made smaller on its way.
    pub clamped_there: Option<Clamped>,
    /// What the far end announces was made smaller on its way here.
    pub clamped_back: Option<Clamped>,
    /// The longest packet that TCP sends from here.
    pub packet: u32,
    /// The path carries it.
    pub fits: Option<bool>,
}

impl SegmentSizes {
    /// Of both ends, on a path that carries so much.
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

    /// In words, of a path behind which packets vanish or not.
    fn in_words(&self, v4: bool, path_mtu: usize, black_hole: bool) -> String {
        let mut text = String::new();
        let mut arrives = |clamped: Option<Clamped>, whose: &str, place: &str| {
            if let Some(Clamped { announced, received }) = clamped {
                text += &format!(
                    "; the MSS of {announced} B that {whose} announces arrives {place} as {received} B: it is clamped on the way"
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
                text += &format!("; TCP from here sends packets of {packet} B until it is told");
            }
            (None, _) => {}
        }
        let spare = path_mtu.saturating_sub(headers(v4) as usize);
        let received = self.near.received;
        if self.far.is_none() && self.near.exactly && (received as usize) < spare {
            text += &format!(
                "; the far end's MSS arrives as {received} B, less than the path carries ({spare} B): its own link carries less, \
                 or somebody on the way clamps it"
            );
        }
        text
    }
}

/// What a search came to know.
pub struct PathMtuFindings<'a> {
    pub search: &'a PathMtuSearch,
    /// What the kernel took the path to carry before.
    pub kernel: usize,
    pub faults: Vec<String>,
    pub interrupted: bool,
    /// What was said of packets by ICMP, but that they are too long.
    pub icmp_errors: IcmpErrors,
    /// Of a connection, or why there was none.
    pub segments: Option<Result<SegmentEnds, String>>,
    pub place: Option<BlackHolePlace>,
}

impl PathMtuFindings<'_> {
    /// What is told of it.
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
        notes.extend(no_ends.map(|why| format!("how long TCP's segments may be is not known: {why}")));
        notes.extend(limit_note(&order.responder, search));
        if search.untrue() > 0 {
            let messages = search.untrue();
            notes.push(format!(
                "{messages} messages of hosts on the way cannot be true, and were not believed"
            ));
        }
        if search.is_unsteady() {
            notes.push(
                "what came through at first did so no more: the path changed, and the search began anew"
                    .into(),
            );
        }
        if path_mtu.is_some_and(|mtu| mtu < kernel) && !interrupted {
            notes.push(format!("the kernel takes the path to carry {kernel} B"));
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

/// That a target's limit on its ICMP messages, rather than the path, may have kept answers from this search.
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

/// What was found of the path, as the beginning of a sentence.
fn in_words(order: &PathMtuOrder, search: &PathMtuSearch, place: Option<BlackHolePlace>) -> String {
    let target = HostAddress::from(order.target);
    let Some(mtu) = search.confirmed() else {
        let sizes: Vec<_> = search.tried().keys().map(|size| format!("{size} B")).collect();
        return format!("no packet came through to {target} and was answered, of {}", sizes.join(" or "));
    };
    let (size, why) = search.refused();
    let carries = format!("the path to {target} carries packets of {mtu} B");
    match why {
        TooLongReason::Untried => format!("{carries}, and more was not tried"),
        TooLongReason::Here => format!("{carries}, which is what this host's interface carries"),
        TooLongReason::Told { by, .. } if size > mtu + 1 => {
            format!("{carries} at least; {by} says that those of {size} B are too long for its next link")
        }
        TooLongReason::Told { by, mtu: 0 } => {
            format!(
                "{carries}; {by} says that longer ones are too long for its next link, and not how long they may be"
            )
        }
        TooLongReason::Told { by, mtu } => format!("{carries}; {by} says that its next link carries {mtu} B"),
        TooLongReason::Vanished => {
            let tried = search.tried().get(&size).copied().unwrap_or_default();
            let place = match place {
                Some(BlackHolePlace::Behind { hop, address }) => format!(" behind hop {hop}, {address}"),
                Some(BlackHolePlace::BeforeAnybody) => " before the first hop that answers such".into(),
                None => String::new(),
            };
            format!(
                "{carries}; those of {size} B vanish{place}, {} of {}, and nobody says so: a black hole",
                tried.sent - tried.answered.min(tried.sent),
                tried.sent
            )
        }
    }
}
