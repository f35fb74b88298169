//! Classes of packets and their per-hop behaviours.

use std::borrow::Cow;
use std::net::IpAddr;

use netrig_core::{Dscp, Fraction, Header, Rate, Size, named};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::buffer::QueueLimit;
use super::context::QueueContext;
use super::discipline::Queue;
use super::fifo::Fifo;
use super::red::Thresholds;
use super::wred::{DropCurve, Wred};
use crate::SettingsError;
use crate::conditioning::{DscpSet, Match};
use crate::error::{check_name, ensure};

/// Largest number of classes of a line.
const MOST: usize = 64;

/// A class of packets on a line. A packet belongs to the first class that matches, or else to the last class.
///
/// A discipline ignores the fields that it does not need: in a `fifo` all classes wait together and only have separate
/// counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Class {
    /// Its per-hop behaviour. It gives the defaults for the name, the code points and the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phb: Option<Phb>,
    /// Its name in responses and traces, up to 64 letters, digits, `_` and `-`. The name of the behaviour if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its packets. The code points of the behaviour if not given. The last class takes all other packets and has no `match`.
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    pub matches: Option<Match>,
    /// Its reserved rate, framing included. Classes without a reservation share the unreserved rate evenly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserve: Option<Rate>,
    /// For `class-wfq`: whether it is sent before all classes without low latency, and is policed to its reservation.
    /// If not given, true for the behaviour `ef` and false for all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low_latency: Option<bool>,
    /// For a class of low latency: the burst that may exceed its reservation. 200 ms of its reservation if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<Size>,
    /// Its queue: any discipline that does not schedule classes. If not given, the queue of the behaviour, or else a `fifo` with
    /// the room that the line's `queue` gives each class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
}

named! {
    /// A per-hop behaviour.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    pub enum Phb {
        /// Expedited forwarding (RFC 3246): low delay, low loss, at an assured rate.
        Ef = "ef",
        /// Assured forwarding, class 1 (RFC 2597), with three drop precedences.
        Af1 = "af1",
        /// Assured forwarding, class 2.
        Af2 = "af2",
        /// Assured forwarding, class 3.
        Af3 = "af3",
        /// Assured forwarding, class 4.
        Af4 = "af4",
        /// Class selector 1 (RFC 2474 section 4.2.2).
        Cs1 = "cs1",
        /// Class selector 2.
        Cs2 = "cs2",
        /// Class selector 3.
        Cs3 = "cs3",
        /// Class selector 4.
        Cs4 = "cs4",
        /// Class selector 5.
        Cs5 = "cs5",
        /// Class selector 6.
        Cs6 = "cs6",
        /// Class selector 7.
        Cs7 = "cs7",
        /// Best effort, the default (RFC 2474 section 4.1).
        Be = "be",
    }
}

impl Phb {
    /// The number of the assured-forwarding class, 1 to 4. `None` for other behaviours.
    const fn af(self) -> Option<u8> {
        match self {
            Self::Af1 => Some(1),
            Self::Af2 => Some(2),
            Self::Af3 => Some(3),
            Self::Af4 => Some(4),
            _ => None,
        }
    }

    /// The recommended code points of the behaviour.
    pub fn code_points(self) -> DscpSet {
        let cs = |precedence| DscpSet::from_iter([Dscp::cs(precedence)]);
        match self {
            Self::Ef => DscpSet::from_iter([Dscp::EF]),
            Self::Be => DscpSet::from_iter([Dscp::BE]),
            Self::Cs1 => cs(1),
            Self::Cs2 => cs(2),
            Self::Cs3 => cs(3),
            Self::Cs4 => cs(4),
            Self::Cs5 => cs(5),
            Self::Cs6 => cs(6),
            Self::Cs7 => cs(7),
            Self::Af1 | Self::Af2 | Self::Af3 | Self::Af4 => {
                let class = self.af().unwrap_or(1);
                (1..=3).map(|precedence| Dscp::af(class, precedence)).collect()
            }
        }
    }

    /// The default queue of a class with this behaviour: a FIFO of 64 packets, or WRED for assured forwarding. The
    /// numbers are the defaults of routers (Cisco IOS).
    fn queue(self) -> Queue {
        let Some(class) = self.af() else {
            return Queue::Fifo(Fifo { packets: Some(64), ..Fifo::default() });
        };
        let max_p = Fraction::new(0.1).unwrap_or_default();
        let curve = |precedence: Option<u8>, min: f64| DropCurve {
            dscp: precedence.map(|precedence| DscpSet::from_iter([Dscp::af(class, precedence)])),
            thresholds: Thresholds::Packets { min, max: 40.0 },
            max_p,
        };
        Queue::Wred(Wred {
            packets: Some(64),
            bytes: None,
            curves: vec![curve(Some(3), 24.0), curve(Some(2), 28.0), curve(None, 33.0)],
            weight: 1.0 / 512.0,
            gentle: false,
            ecn: false,
            mean_packet: Size::from_bytes(500),
        })
    }
}

