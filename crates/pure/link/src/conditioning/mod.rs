//! Traffic conditioning at the edge of a DiffServ domain (RFC 2475 section 2.3). Classifiers select packets, meters compare a
//! stream with its profile, markers set the code point, and policers drop packets. (Shapers delay packets instead. They are
//! queues: [`queue::shaped`](crate::queue::shaped).)
//!
//! The conditioner sees only the headers of packets, so the same rules serve simulated packets and real frames.
//!
//! Start from [`Condition`], which an experiment file describes, and [`Conditioner`], which applies the rules.

mod matching;
mod meter;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use netrig_core::{
    Colour, DropReason, Dscp, Header, Instant, Observer, PacketMeta, written, written_as_text,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{check_name, ensure};
use crate::{Framing, PacketTally, SettingsError};

pub use matching::{DscpSet, Hosts, IpProtocol, Match, NumberError, Ports};
pub use meter::{Bucket, Layer, Meter, Metering, Shortfall, Srtcm, TokenBucket, Trtcm};

/// A rule of a traffic conditioner. The first rule of a line that matches a packet applies. If none matches, the packet passes
/// unchanged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// Its name in responses and traces, up to 64 letters, digits, `_` and `-`. Its number, from 1, if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The packets to which it applies. If not given, all packets that no earlier rule matches.
    #[serde(default, rename = "match", skip_serializing_if = "is_default")]
    pub matches: Match,
    /// The meter of their stream. If not given, all packets are green.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meter: Option<Meter>,
    /// Which length of a packet the meter counts. The IP packet if not given.
    #[serde(default, skip_serializing_if = "Layer::is_ip")]
    pub layer: Layer,
    /// The action for green packets: `pass`, `drop`, or the code point to set (`ef`). `pass` if not given.
    #[serde(default, skip_serializing_if = "is_default")]
    pub green: ConditionAction,
    /// The action for yellow packets, if the meter has yellow. The action for green packets if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yellow: Option<ConditionAction>,
    /// The action for red packets. `drop` if not given.
    #[serde(default = "dropped", skip_serializing_if = "is_dropped")]
    pub red: ConditionAction,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn dropped() -> ConditionAction {
    ConditionAction::Drop
}

fn is_dropped(action: &ConditionAction) -> bool {
    *action == ConditionAction::Drop
}

impl Condition {
    /// A rule that sets this code point in these packets.
    pub fn mark(matches: Match, dscp: Dscp) -> Self {
        let green = ConditionAction::Mark(dscp);
        Self {
            name: None,
            matches,
            meter: None,
            layer: Layer::Ip,
            green,
            yellow: None,
            red: ConditionAction::Drop,
        }
    }

    /// The name of the rule; if it has none, its number from 1. `place` is its index among the rules, from 0.
    pub fn name(&self, place: usize) -> Cow<'_, str> {
        self.name.as_deref().map_or_else(|| (place + 1).to_string().into(), Cow::Borrowed)
    }

    /// Checks the rule.
    ///
    /// # Errors
    /// If a field is out of range. The error names it.
    pub fn check(&self) -> Result<(), SettingsError> {
        if let Some(name) = &self.name {
            check_name(name)?;
        }
        self.matches.check().map_err(|e| e.within("match"))?;
        if let Some(meter) = &self.meter {
            meter.check().map_err(|e| e.within("meter"))?;
        }
        let has_yellow = self.meter.as_ref().is_some_and(Meter::has_yellow);
        ensure(self.yellow.is_none() || has_yellow, "yellow", "needs a meter of three colours")?;
        let meterless = self.layer.is_ip() && is_dropped(&self.red);
        ensure(self.meter.is_some() || meterless, "meter", "must be given: `layer` and `red` refer to it")
    }

    pub(crate) const fn action(&self, colour: Colour) -> ConditionAction {
        match (colour, self.yellow) {
            (Colour::Green, _) | (Colour::Yellow, None) => self.green,
            (Colour::Yellow, Some(action)) => action,
            (Colour::Red, _) => self.red,
        }
    }
}

/// Largest number of rules of a line.
const MOST: usize = 1 << 16;

