//! A line as an experiment file describes it.

use std::net::IpAddr;

use netrig_core::{Duration, Fraction, InFlight, LinkEvent, Rate, Size, Waiting};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditioning::{self, Condition};
use crate::error::ensure;
use crate::queue::class::{self, Class};
use crate::{
    Corruption, DirectSettings, Framing, Jitter, Loss, Queue, Reorder, Service, SettingsError, WifiSettings,
};

/// One direction of a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LineSettings {
    /// The sending rate, above zero. It counts IP packets with the bytes that `framing` adds.
    pub rate: Rate,
    /// One-way propagation delay, from the end of sending to the arrival of a packet. Zero if not given.
    #[serde(default)]
    pub delay: Duration,
    /// The framing of packets. None if not given.
    #[serde(default)]
    pub framing: Framing,
    /// Whether the service time of a packet is its transmission time, or a random time with that mean. `constant` if
    /// not given.
    #[serde(default, skip_serializing_if = "Service::is_constant")]
    pub service: Service,
    /// Rules of traffic conditioning for packets on their way to the queue. The first rule that matches applies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub condition: Vec<Condition>,
    /// Classes of packets. They have separate counters, and some queues schedule them. A packet belongs to the first class that
    /// matches, or else to the last class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<Class>,
    /// Share of the rate that all classes together may reserve, as routers limit it. It limits reservations, not use.
    /// 75 % if not given.
    #[serde(default = "three_quarters", skip_serializing_if = "is_three_quarters")]
    pub reservable: Fraction,
    /// The queue in front of the line.
    pub queue: Queue,
    /// Length of the transmit ring in packets, 0 to 65,536. The interface takes packets from the queue into the ring ahead of
    /// the line; they leave it in order, even if a packet of higher priority enters the queue meanwhile. 0 if not given.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ring: u32,
    /// The longest IP packet, above zero. Longer packets are undeliverable. No limit if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<Size>,
    /// Random delays of packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Jitter>,
    /// Random or periodic loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Loss>,
    /// Share of packets that arrive twice, the copy directly after the original.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<Fraction>,
    /// Packets that arrive out of order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorder: Option<Reorder>,
    /// Packets with bit errors, dropped at the far end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrupt: Option<Corruption>,
    /// Listed packets that are lost: their ordinals, from 1, in the order in which packets start onto the line. Packets that
    /// the queue drops are not counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drop: Vec<u64>,
}

/// The default of Cisco IOS, `max-reserved-bandwidth`.
fn three_quarters() -> Fraction {
    Fraction::new(0.75).unwrap_or_default()
}

