//! The possible effects of the rules, classes and shapers of a link on packets with one header. They are known before a
//! packet is sent.

use netrig_core::{Header, Size};

use crate::conditioning::{ConditionAction, DscpSet, Shortfall};
use crate::queue::class::Classifier;
use crate::queue::shaped::Shaped;
use crate::{Framing, LineSettings, LinkSettings, Queue};

/// The possible effects of a link on packets with one header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prospect {
    /// Token buckets on the path of these packets that are too shallow for one packet.
    pub shallow: Vec<ShallowBucket>,
    /// The code points with which these packets may leave the link. Empty if all are dropped.
    pub code_points: DscpSet,
}

/// A token bucket that is too shallow for a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShallowBucket {
    /// The field that sets the depth, by its path within the link: `condition.0.meter.burst`.
    pub field: String,
    /// The depth of the bucket.
    pub depth: Size,
    /// The length of the packet as the bucket counts it, bytes; more than `depth`.
    pub counted: u64,
    /// The effect on such packets.
    pub shortfall: Shortfall,
}

impl LinkSettings {
    /// The possible effects on packets with this header. The settings must have been checked, and the names of nodes
    /// resolved.
    pub fn prospect(&self, header: &Header) -> Prospect {
        let unchanged =
            || Prospect { code_points: [header.dscp].into_iter().collect(), ..Prospect::default() };
        match self {
            Self::Line(line) => line.prospect(header),
            Self::Wifi(wifi) => {
                let mut prospect = unchanged();
                prospect.wait(&wifi.queue, "queue", header, Framing::None);
                prospect
            }
            Self::Direct(_) => unchanged(),
        }
    }
}

impl LineSettings {
    fn prospect(&self, header: &Header) -> Prospect {
        let mut prospect = Prospect::default();
        let code_point = |action| match action {
            ConditionAction::Pass => Some(header.dscp),
            ConditionAction::Mark(dscp) => Some(dscp),
            ConditionAction::Drop => None,
        };
        let rule = self.condition.iter().enumerate().find(|(_, rule)| rule.matches.holds(header));
        prospect.code_points = match rule.map(|(n, rule)| (n, rule, rule.meter.as_ref())) {
            None => code_point(ConditionAction::Pass).into_iter().collect(),
            Some((_, rule, None)) => code_point(rule.green).into_iter().collect(),
            Some((n, rule, Some(meter))) => {
                let counted = rule.layer.bytes(header, self.framing);
                prospect.shallow.extend(meter.shallow(counted).map(|(field, depth, shortfall)| {
                    ShallowBucket { field: format!("condition.{n}.meter.{field}"), depth, counted, shortfall }
                }));
                meter.colours(counted).filter_map(|colour| code_point(rule.action(colour))).collect()
            }
        };
        for dscp in prospect.code_points.iter() {
            self.wait(&Header { dscp, ..*header }, &mut prospect);
        }
        prospect
    }

    /// Adds the effects of the queue on packets that pass the rules.
    fn wait(&self, header: &Header, prospect: &mut Prospect) {
        let Some(room) = self.queue.room() else {
            return prospect.wait(&self.queue, "queue", header, self.framing);
        };
        let n = Classifier::new(&self.classes).class_of(header);
        let Some(class) = self.classes.get(n) else { return };
        if matches!(self.queue, Queue::ClassWfq(_)) && class.is_low_latency() {
            let field = if class.burst.is_some() { "burst" } else { "reserve" };
            let counted = self.framing.line_bytes(header.ip_len);
            prospect.add_bucket(format!("classes.{n}.{field}"), class.burst(), counted);
        }
        prospect.wait(&class.queue(&room), &format!("classes.{n}.queue"), header, self.framing);
    }
}

impl Prospect {
    /// Adds the bucket of a queue if it is too shallow.
    fn add_bucket(&mut self, field: String, depth: Size, counted: u64) {
        let bucket = ShallowBucket { field, depth, counted, shortfall: Shortfall::Dropped };
        // Packets with different code points may wait in the same queue.
        if counted > depth.bytes() && !self.shallow.contains(&bucket) {
            self.shallow.push(bucket);
        }
    }

    /// Adds the effects of `queue`, whose settings are at the path `field`.
    fn wait(&mut self, queue: &Queue, field: &str, header: &Header, framing: Framing) {
        if let Queue::Shaped(Shaped { burst, layer, queue, .. }) = queue {
            self.add_bucket(format!("{field}.burst"), *burst, layer.bytes(header, framing));
            self.wait(queue, &format!("{field}.queue"), header, framing);
        }
    }
}

#[cfg(test)]
mod tests {
    use netrig_core::{Dscp, Ecn, FiveTuple};
    use serde_json::{Value, json};

    use super::*;

    fn packet(ip_len: u32, dscp: Dscp) -> Header {
        let [src, dst] = [1, 2].map(|host| [10, 0, 0, host].into());
        let flow = FiveTuple { src, dst, src_port: 49152, dst_port: 5001, protocol: 17 };
        Header { flow, ip_len, dscp, ecn: Ecn::NotEct }
    }

    /// An ATM line with these additional fields.
    fn line(own: Value) -> LinkSettings {
        let mut line =
            json!({ "rate": "1 Mbit/s", "framing": "atm-llc", "queue": { "fifo": { "packets": 9 } } });
        line.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        let line: LineSettings = serde_json::from_value(line).unwrap();
        line.check().unwrap();
        LinkSettings::Line(line)
    }

