//! Meters compare a stream with its profile: a token bucket, the single-rate three-colour marker (RFC 2697) and the two-rate
//! three-colour marker (RFC 2698).
//!
//! Tokens are counted exactly, in billionths of a bit: a bucket that is filled at *r* bit/s gains *r* tokens per
//! nanosecond. In any time *t* at most *r*·*t* + *burst* bits pass.

use netrig_core::{Colour, Dscp, Duration, Header, Instant, Rate, Size};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ensure;
use crate::{Framing, SettingsError};

/// Tokens per byte: bits per byte times nanoseconds per second.
const PER_BYTE: u64 = 8_000_000_000;

/// The deepest bucket, 2 GB. Its number of tokens fits into 64 bits.
const DEEPEST: Size = Size::from_bytes(2_000_000_000);

/// A token bucket. It is filled at a rate, and each packet takes tokens in proportion to its length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    bits_per_s: u64,
    /// The largest number of tokens, billionths of a bit.
    depth: u64,
    tokens: u64,
    /// Time of the last refill.
    at: Instant,
}

impl TokenBucket {
    /// A full bucket at the start of the run. `burst` is at most 2 GB.
    pub fn new(rate: Rate, burst: Size) -> Self {
        let depth = burst.bytes().min(DEEPEST.bytes()) * PER_BYTE;
        Self { bits_per_s: rate.bits_per_s(), depth, tokens: depth, at: Instant::ZERO }
    }

    /// Adds the tokens gained up to `now`, and returns the tokens that exceed the depth.
    #[inline]
    fn fill(&mut self, now: Instant) -> u64 {
        let gained = self.bits_per_s.saturating_mul(now.since(self.at).as_nanos());
        self.at = now;
        let room = self.depth - self.tokens;
        if gained <= room {
            self.tokens += gained;
            0
        } else {
            self.tokens = self.depth;
            gained - room
        }
    }

    /// Adds tokens up to the depth.
    #[inline]
    fn pour(&mut self, tokens: u64) {
        self.tokens = self.depth.min(self.tokens.saturating_add(tokens));
    }

    #[inline]
    fn holds(&self, bytes: u64) -> bool {
        self.tokens >= bytes.saturating_mul(PER_BYTE)
    }

    #[inline]
    fn take(&mut self, bytes: u64) {
        self.tokens -= bytes * PER_BYTE;
    }

    /// Whether `bytes` are in profile at `now`. If so, takes their tokens.
    #[inline]
    pub fn pass(&mut self, now: Instant, bytes: u64) -> bool {
        self.fill(now);
        let passes = self.holds(bytes);
        if passes {
            self.take(bytes);
        }
        passes
    }

    /// The first moment, not before `now`, at which `bytes` are in profile if no other packet passes before.
    /// [`Instant::NEVER`] if they exceed the depth of the bucket.
    pub fn ready(&mut self, now: Instant, bytes: u64) -> Instant {
        self.fill(now);
        let wanted = bytes.saturating_mul(PER_BYTE);
        if wanted > self.depth || self.bits_per_s == 0 && wanted > self.tokens {
            return Instant::NEVER;
        }
        let short = wanted.saturating_sub(self.tokens);
        now + Duration::from_nanos(short.div_ceil(self.bits_per_s.max(1)))
    }
}

/// Which length of a packet is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// The IP packet, as in RFC 2697 and RFC 2698.
    #[default]
    Ip,
    /// The IP packet with the framing of the line.
    Line,
}

impl Layer {
    /// Bytes that a meter counts for a packet in front of a line of this framing.
    #[inline]
    pub fn bytes(self, header: &Header, framing: Framing) -> u64 {
        match self {
            Self::Ip => u64::from(header.ip_len),
            Self::Line => framing.line_bytes(header.ip_len),
        }
    }

    /// Whether it is the default.
    pub(crate) fn is_ip(&self) -> bool {
        *self == Self::Ip
    }
}

/// A meter as an experiment file describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(extend("x-tag" = "kind"))]
pub enum Meter {
    /// A token bucket: packets in profile are green, all others red.
    TokenBucket(Bucket),
    /// Single rate, three colours (RFC 2697).
    Srtcm(Srtcm),
    /// Two rates, three colours (RFC 2698).
    Trtcm(Trtcm),
}

/// A token bucket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bucket {
    /// The rate of the profile, above zero.
    pub rate: Rate,
    /// The burst that may pass at once after a pause, above zero and at most 2 GB. A longer packet never passes.
    pub burst: Size,
}

