//! Traffic conditioning at the edge of a DiffServ domain (RFC 2475 section 2.3): classifiers say whose packets they are,
//! meters how far a stream is from its profile, markers what code point a packet goes on with, and policers what is
//! dropped. (Shapers, which delay instead, are queues: [`queue::shaped`](crate::queue::shaped).)
//!
//! It knows packets by their headers only, so the same rules serve simulated packets and real frames.
//!
//! Start from [`Condition`], which is what a file says, and [`Conditioner`], which does it.

mod matching;
mod meter;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use netrig_core::{Colour, DropReason, Dscp, Header, Instant, Observer, PacketMeta};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::error::{check_name, ensure};
use crate::{Framing, SettingsError, Tally};

pub use matching::{DscpSet, Hosts, Match, NumberError, Ports, Protocol};
pub use meter::{Bucket, Layer, Meter, Metering, Shortfall, Srtcm, TokenBucket, Trtcm};

/// A rule of a traffic conditioner. Of all rules of a line the first that matches holds for a packet; a packet that none
/// matches goes on as it came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// Its name in responses and traces, up to 64 letters, digits, `_` and `-`; its number, from 1, if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Which packets; all that no rule before matched if not given.
    #[serde(default, rename = "match", skip_serializing_if = "is_default")]
    pub matches: Match,
    /// What their stream is measured by; all is green if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meter: Option<Meter>,
    /// What the meter counts of a packet: the IP packet if not given.
    #[serde(default, skip_serializing_if = "Layer::is_ip")]
    pub layer: Layer,
    /// What becomes of green packets: `pass`, `drop`, or the code point that they go on with (`ef`). `pass` if not given.
    #[serde(default, skip_serializing_if = "is_default")]
    pub green: Action,
    /// What becomes of yellow packets, if the meter has yellow: the same as of green ones if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yellow: Option<Action>,
    /// What becomes of red packets: `drop` if not given.
    #[serde(default = "dropped", skip_serializing_if = "is_dropped")]
    pub red: Action,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn dropped() -> Action {
    Action::Drop
}

fn is_dropped(action: &Action) -> bool {
    *action == Action::Drop
}

impl Condition {
    /// The rule that gives these packets this code point.
    pub fn mark(matches: Match, dscp: Dscp) -> Self {
        let green = Action::Mark(dscp);
        Self { name: None, matches, meter: None, layer: Layer::Ip, green, yellow: None, red: Action::Drop }
    }

    /// Its name, or its number where it stands at this place among the rules, from 0.
    pub fn name(&self, place: usize) -> Cow<'_, str> {
        self.name.as_deref().map_or_else(|| (place + 1).to_string().into(), Cow::Borrowed)
    }

    /// Whether there can be such a rule.
    ///
    /// # Errors
    /// Names the field that is out of range.
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
        ensure(self.meter.is_some() || meterless, "meter", "must be given: `layer` and `red` are about it")
    }

    pub(crate) const fn action(&self, colour: Colour) -> Action {
        match (colour, self.yellow) {
            (Colour::Green, _) | (Colour::Yellow, None) => self.green,
            (Colour::Yellow, Some(action)) => action,
            (Colour::Red, _) => self.red,
        }
    }
}

/// The most rules that a line may have.
const MOST: usize = 1 << 16;

/// Whether a line can have these rules.
///
/// # Errors
/// Names the field that is out of range, seen from the line.
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

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// It goes on as it came.
    #[default]
    Pass,
    /// It is dropped: a policer.
    Drop,
    /// It goes on with this code point: a marker.
    Mark(Dscp),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pass => f.write_str("pass"),
            Self::Drop => f.write_str("drop"),
            Self::Mark(dscp) => dscp.fmt(f),
        }
    }
}

/// Why a text is no action.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither `pass` nor `drop` nor a DiffServ code point such as `ef`, `be` or `46`")]
pub struct ActionError(String);

impl FromStr for Action {
    type Err = ActionError;

    fn from_str(text: &str) -> Result<Self, ActionError> {
        match text {
            "pass" => Ok(Self::Pass),
            "drop" => Ok(Self::Drop),
            other => other.parse().map(Self::Mark).map_err(|_| ActionError(text.to_owned())),
        }
    }
}

impl Serialize for Action {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Action {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl de::Visitor<'_> for Text {
            type Value = Action;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`pass`, `drop`, or a DiffServ code point such as `ef`")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Action, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Action, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Action, E> {
                self.visit_str(&number.to_string())
            }
        }
        deserializer.deserialize_any(Text)
    }
}

impl JsonSchema for Action {
    fn schema_name() -> Cow<'static, str> {
        "Action".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "number"],
            "description": "`pass`, `drop`, or the DiffServ code point that a packet goes on with.",
            "examples": ["drop", "ef", "be"]
        })
    }
}

/// What a rule did, by colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conditioned {
    found: [Tally; Colour::ALL.len()],
    /// Of all colours, those that it dropped.
    pub dropped: Tally,
}

impl Conditioned {
    /// Packets that the rule's meter found to be of this colour.
    pub fn found(&self, colour: Colour) -> Tally {
        self.found[colour.index()]
    }
}

/// The rules of a line at work.
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
    /// The conditioner with these rules, which must have passed [`Condition::check`], in front of a line of this
    /// framing.
    pub fn new(conditions: &[Condition], framing: Framing) -> Self {
        let rule = |settings: &Condition| Rule {
            meter: settings.meter.as_ref().map(Metering::new),
            settings: settings.clone(),
            account: Conditioned::default(),
        };
        Self { rules: conditions.iter().map(rule).collect(), framing }
    }

    /// What becomes of a packet that comes at `now`: it goes on, perhaps with another code point, or is dropped, which
    /// has been told then.
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
        if let Action::Mark(dscp) = action {
            packet.header_mut().dscp = dscp;
        }
        obs.conditioned(now, &packet, number, colour);
        if action != Action::Drop {
            return Some(packet);
        }
        rule.account.dropped.add(&packet);
        obs.dropped(now, &packet, DropReason::Policed);
        None
    }

    /// What each rule did, in their order.
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