/// Checks the rules of a line.
///
/// # Errors
/// If a field is out of range. The error names it by its path within the line.
pub(crate) fn check(conditions: &[Condition]) -> Result<(), SettingsError> {
    ensure(conditions.len() <= MOST, "condition", "must be at most 65536")?;
    let mut names = BTreeSet::new();
    for (n, condition) in conditions.iter().enumerate() {
        let within = |e: SettingsError| e.within(&format!("condition.{n}"));
        condition.check().map_err(within)?;
        let is_new = names.insert(condition.name(n));
        ensure(is_new, "name", "must not be that of another rule").map_err(within)?;
    }
    Ok(())
}

/// The action of a rule on a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConditionAction {
    /// The packet passes unchanged.
    #[default]
    Pass,
    /// The packet is dropped, as by a policer.
    Drop,
    /// The packet passes with this code point, as from a marker.
    Mark(Dscp),
}

impl fmt::Display for ConditionAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pass => f.write_str("pass"),
            Self::Drop => f.write_str("drop"),
            Self::Mark(dscp) => dscp.fmt(f),
        }
    }
}

/// A text is not an action.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither `pass` nor `drop` nor a DiffServ code point such as `ef`, `be` or `46`")]
pub struct ActionError(String);

impl FromStr for ConditionAction {
    type Err = ActionError;

    fn from_str(text: &str) -> Result<Self, ActionError> {
        match text {
            "pass" => Ok(Self::Pass),
            "drop" => Ok(Self::Drop),
            other => other.parse().map(Self::Mark).map_err(|_| ActionError(text.to_owned())),
        }
    }
}

written_as_text!(
    ConditionAction,
    written::text_or_whole,
    "`pass`, `drop`, or a DiffServ code point such as `ef`",
    "Action",
    {
        "type": ["string", "number"],
        "description": "`pass`, `drop`, or the DiffServ code point to set.",
        "examples": ["drop", "ef", "be"]
    }
);

/// The counters of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conditioned {
    found: [PacketTally; Colour::ALL.len()],
    /// Dropped packets of all colours.
    pub dropped: PacketTally,
}

impl Conditioned {
    /// Packets of this colour, according to the meter of the rule.
    pub fn found(&self, colour: Colour) -> PacketTally {
        self.found[colour.index()]
    }
}

/// Applies the rules of a line.
#[derive(Clone, Debug)]
pub struct Conditioner {
    rules: Vec<Rule>,
    framing: Framing,
}

#[derive(Clone, Debug)]
struct Rule {
    settings: Condition,
    meter: Option<Metering>,
    account: Conditioned,
}

impl Conditioner {
    /// A conditioner in front of a line of this framing. The rules must have passed [`Condition::check`].
    pub fn new(conditions: &[Condition], framing: Framing) -> Self {
        let rule = |settings: &Condition| Rule {
            meter: settings.meter.as_ref().map(Metering::new),
            settings: settings.clone(),
            account: Conditioned::default(),
        };
        Self { rules: conditions.iter().map(rule).collect(), framing }
    }

    /// Applies the rules to a packet that arrives at `now`. Returns the packet, perhaps with another code point. If it is
    /// dropped, the observer has been notified.
    #[inline]
    pub fn treat<P: PacketMeta>(
        &mut self,
        now: Instant,
        mut packet: P,
        obs: &mut impl Observer<P>,
    ) -> Option<P> {
        let header = packet.header();
        let Some(number) = self.rules.iter().position(|rule| rule.settings.matches.holds(header)) else {
            return Some(packet);
        };
        let rule = &mut self.rules[number];
        let colour = rule.colour(now, header, self.framing);
        rule.account.found[colour.index()].add(&packet);
        let action = rule.settings.action(colour);
        if let ConditionAction::Mark(dscp) = action {
            packet.header_mut().dscp = dscp;
        }
        obs.conditioned(now, &packet, number, colour);
        if action != ConditionAction::Drop {
            return Some(packet);
        }
        rule.account.dropped.add(&packet);
        obs.dropped(now, &packet, DropReason::Policed);
        None
    }

    /// The counters of each rule, in the order of the rules.
    pub fn accounts(&self) -> impl Iterator<Item = &Conditioned> {
        self.rules.iter().map(|rule| &rule.account)
    }
}

impl Rule {
    fn colour(&mut self, now: Instant, header: &Header, framing: Framing) -> Colour {
        let Some(meter) = &mut self.meter else { return Colour::Green };
        meter.colour(now, self.settings.layer.bytes(header, framing), header.dscp)
    }
}