fn is_three_quarters(share: &Fraction) -> bool {
    *share == three_quarters()
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl LineSettings {
    /// A line of this rate, delay and queue without other effects on packets.
    pub fn new(rate: Rate, delay: Duration, queue: Queue) -> Self {
        Self {
            rate,
            delay,
            framing: Framing::None,
            service: Service::Constant,
            condition: Vec::new(),
            classes: Vec::new(),
            reservable: three_quarters(),
            queue,
            ring: 0,
            mtu: None,
            jitter: None,
            loss: None,
            duplicate: None,
            reorder: None,
            corrupt: None,
            drop: Vec::new(),
        }
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// If a field is out of range. The error names it.
    pub fn check(&self) -> Result<(), SettingsError> {
        ensure(self.rate.bits_per_s() > 0, "rate", "must be above zero")?;
        self.queue.check().map_err(|e| e.within("queue"))?;
        self.check_conditioning()?;
        ensure(self.mtu != Some(Size::default()), "mtu", "must be above zero")?;
        if let Some(jitter) = &self.jitter {
            jitter.check(self.delay).map_err(|e| e.within("jitter"))?;
        }
        if let Some(loss) = &self.loss {
            loss.check().map_err(|e| e.within("loss"))?;
        }
        ensure(!self.drop.contains(&0), "drop", "counts packets from 1")
    }

    fn check_conditioning(&self) -> Result<(), SettingsError> {
        conditioning::check(&self.condition)?;
        class::check(&self.classes, self.rate, self.reservable)?;
        self.queue.check_classes(&self.classes, self.rate)?;
        ensure(self.ring <= 1 << 16, "ring", "must be at most 65536")
    }

    /// Whether the line has rules, classes or a transmit ring in addition to its queue.
    pub fn is_conditioned(&self) -> bool {
        !self.condition.is_empty() || !self.classes.is_empty() || self.ring > 0
    }

    /// Replaces the names of nodes in rules and classes by their addresses. `addresses` returns the addresses of all
    /// interfaces of a node. It returns none if the node does not exist.
    ///
    /// # Errors
    /// If a field is neither a prefix nor a node. The error names it.
    pub fn resolve(&mut self, addresses: impl Fn(&str) -> Vec<IpAddr>) -> Result<(), SettingsError> {
        for (n, condition) in self.condition.iter_mut().enumerate() {
            let within = |e: SettingsError| e.within(&format!("condition.{n}.match"));
            condition.matches.resolve(&addresses).map_err(within)?;
        }
        class::resolve(&mut self.classes, &addresses)
    }

    /// Fails if a rule or a class still names a node.
    pub(crate) fn check_resolved(&self) -> Result<(), SettingsError> {
        for (n, condition) in self.condition.iter().enumerate() {
            let within = |e: SettingsError| e.within(&format!("condition.{n}.match"));
            condition.matches.check_resolved().map_err(within)?;
        }
        class::check_resolved(&self.classes)
    }
}

/// One direction of a link of any kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum LinkSettings {
    /// A line for this direction only.
    Line(LineSettings),
    /// A lane of a WiFi channel, which several stations share.
    Wifi(WifiSettings),
    /// A cable.
    Direct(DirectSettings),
}

impl LinkSettings {
    /// Checks the settings.
    ///
    /// # Errors
    /// If a field is out of range. The error names it.
    pub fn check(&self) -> Result<(), SettingsError> {
        match self {
            Self::Line(line) => line.check(),
            Self::Wifi(wifi) => wifi.check(),
            Self::Direct(direct) => direct.check(),
        }
    }

    /// Whether the link is a cable without a model.
    pub const fn is_direct(&self) -> bool {
        matches!(self, Self::Direct(_))
    }

    /// The sending rate; for WiFi the bit rate of data frames. A cable has no rate.
    pub fn rate(&self) -> Option<Rate> {
        match self {
            Self::Line(line) => Some(line.rate),
            Self::Wifi(wifi) => Some(wifi.rate),
            Self::Direct(_) => None,
        }
    }

    /// Propagation delay.
    pub fn delay(&self) -> Duration {
        match self {
            Self::Line(line) => line.delay,
            Self::Wifi(wifi) => wifi.delay,
            Self::Direct(_) => Duration::ZERO,
        }
    }

    /// The queue in front of the link. A cable has none.
    pub fn queue(&self) -> Option<&Queue> {
        match self {
            Self::Line(line) => Some(&line.queue),
            Self::Wifi(wifi) => Some(&wifi.queue),
            Self::Direct(_) => None,
        }
    }

    /// The link's classes of packets.
    pub fn classes(&self) -> &[Class] {
        match self {
            Self::Line(line) => &line.classes,
            Self::Wifi(_) | Self::Direct(_) => &[],
        }
    }

    /// The rules of the link's traffic conditioner.
    pub fn conditions(&self) -> &[Condition] {
        match self {
            Self::Line(line) => &line.condition,
            Self::Wifi(_) | Self::Direct(_) => &[],
        }
    }

    /// The number of rules, classes and curves of the link, which bounds the size of a description.
    pub fn rules(&self) -> usize {
        match self {
            Self::Line(line) => {
                let curves = line.classes.iter().filter_map(|class| class.queue.as_ref()).map(Queue::curves);
                line.condition.len() + line.classes.len() + line.queue.curves() + curves.sum::<usize>()
            }
            Self::Wifi(wifi) => wifi.queue.curves(),
            Self::Direct(_) => 0,
        }
    }

    /// The link's loss process, without losses that the link layer recovers.
    pub fn loss(&self) -> Option<&Loss> {
        match self {
            Self::Line(line) => line.loss.as_ref(),
            Self::Wifi(wifi) => wifi.loss.as_ref(),
            Self::Direct(_) => None,
        }
    }

    /// Ordinals of the packets that are listed to be dropped.
    pub fn drop(&self) -> &[u64] {
        match self {
            Self::Line(line) => &line.drop,
            Self::Wifi(wifi) => &wifi.drop,
            Self::Direct(_) => &[],
        }
    }
}

/// The effect of an outage on packets. The experiment decides when it starts and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Outage {
    /// Waiting packets, and packets offered during the outage. `drop` if not given.
    pub queue: Waiting,
    /// Packets on the line, including the one that is being sent. `lose` if not given.
    pub in_flight: InFlight,
}