/// The single-rate three-colour marker (RFC 2697).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Srtcm {
    /// Committed information rate, above zero.
    pub cir: Rate,
    /// Committed burst size: the burst that is green after a pause.
    pub cbs: Size,
    /// Excess burst size: the further burst that is yellow. At least one of the two sizes is above zero.
    pub ebs: Size,
    /// Whether the meter is colour-aware: a packet that arrives with drop precedence 2 (yellow) or 3 (red) of assured
    /// forwarding gets no better colour. Colour-blind if not given.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub colour_aware: bool,
}

/// The two-rate three-colour marker (RFC 2698).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trtcm {
    /// Committed information rate, above zero.
    pub cir: Rate,
    /// Committed burst size, above zero: the burst that is green after a pause.
    pub cbs: Size,
    /// Peak information rate, not below the committed one.
    pub pir: Rate,
    /// Peak burst size, above zero: the burst that is not red after a pause.
    pub pbs: Size,
    /// Whether the meter is colour-aware: a packet that arrives with drop precedence 2 (yellow) or 3 (red) of assured
    /// forwarding gets no better colour. Colour-blind if not given.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub colour_aware: bool,
}

impl Meter {
    /// Checks the settings.
    ///
    /// # Errors
    /// If a field is out of range. The error names it.
    pub fn check(&self) -> Result<(), SettingsError> {
        let rate = |field, rate: Rate| ensure(rate.bits_per_s() > 0, field, "must be above zero");
        let depth = |field, size: Size| ensure(size <= DEEPEST, field, "must be at most 2 GB");
        let burst = |field, size: Size| {
            ensure(size > Size::default(), field, "must be above zero: no packet fits into an empty bucket")?;
            depth(field, size)
        };
        match self {
            Self::TokenBucket(bucket) => {
                rate("rate", bucket.rate)?;
                burst("burst", bucket.burst)
            }
            Self::Srtcm(srtcm) => {
                rate("cir", srtcm.cir)?;
                depth("cbs", srtcm.cbs)?;
                depth("ebs", srtcm.ebs)?;
                // RFC 2697 section 2: at least one of CBS and EBS is larger than 0.
                let some = srtcm.cbs > Size::default() || srtcm.ebs > Size::default();
                ensure(some, "cbs", "or `ebs` must be above zero")
            }
            Self::Trtcm(trtcm) => {
                rate("cir", trtcm.cir)?;
                burst("cbs", trtcm.cbs)?;
                burst("pbs", trtcm.pbs)?;
                // RFC 2698 section 2: PIR is equal to or greater than CIR.
                ensure(trtcm.pir >= trtcm.cir, "pir", "must not be below `cir`")
            }
        }
    }

    /// The possible colours of a packet of `bytes`.
    pub(crate) fn colours(&self, bytes: u64) -> impl Iterator<Item = Colour> {
        let fits = |depth: &Size| bytes <= depth.bytes();
        let (green, yellow) = match self {
            Self::TokenBucket(Bucket { burst, .. }) => (fits(burst), false),
            Self::Srtcm(Srtcm { cbs, ebs, .. }) => (fits(cbs), fits(ebs)),
            Self::Trtcm(Trtcm { cbs, pbs, .. }) => (fits(cbs) && fits(pbs), fits(pbs)),
        };
        let found = [(Colour::Green, green), (Colour::Yellow, yellow), (Colour::Red, true)];
        found.into_iter().filter(|(_, can)| *can).map(|(colour, _)| colour)
    }

    /// The field of the bucket that is too shallow for `bytes`, the depth of the bucket, and the effect on such
    /// packets. If several buckets are too shallow, the one with the strongest effect. A bucket of depth zero is
    /// allowed and is skipped.
    pub(crate) fn shallow(&self, bytes: u64) -> Option<(&'static str, Size, Shortfall)> {
        let short = |depth: Size| bytes > depth.bytes();
        let found = match *self {
            Self::TokenBucket(Bucket { burst, .. }) if short(burst) => ("burst", burst, Shortfall::Red),
            Self::Srtcm(Srtcm { cbs, ebs, .. }) if short(cbs.max(ebs)) => {
                (if cbs < ebs { "ebs" } else { "cbs" }, cbs.max(ebs), Shortfall::Red)
            }
            Self::Srtcm(Srtcm { cbs, .. }) if short(cbs) && cbs > Size::default() => {
                ("cbs", cbs, Shortfall::NeverGreen)
            }
            Self::Srtcm(Srtcm { ebs, .. }) if short(ebs) && ebs > Size::default() => {
                ("ebs", ebs, Shortfall::NeverYellow)
            }
            Self::Trtcm(Trtcm { pbs, .. }) if short(pbs) => ("pbs", pbs, Shortfall::Red),
            Self::Trtcm(Trtcm { cbs, .. }) if short(cbs) => ("cbs", cbs, Shortfall::NeverGreen),
            _ => return None,
        };
        Some(found)
    }