    /// The buckets that are too shallow for packets of `ip_len` bytes: field, counted length, effect.
    fn shallow(line: &LinkSettings, ip_len: u32, dscp: Dscp) -> Vec<(String, u64, Shortfall)> {
        let found = line.prospect(&packet(ip_len, dscp)).shallow.into_iter();
        found.map(|bucket| (bucket.field, bucket.counted, bucket.shortfall)).collect()
    }

    fn meter(meter: Value) -> LinkSettings {
        line(json!({ "condition": [{ "meter": meter, "green": "ef", "red": "drop" }] }))
    }

    #[test]
    fn a_bucket_holds_what_is_as_long_as_it_is_deep() {
        let policer = meter(json!({ "token-bucket": { "rate": "1 Mbit/s", "burst": "1500 B" } }));
        assert_eq!(shallow(&policer, 1500, Dscp::BE), []);
        let field = "condition.0.meter.burst".to_owned();
        assert_eq!(shallow(&policer, 1501, Dscp::BE), [(field, 1501, Shortfall::Red)]);
        // A packet that is always red is dropped. A packet that may be green is marked.
        assert_eq!(policer.prospect(&packet(1501, Dscp::BE)).code_points, DscpSet::default());
        assert_eq!(policer.prospect(&packet(1500, Dscp::BE)).code_points, DscpSet::from_iter([Dscp::EF]));
    }

    #[test]
    fn of_two_buckets_the_one_counts_that_decides_more() {
        let srtcm = |cbs, ebs| meter(json!({ "srtcm": { "cir": "1 Mbit/s", "cbs": cbs, "ebs": ebs } }));
        let trtcm = |cbs, pbs| {
            meter(json!({ "trtcm": { "cir": "1 Mbit/s", "cbs": cbs, "pir": "2 Mbit/s", "pbs": pbs } }))
        };
        for (line, field, shortfall) in [
            (srtcm("2 KB", "1 KB"), "ebs", Shortfall::NeverYellow),
            (srtcm("1 KB", "2 KB"), "cbs", Shortfall::NeverGreen),
            (srtcm("1 KB", "1.2 KB"), "ebs", Shortfall::Red),
            (srtcm("1 KB", "0 B"), "cbs", Shortfall::Red),
            (trtcm("1 KB", "2 KB"), "cbs", Shortfall::NeverGreen),
            (trtcm("2 KB", "1 KB"), "pbs", Shortfall::Red),
        ] {
            let field = format!("condition.0.meter.{field}");
            assert_eq!(shallow(&line, 1500, Dscp::BE), [(field, 1500, shortfall)]);
        }
        // An excess burst of zero is allowed (RFC 2697 section 2).
        assert_eq!(shallow(&srtcm("2 KB", "0 B"), 1500, Dscp::BE), []);
    }

    #[test]
    fn only_the_rule_that_holds_and_the_class_that_has_a_packet_matter() {
        let tight = json!({ "token-bucket": { "rate": "1 Mbit/s", "burst": "100 B" } });
        let conditioned = line(json!({
            "condition": [
                { "match": { "dscp": "af11" }, "green": "ef" },
                { "match": { "dscp": "be" }, "meter": tight, "red": "be" },
            ],
            "classes": [{ "phb": "ef", "reserve": "0.5 Mbit/s", "burst": "1500 B" }, { "phb": "be" }],
            "queue": { "class-wfq": { "packets": 9 } },
        }));
        let meter = ("condition.1.meter.burst".to_owned(), 1500, Shortfall::Red);
        assert_eq!(shallow(&conditioned, 1500, Dscp::BE), [meter]);
        // 1500 B with LLC/SNAP and trailer fill 32 cells of 53 B.
        let class = ("classes.0.burst".to_owned(), 1696, Shortfall::Dropped);
        assert_eq!(shallow(&conditioned, 1500, Dscp::af(1, 1)), [class]);
        assert_eq!(shallow(&conditioned, 1500, Dscp::cs(1)), []);
    }

    #[test]
    fn what_a_class_may_send_at_once_comes_from_its_reservation_if_nothing_is_said() {
        // 200 ms of 32 kbit/s are 800 B.
        let line = line(json!({
            "classes": [{ "phb": "ef", "reserve": "32 kbit/s" }, { "phb": "be" }], "queue": { "class-wfq": { "packets": 9 } },
        }));
        assert_eq!(
            shallow(&line, 1000, Dscp::EF),
            [("classes.0.reserve".to_owned(), 1166, Shortfall::Dropped)]
        );
        assert_eq!(shallow(&line, 1000, Dscp::BE), []);
    }

    #[test]
    fn a_shaper_counts_what_it_says_wherever_it_stands() {
        let shaper = |layer| {
            let within = json!({ "fifo": { "packets": 9 } });
            json!({ "shaped": { "rate": "1 Mbit/s", "burst": "1500 B", "layer": layer, "queue": within } })
        };
        assert_eq!(shallow(&line(json!({ "queue": shaper("ip") })), 1500, Dscp::BE), []);
        let alone = line(json!({ "queue": shaper("line") }));
        assert_eq!(shallow(&alone, 1500, Dscp::BE), [("queue.burst".to_owned(), 1696, Shortfall::Dropped)]);
        let class = json!([{ "name": "all", "queue": shaper("line") }]);
        let classes = line(json!({ "classes": class, "queue": { "priority": {} } }));
        let field = "classes.0.queue.burst".to_owned();
        assert_eq!(shallow(&classes, 1500, Dscp::BE), [(field, 1696, Shortfall::Dropped)]);
    }
}