impl Class {
    /// A class of this name for these packets. Without `matches` the class takes all remaining packets.
    pub fn new(name: &str, matches: Option<Match>) -> Self {
        Self { name: Some(name.to_owned()), matches, ..Self::default() }
    }

    /// The name of the class; if it has none, the name of its behaviour.
    pub fn name(&self) -> &str {
        self.name.as_deref().or(self.phb.map(Phb::name)).unwrap_or_default()
    }

    /// The packets of the class. Ignored for the last class, which takes all remaining packets.
    pub fn matches(&self) -> Option<Cow<'_, Match>> {
        let of_phb = || self.phb.map(|phb| Cow::Owned(Match::dscp(phb.code_points().iter())));
        self.matches.as_ref().map(Cow::Borrowed).or_else(of_phb)
    }

    /// Whether the class is served first and is policed to its reservation.
    pub(crate) fn is_low_latency(&self) -> bool {
        self.low_latency.unwrap_or(self.phb == Some(Phb::Ef))
    }

    /// The bucket depth of the policer of a low-latency class.
    pub(crate) fn burst(&self) -> Size {
        let fifth = self.reserve.map_or(0, |reserve| reserve.bits_per_s() / 8 / 5);
        self.burst.unwrap_or(Size::from_bytes(fifth))
    }

    /// The queue of the class. `room` is the default for a class that has neither a queue nor a behaviour.
    pub(crate) fn queue(&self, room: &PerClass) -> Queue {
        let of_room = || Queue::Fifo(Fifo { packets: room.packets, bytes: room.bytes, ..Fifo::default() });
        self.queue.clone().or(self.phb.map(Phb::queue)).unwrap_or_else(of_room)
    }

    fn check(&self) -> Result<(), SettingsError> {
        let name = self.name();
        ensure(!name.is_empty(), "name", "or `phb` must be given")?;
        check_name(name)?;
        if let Some(matches) = &self.matches {
            matches.check().map_err(|e| e.within("match"))?;
        }
        ensure(self.reserve.is_none_or(|rate| rate.bits_per_s() > 0), "reserve", "must be above zero")?;
        ensure(self.burst != Some(Size::default()), "burst", "must be above zero")?;
        let Some(queue) = &self.queue else { return Ok(()) };
        ensure(!queue.is_of_classes(), "queue", "must not schedule classes: it is inside a class")?;
        queue.check().map_err(|e| e.within("queue"))
    }
}

/// Checks the classes of a line of this rate. Together they may reserve at most the share `reservable` of the rate.
///
/// # Errors
/// If a field is out of range. The error names it by its path within the line.
pub(crate) fn check(classes: &[Class], rate: Rate, reservable: Fraction) -> Result<(), SettingsError> {
    ensure(classes.len() <= MOST, "classes", "must be at most 64")?;
    for (n, class) in classes.iter().enumerate() {
        let within = |e: SettingsError| e.within(&format!("classes.{n}"));
        class.check().map_err(within)?;
        let named_before = classes[..n].iter().any(|other| other.name() == class.name());
        ensure(!named_before, "name", "must not be that of another class").map_err(within)?;
        if n + 1 == classes.len() {
            let why = "must not be given in the last class, which takes all other packets";
            ensure(class.matches.is_none(), "match", why).map_err(within)?;
        } else {
            let why = "or `phb` must be given: only the last class takes all other packets";
            ensure(class.matches().is_some(), "match", why).map_err(within)?;
        }
    }
    check_reservations(classes, rate, reservable)
}

/// Checks a vendor's limit: the reservations may take only the share `reservable` of the line. The limit does not apply
/// to use.
fn check_reservations(classes: &[Class], rate: Rate, reservable: Fraction) -> Result<(), SettingsError> {
    let sum =
        classes.iter().filter_map(|class| class.reserve).map(Rate::bits_per_s).fold(0, u64::saturating_add);
    let most = (rate.bits_per_s() as f64 * reservable.get()).floor();
    if sum as f64 <= most {
        return Ok(());
    }
    let (sum, most) = (Rate::from_bits_per_s(sum), Rate::from_bits_per_s(most as u64));
    let why = format!("reserve {sum} together, more than {most}, {reservable} of {rate} (`reservable`)");
    Err(SettingsError::new("classes", why))
}

/// Replaces the names of nodes in classes by their addresses.
pub(crate) fn resolve(
    classes: &mut [Class],
    addresses: &impl Fn(&str) -> Vec<IpAddr>,
) -> Result<(), SettingsError> {
    for (n, class) in classes.iter_mut().enumerate() {
        let Some(matches) = &mut class.matches else { continue };
        matches.resolve(addresses).map_err(|e| e.within(&format!("classes.{n}.match")))?;
    }
    Ok(())
}