    /// Whether the meter distinguishes yellow from red.
    pub(crate) const fn has_yellow(&self) -> bool {
        !matches!(self, Self::TokenBucket(_))
    }
}

/// The effect on packets for which a bucket is too shallow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortfall {
    /// No such packet is green.
    NeverGreen,
    /// No such packet is yellow.
    NeverYellow,
    /// All such packets are red.
    Red,
    /// All such packets are dropped.
    Dropped,
}

/// The state of a meter.
#[derive(Clone, Debug)]
pub struct Metering {
    buckets: Buckets,
    colour_aware: bool,
}

#[derive(Clone, Debug)]
enum Buckets {
    One(TokenBucket),
    /// Tc and Te of RFC 2697. Te gets the tokens that do not fit into Tc.
    Single {
        committed: TokenBucket,
        excess: TokenBucket,
    },
    /// Tc and Tp of RFC 2698.
    Two {
        committed: TokenBucket,
        peak: TokenBucket,
    },
}

impl Metering {
    /// A meter with full buckets. `settings` must have passed [`Meter::check`].
    pub fn new(settings: &Meter) -> Self {
        match settings {
            Meter::TokenBucket(Bucket { rate, burst }) => {
                Self { buckets: Buckets::One(TokenBucket::new(*rate, *burst)), colour_aware: false }
            }
            Meter::Srtcm(Srtcm { cir, cbs, ebs, colour_aware }) => {
                let committed = TokenBucket::new(*cir, *cbs);
                // The excess bucket has no rate of its own: it gets the tokens that do not fit into the committed
                // bucket.
                let excess = TokenBucket::new(Rate::from_bits_per_s(0), *ebs);
                Self { buckets: Buckets::Single { committed, excess }, colour_aware: *colour_aware }
            }
            Meter::Trtcm(Trtcm { cir, cbs, pir, pbs, colour_aware }) => {
                let (committed, peak) = (TokenBucket::new(*cir, *cbs), TokenBucket::new(*pir, *pbs));
                Self { buckets: Buckets::Two { committed, peak }, colour_aware: *colour_aware }
            }
        }
    }

    /// The colour of a packet of `bytes` that arrives at `now` with this code point.
    #[inline]
    pub fn colour(&mut self, now: Instant, bytes: u64, dscp: Dscp) -> Colour {
        let before = if self.colour_aware { precoloured(dscp) } else { Colour::Green };
        match &mut self.buckets {
            Buckets::One(bucket) => {
                if bucket.pass(now, bytes) {
                    Colour::Green
                } else {
                    Colour::Red
                }
            }
            Buckets::Single { committed, excess } => {
                // RFC 2697 section 3: if Tc is less than CBS, Tc is incremented, else if Te is less than EBS, Te is
                // incremented.
                let beyond = committed.fill(now);
                excess.pour(beyond);
                if before == Colour::Green && committed.holds(bytes) {
                    committed.take(bytes);
                    Colour::Green
                } else if before <= Colour::Yellow && excess.holds(bytes) {
                    excess.take(bytes);
                    Colour::Yellow
                } else {
                    Colour::Red
                }
            }
            Buckets::Two { committed, peak } => {
                committed.fill(now);
                peak.fill(now);
                // RFC 2698 section 3: a packet above the peak rate is red. A yellow packet takes tokens from Tp only, a
                // green packet from both.
                if before == Colour::Red || !peak.holds(bytes) {
                    return Colour::Red;
                }
                peak.take(bytes);
                if before == Colour::Yellow || !committed.holds(bytes) {
                    return Colour::Yellow;
                }
                committed.take(bytes);
                Colour::Green
            }
        }
    }
}

/// The colour of an arriving packet, from the drop precedence of assured forwarding (RFC 2597 section 2). Other packets are
/// green.
fn precoloured(dscp: Dscp) -> Colour {
    match dscp.as_af() {
        Some((_, 2)) => Colour::Yellow,
        Some((_, 3)) => Colour::Red,
        _ => Colour::Green,
    }
}