impl Default for Outage {
    /// All packets are lost, as if a cable is pulled out.
    fn default() -> Self {
        Self { queue: Waiting::Drop, in_flight: InFlight::Lose }
    }
}

impl Outage {
    /// The event that starts the outage. [`LinkEvent::Up`] ends it.
    pub const fn down(self) -> LinkEvent {
        LinkEvent::Down { queue: self.queue, in_flight: self.in_flight }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Bernoulli;
    use crate::queue::fifo::Fifo;

    fn read(value: serde_json::Value) -> Result<LineSettings, String> {
        serde_json::from_value(value).map_err(|e| e.to_string())
    }

    fn plain() -> LineSettings {
        let queue = Queue::Fifo(Fifo { packets: Some(50), ..Fifo::default() });
        LineSettings::new(Rate::from_bits_per_s(500_000), Duration::from_millis(100), queue)
    }

    #[test]
    fn a_short_description_is_a_plain_line() {
        let line =
            read(json!({ "rate": "0.5 Mbit/s", "delay": "100 ms", "queue": { "fifo": { "packets": 50 } } }));
        assert_eq!(line, Ok(plain()));
        assert_eq!(plain().check(), Ok(()));
    }

    #[test]
    fn a_full_description_reads_and_writes_back() {
        let value = json!({
            "rate": "10 Mbit/s", "delay": "20 ms", "framing": "atm-llc", "service": "exponential", "mtu": "1.5 KB",
            "queue": { "red": { "packets": 100, "thresholds": { "packets": { "min": 5.0, "max": 15.0 } },
                "max_p": "10 %", "weight": 0.002, "gentle": true, "ecn": true, "mean_packet": "1 KB" } },
            "jitter": { "spread": { "pareto": { "mean": "2 ms", "shape": 2.5 } }, "keep_order": false },
            "loss": { "gilbert-elliott": { "p": "1 %", "r": "30 %", "loss_in_good": "0 %", "loss_in_bad": "100 %" } },
            "duplicate": "1 %", "reorder": { "probability": "2 %", "by": "5 ms", "shift": "earlier" },
            "corrupt": { "bits": "0.0001 %" }, "drop": [3, 17],
        });
        let line = read(value.clone()).unwrap();
        assert_eq!(line.check(), Ok(()));
        assert_eq!(serde_json::to_value(&line).unwrap(), value);
    }

    #[test]
    fn unknown_and_missing_fields_are_refused() {
        assert!(read(json!({ "rate": "1 Mbit/s" })).unwrap_err().contains("missing field `queue`"));
        let typo = json!({ "rate": "1 Mbit/s", "queue": { "fifo": { "packet": 50 } } });
        assert!(read(typo).unwrap_err().contains("unknown field `packet`"));
        let typo = json!({ "rate": "1 Mbit/s", "latency": "1 ms", "queue": { "fifo": { "packets": 50 } } });
        assert!(read(typo).unwrap_err().contains("unknown field `latency`"));
        let typo = json!({ "rate": "1 Mbit/s", "queue": { "lifo": { "packets": 50 } } });
        assert!(read(typo).unwrap_err().contains("unknown variant `lifo`"));
    }

    #[test]
    fn impossible_lines_are_refused_by_field() {
        let field = |change: &dyn Fn(&mut LineSettings)| {
            let mut line = plain();
            change(&mut line);
            line.check().unwrap_err().field
        };
        let red = |change: serde_json::Value| {
            let mut red = json!({ "packets": 9, "thresholds": { "packets": { "min": 5.0, "max": 15.0 } } });
            red.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            Queue::Red(serde_json::from_value(red).unwrap())
        };
        assert_eq!(field(&|line| line.rate = Rate::from_bits_per_s(0)), "rate");
        assert_eq!(field(&|line| line.mtu = Some(Size::default())), "mtu");
        assert_eq!(field(&|line| line.drop = vec![1, 0]), "drop");
        assert_eq!(field(&|line| line.queue = Queue::Fifo(Fifo::default())), "queue.packets");
        let fifo = |packets, bytes, unlimited| Queue::Fifo(Fifo { packets, bytes, unlimited, time: None });
        assert_eq!(field(&|line| line.queue = fifo(Some(0), None, false)), "queue.packets");
        assert_eq!(field(&|line| line.queue = fifo(None, Some(Size::default()), false)), "queue.bytes");
        assert_eq!(field(&|line| line.queue = fifo(Some(1), None, true)), "queue.unlimited");
        let waiting = |time, unlimited| Queue::Fifo(Fifo { time: Some(time), unlimited, ..Fifo::default() });
        assert_eq!(field(&|line| line.queue = waiting(Duration::ZERO, false)), "queue.time");
        assert_eq!(field(&|line| line.queue = waiting(Duration::from_millis(1), true)), "queue.unlimited");
        let thresholds = json!({ "thresholds": { "packets": { "min": 15.0, "max": 15.0 } } });
        assert_eq!(field(&|line| line.queue = red(thresholds.clone())), "queue.thresholds.max");
        assert_eq!(field(&|line| line.queue = red(json!({ "packets": 0 }))), "queue.packets");
        assert_eq!(field(&|line| line.queue = red(json!({ "packets": null }))), "queue.packets");
        assert_eq!(field(&|line| line.queue = red(json!({ "max_p": "0 %" }))), "queue.max_p");
        assert_eq!(field(&|line| line.queue = red(json!({ "weight": 1.5 }))), "queue.weight");
        assert_eq!(field(&|line| line.queue = red(json!({ "mean_packet": "0 B" }))), "queue.mean_packet");
        let jitter = |spread: serde_json::Value| serde_json::from_value(json!({ "spread": spread })).unwrap();
        assert_eq!(field(&|line| line.jitter = jitter(json!({ "uniform": "101 ms" }))), "jitter.spread");
        let no_mean = json!({ "pareto": { "mean": "1 ms", "shape": 1.0 } });
        assert_eq!(field(&|line| line.jitter = jitter(no_mean.clone())), "jitter.spread.shape");
        let loss = serde_json::from_value(json!({ "periodic": { "every": 0 } })).unwrap();
        assert_eq!(field(&|line| line.loss = Some(Loss::clone(&loss))), "loss.every");
    }

    fn conditioned() -> serde_json::Value {
        json!({
            "rate": "25 Mbit/s", "delay": "0 ns", "framing": "atm-llc",
            "condition": [
                { "match": { "src": "10.0.0.0/30", "protocol": "udp", "dst_port": "5001" },
                  "meter": { "token-bucket": { "rate": "9 Mbit/s", "burst": "5.4 KB" } },
                  "layer": "line", "green": "ef", "red": "be" },
                { "match": { "dscp": ["af11", "af12"] },
                  "meter": { "trtcm": { "cir": "1 Mbit/s", "cbs": "2 KB", "pir": "2 Mbit/s", "pbs": "3 KB",
                    "colour_aware": true } },
                  "green": "af11", "yellow": "af12" },
            ],
            "classes": [
                { "phb": "ef", "reserve": "9 Mbit/s", "burst": "3 KB" },
                { "phb": "af1", "reserve": "5 Mbit/s" },
                { "name": "bulk", "match": { "dscp": "cs1" }, "queue": { "codel": {
                    "packets": 100, "target": "5 ms", "interval": "100 ms", "ecn": false } } },
                { "phb": "be" },
            ],
            "queue": { "class-wfq": {} }, "ring": 4,
        })
    }

    #[test]
    fn a_conditioned_line_reads_and_writes_back() {
        let line = read(conditioned()).unwrap();
        assert_eq!(line.check(), Ok(()));
        assert!(line.is_conditioned() && !plain().is_conditioned());
        assert_eq!(serde_json::to_value(&line).unwrap(), conditioned());
    }

    /// 75 % of 25 Mbit/s are 18.75 Mbit/s. A file can set the share that may be reserved.
    #[test]
    fn three_quarters_of_a_line_may_be_reserved() {
        let reserving = |rate: &str, reservable: Option<&str>| {
            let mut value = conditioned();
            value["classes"][1]["reserve"] = rate.into();
            if let Some(share) = reservable {
                value["reservable"] = share.into();
            }
            read(value).unwrap().check()
        };
        assert_eq!(reserving("9.75 Mbit/s", None), Ok(()));
        let error = reserving("9750001 bit/s", None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`classes` reserve 18750.001 kbit/s together, more than 18.75 Mbit/s, 75 % of 25 Mbit/s (`reservable`)"
        );
        assert_eq!(reserving("9750001 bit/s", Some("80 %")), Ok(()));
        let error = reserving("16 Mbit/s", Some("100 %")).unwrap_err().to_string();
        assert_eq!(error, "`classes.2.reserve` must be given: the other classes reserve all of the line");
    }

    #[test]
    fn impossible_classes_are_refused_by_field() {
        let field = |path: &[&str], change: serde_json::Value| {
            let mut value = conditioned();
            let mut place = &mut value;
            for key in path {
                place = match key.parse::<usize>() {
                    Ok(index) => &mut place[index],
                    Err(_) => &mut place[*key],
                };
            }
            *place = change;
            read(value).unwrap().check().unwrap_err().field
        };
        let fifo = || json!({ "fifo": { "packets": 5 } });
        assert_eq!(field(&["classes", "2", "name"], json!("ef")), "classes.2.name");
        assert_eq!(field(&["classes", "2", "name"], json!("a.b")), "classes.2.name");
        assert_eq!(field(&["classes", "2"], json!({ "queue": fifo() })), "classes.2.name");
        assert_eq!(field(&["classes", "2"], json!({ "name": "x", "queue": fifo() })), "classes.2.match");
        assert_eq!(field(&["classes", "3", "match"], json!({ "dscp": 0 })), "classes.3.match");
        assert_eq!(field(&["classes", "2", "queue"], json!({ "priority": {} })), "classes.2.queue");
        assert_eq!(field(&["classes", "2", "queue"], json!({ "fifo": {} })), "classes.2.queue.packets");
        assert_eq!(field(&["classes", "2", "queue"], json!(null)), "classes.2.queue");
        assert_eq!(field(&["classes", "0", "reserve"], json!(null)), "classes.0.reserve");
        assert_eq!(field(&["classes", "0", "reserve"], json!("0 bit/s")), "classes.0.reserve");
        assert_eq!(field(&["classes"], json!([])), "classes");
        assert_eq!(field(&["queue"], json!({ "drr": { "quantum": "0 B" } })), "queue.quantum");
        assert_eq!(field(&["queue"], json!({ "priority": { "packets": 0 } })), "queue.packets");
        assert_eq!(field(&["queue"], json!({ "wfq": {} })), "queue.packets");
        assert_eq!(field(&["queue"], json!({ "wfq": { "packets": 9, "queues": 0 } })), "queue.queues");
        assert_eq!(field(&["ring"], json!(65_537)), "ring");
        let rule = "condition.0.meter.burst";
        assert_eq!(field(&["condition", "0", "meter", "token-bucket", "burst"], json!("0 B")), rule);
    }

    #[test]
    fn nodes_are_named_until_their_addresses_are_known() {
        let mut value = conditioned();
        value["condition"][0]["match"]["src"] = "Qs".into();
        let mut line = read(value).unwrap();
        assert_eq!(line.check(), Ok(()));
        assert_eq!(line.check_resolved().unwrap_err().field, "condition.0.match.src");
        assert_eq!(line.clone().resolve(|_| Vec::new()).unwrap_err().field, "condition.0.match.src");
        line.resolve(|name| if name == "Qs" { vec![[10, 0, 0, 1].into()] } else { Vec::new() }).unwrap();
        assert_eq!(line.check_resolved(), Ok(()));
    }

    #[test]
    fn an_error_is_a_sentence_about_a_field() {
        let mut line = plain();
        line.rate = Rate::from_bits_per_s(0);
        assert_eq!(line.check().unwrap_err().to_string(), "`rate` must be above zero");
    }

    #[test]
    fn an_outage_loses_all_unless_told_otherwise() {
        let read = |value| serde_json::from_value::<Outage>(value).unwrap();
        assert_eq!(read(json!({})), Outage { queue: Waiting::Drop, in_flight: InFlight::Lose });
        let kept = read(json!({ "queue": "keep", "in_flight": "deliver" }));
        assert_eq!(kept.down(), LinkEvent::Down { queue: Waiting::Keep, in_flight: InFlight::Deliver });
    }

    #[test]
    fn kinds_are_marked_in_the_schema() {
        let schema = serde_json::to_value(schemars::schema_for!(LineSettings)).unwrap();
        assert_eq!(schema["$defs"]["Queue"]["x-tag"], "kind");
        assert_eq!(schema["$defs"]["Loss"]["x-tag"], "kind");
        assert_eq!(schema["required"], json!(["rate", "queue"]));
    }

    #[test]
    fn a_bare_probability_reads_as_a_share() {
        let loss: Loss = serde_json::from_value(json!({ "bernoulli": { "probability": 0.02 } })).unwrap();
        assert_eq!(loss, Loss::Bernoulli(Bernoulli { probability: Fraction::new(0.02).unwrap() }));
    }
}