/// Fails if a class still names a node.
pub(crate) fn check_resolved(classes: &[Class]) -> Result<(), SettingsError> {
    for (n, class) in classes.iter().enumerate() {
        let Some(matches) = &class.matches else { continue };
        matches.check_resolved().map_err(|e| e.within(&format!("classes.{n}.match")))?;
    }
    Ok(())
}

/// The rate of each class while all classes are backlogged, bit/s: its reservation, or an equal part of the unreserved
/// rate. Zero for `exempt` classes.
pub(crate) fn shares(classes: &[Class], rate: Rate, exempt: impl Fn(&Class) -> bool) -> Vec<u64> {
    let reserved: u64 = classes.iter().filter_map(|class| class.reserve).map(Rate::bits_per_s).sum();
    let sharing = classes.iter().filter(|class| class.reserve.is_none() && !exempt(class)).count() as u64;
    let even = rate.bits_per_s().saturating_sub(reserved) / sharing.max(1);
    let share = |class: &Class| match class.reserve {
        _ if exempt(class) => 0,
        Some(reserve) => reserve.bits_per_s(),
        None => even,
    };
    classes.iter().map(share).collect()
}

/// Fails if the rate of a class without a reservation would be zero.
pub(crate) fn check_shares(
    classes: &[Class],
    rate: Rate,
    exempt: impl Fn(&Class) -> bool,
) -> Result<(), SettingsError> {
    let shares = shares(classes, rate, &exempt);
    let starved = |(class, share): (&Class, u64)| share == 0 && !exempt(class);
    let Some(n) = classes.iter().zip(shares).position(starved) else { return Ok(()) };
    let why = "must be given: the other classes reserve all of the line";
    Err(SettingsError::new("reserve", why).within(&format!("classes.{n}")))
}

/// A line and its classes, as a discipline that schedules classes sees them.
#[derive(Clone, Debug)]
pub struct ClassContext<'a> {
    line: QueueContext<'a>,
    classes: &'a [Class],
}

impl<'a> ClassContext<'a> {
    /// The context of a line with these classes, which must have passed the line's check.
    pub fn new(line: QueueContext<'a>, classes: &'a [Class]) -> Self {
        Self { line, classes }
    }

    /// The line, without its classes.
    pub fn line(&self) -> &QueueContext<'a> {
        &self.line
    }

    /// The line's classes.
    pub fn classes(&self) -> &'a [Class] {
        self.classes
    }

    /// One of the line's classes, and the context of its queue.
    pub(super) fn of_class(&self, number: usize) -> (&'a Class, Self) {
        let class = &self.classes[number];
        (class, Self::new(self.line.of_class(class.name()), &[]))
    }
}

impl<'a> AsRef<QueueContext<'a>> for ClassContext<'a> {
    fn as_ref(&self) -> &QueueContext<'a> {
        &self.line
    }
}

impl AsRef<Self> for ClassContext<'_> {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// The default room of each class in a discipline of classes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PerClass {
    /// Largest number of waiting packets in each class without a `queue` of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// Largest number of waiting bytes of IP packets in each class without a `queue` of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Size>,
}

impl PerClass {
    /// Checks the limits.
    ///
    /// # Errors
    /// If a field is out of range. The error names it.
    pub fn check(&self) -> Result<(), SettingsError> {
        QueueLimit::check(self.packets, self.bytes)
    }
}

/// Finds the class of a packet.
#[derive(Clone, Debug)]
pub struct Classifier(Box<Matches>);

#[derive(Clone, Debug)]
struct Matches {
    /// The classifiers of all classes but the last.
    several: Vec<Match>,
    /// The class of each code point, if all classifiers look only at code points.
    by_dscp: Option<[u8; 64]>,
}

impl Classifier {
    /// A classifier for these classes, which must have passed the line's check. Without classes all packets have class 0.
    pub fn new(classes: &[Class]) -> Self {
        let before_last = classes.len().saturating_sub(1);
        let matches = |class: &Class| class.matches().map(Cow::into_owned).unwrap_or_default();
        let several: Vec<Match> = classes[..before_last].iter().map(matches).collect();
        let sets: Option<Vec<DscpSet>> = several.iter().map(Match::only_dscp).collect();
        let class_of = |sets: &[DscpSet], dscp: Dscp| {
            // At most 64 classes.
            sets.iter().position(|set| set.contains(dscp)).unwrap_or(before_last) as u8
        };
        let table = |sets: Vec<DscpSet>| std::array::from_fn(|value| class_of(&sets, Dscp(value as u8)));
        Self(Box::new(Matches { several, by_dscp: sets.map(table) }))
    }

    /// The index of the packet's class.
    #[inline]
    pub fn class_of(&self, header: &Header) -> usize {
        match &self.0.by_dscp {
            Some(table) => usize::from(table[usize::from(header.dscp.0 & 63)]),
            None => {
                let several = &self.0.several;
                several.iter().position(|matches| matches.holds(header)).unwrap_or(several.len())
            }
        }
    }
}
