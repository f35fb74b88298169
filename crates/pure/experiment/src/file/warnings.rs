//! Warnings about settings with results that may not mean what the author of the file expects.

use std::collections::{BTreeMap, BTreeSet};

use netrig_core::{Direction, Duration, HOP_LIMIT};
use netrig_link::LinkSettings;

use super::buckets::Buckets;
use super::conditioned::Conditioned;
use super::definition::Definition;
use super::diagnostic::{Diagnostic, Span};
use super::document::Value;
use super::load::{Offer, offers, travelled};
use super::misfits::Misfits;
use super::sections::FileHeader;
use crate::judge::Design;
use crate::response::{Of, Statistic};
use crate::{Amount, Scenario, WarmUp};

/// Examines points and reports doubtful settings.
pub(super) struct Warnings<'a> {
    definition: &'a Definition,
    design: Option<&'a Design>,
    warm_up: Duration,
    points: usize,
    /// Overloaded links, by group and direction.
    overloads: BTreeMap<(String, Direction), Overload>,
    transports_used: BTreeSet<String>,
    links_used: BTreeSet<String>,
    /// The number of links of the longest path, by group of flows, if it exceeds the hop limit of a packet.
    too_long: BTreeMap<String, usize>,
    /// Groups of flows whose object sizes have infinite variance.
    unbounded: BTreeSet<String>,
    misfits: Misfits,
    conditioned: Conditioned,
    buckets: Buckets,
}

/// A link with an offered load that is at least its capacity.
struct Overload {
    /// The number of points with the overload.
    points: usize,
    /// Load at the worst point, at least 1, and the bytes per second that are offered and that the link can carry.
    load: f64,
    offered: f64,
    capacity: f64,
    /// Whether it is a WiFi link.
    wifi: bool,
    /// The groups of flows that offer the load at that point, and the number of flows.
    groups: BTreeSet<String>,
    flows: usize,
    /// The indices of the levels at that point.
    levels: Vec<usize>,
}

impl<'a> Warnings<'a> {
    pub(super) fn new(
        definition: &'a Definition,
        design: Option<&'a Design>,
        header: Option<&FileHeader>,
    ) -> Self {
        let warm_up = match header.map(|header| header.warm_up) {
            Some(WarmUp::Fixed(span)) => span,
            _ => Duration::ZERO,
        };
        Self {
            definition,
            design,
            warm_up,
            points: 0,
            overloads: BTreeMap::new(),
            transports_used: BTreeSet::new(),
            links_used: BTreeSet::new(),
            too_long: BTreeMap::new(),
            unbounded: BTreeSet::new(),
            misfits: Misfits::default(),
            conditioned: Conditioned::default(),
            buckets: Buckets::default(),
        }
    }

    /// Examines a point. `levels` are the indices of its levels.
    pub(super) fn look_at(&mut self, scenario: &Scenario, levels: &[usize]) {
        self.points += 1;
        for flow in &scenario.flows {
            self.transports_used.insert(flow.transport.clone());
            let links =
                flow.paths.iter().flat_map(|path| &path.hops).map(|hop| &scenario.links[hop.link].group);
            for link in links {
                if !self.links_used.contains(link) {
                    self.links_used.insert(link.clone());
                }
            }
            let longest = flow.paths.iter().map(|path| path.hops.len()).max().unwrap_or(0);
            if longest > HOP_LIMIT {
                let known = self.too_long.entry(flow.group.clone()).or_default();
                *known = longest.max(*known);
            }
            if flow.application.has_infinite_variance() {
                self.unbounded.insert(flow.group.clone());
            }
        }
        self.look_for_overloads(scenario, levels);
        self.misfits.look_at(scenario);
        self.conditioned.look_at(scenario, self.definition);
        self.buckets.look_at(scenario, self.definition);
    }

    fn look_for_overloads(&mut self, scenario: &Scenario, levels: &[usize]) {
        let offers = offers(scenario);
        let mut here: BTreeMap<(&str, Direction), (usize, &Offer<'_>)> = BTreeMap::new();
        let load = |key: &(usize, Direction)| offers.get(key).map_or(0.0, |offer| offer.load);
        for flow in &scenario.flows {
            // A bottleneck limits the load of the lines after it, so only the most loaded link counts.
            let hops = travelled(flow);
            let Some(key) = hops.into_iter().reduce(|a, b| if load(&b) > load(&a) { b } else { a }) else {
                continue;
            };
            let Some(offer) = offers.get(&key).filter(|offer| offer.load >= 1.0) else { continue };
            let worst = here.entry((&scenario.links[key.0].group, key.1)).or_insert((key.0, offer));
            if offer.load > worst.1.load {
                *worst = (key.0, offer);
            }
        }
        for ((link, direction), (number, offer)) in here {
            let overload = self.overloads.entry((link.to_owned(), direction)).or_insert_with(|| Overload {
                points: 0,
                load: 0.0,
                offered: 0.0,
                capacity: 0.0,
                wifi: false,
                groups: BTreeSet::new(),
                flows: 0,
                levels: Vec::new(),
            });
            overload.points += 1;
            if offer.load > overload.load {
                overload.load = offer.load;
                overload.offered = offer.bytes_per_s;
                overload.capacity = offer.capacity();
                overload.wifi = matches!(scenario.links[number].towards(direction), LinkSettings::Wifi(_));
                overload.groups = offer.flows.iter().map(|flow| flow.group.clone()).collect();
                overload.flows = offer.flows.len();
                overload.levels = levels.to_vec();
            }
        }
    }

    /// Warnings for responses of classes and rules that no link has, if the examined points include all levels.
    pub(super) fn unknown_parts(&self) -> Vec<Diagnostic> {
        self.design.map_or_else(Vec::new, |design| self.conditioned.unknown(self.definition, design))
    }

    /// All warnings.
    pub(super) fn finish(self) -> Vec<Diagnostic> {
        let mut all: Vec<Diagnostic> = Vec::new();
        all.extend(
            self.overloads
                .iter()
                .map(|((link, direction), overload)| self.overload(link, *direction, overload)),
        );
        // Levels that `--set` omits may use parts that the other levels do not use.
        if self.definition.is_as_written() {
            all.extend(self.unused("transport", &self.transports_used, "no flow uses the transport"));
            all.extend(self.unused("link", &self.links_used, "no flow passes over the link"));
        }
        all.extend(self.events_in_warm_up());
        all.extend(self.too_long.iter().map(|(flow, links)| {
            let why =
                format!("a path of flow `{flow}` has {links} links, and a packet passes at most {HOP_LIMIT}");
            Diagnostic::warning(self.at(&["flow", flow]), why).note(
                "a router drops a packet whose hop limit runs out (RFC 791, RFC 8200), so nothing arrives",
            )
        }));
        all.extend(self.means_without_variance());
        all.extend(self.shares_of_percentages());
        all.extend(self.misfits.finish(self.definition));
        all.extend(self.conditioned.finish(self.definition));
        all.extend(self.buckets.finish(self.definition));
        all
    }

    fn at(&self, path: &[&str]) -> Span {
        self.definition.root.at(path).span.clone()
    }

    fn overload(&self, link: &str, direction: Direction, overload: &Overload) -> Diagnostic {
        let groups: Vec<String> = overload.groups.iter().map(|group| format!("`{group}`")).collect();
        let many = if overload.flows > groups.len() {
            format!(" ({} flows)", overload.flows)
        } else {
            String::new()
        };
        let back = if direction == Direction::Backward { ", backward" } else { "" };
        let first = overload.groups.first().map_or("", String::as_str);
        let message = format!(
            "{}{many} {} {} to a line of {} (link `{link}`{back})",
            groups.join(" and "),
            if overload.flows > 1 { "offer" } else { "offers" },
            bytes_per_s(overload.offered),
            bytes_per_s(overload.capacity),
        );
        let mut warning = Diagnostic::warning(self.at(&["flow", first, "application", "kind"]), message)
            .note("the line is always busy then: what is measured is the line, and delays grow with the length of the run");
        if overload.wifi {
            warning = warning.note(format!(
                "{} is what a station gets through that has the air of its channel to itself: each frame takes its \
                 contention, preamble and acknowledgement beside its bits",
                bytes_per_s(overload.capacity)
            ));
        }
        if self.points > 1 {
            let varied =
                self.definition.factors.iter().zip(&overload.levels).filter(|(f, _)| f.levels.len() > 1);
            let worst: Vec<String> = varied
                .map(|(factor, place)| format!("{} = {}", factor.name, factor.levels[*place].0.text()))
                .collect();
            let where_ = format!(
                "this occurs at {} of {} points; the worst is {}",
                overload.points,
                self.points,
                worst.join(", ")
            );
            warning = warning.note(where_);
        }
        warning
    }

    fn unused(&self, section: &str, used: &BTreeSet<String>, what: &str) -> Vec<Diagnostic> {
        let table = self.definition.root.table().and_then(|root| root.get(section)).and_then(Value::table);
        let entries = table.map_or(&[][..], |table| &table.entries).iter();
        let unused = entries.filter(|entry| !used.contains(&entry.key));
        unused
            .map(|entry| Diagnostic::warning(entry.key_span.clone(), format!("{what} `{}`", entry.key)))
            .collect()
    }

    /// Warnings about events before the end of the warm-up, if their time is not a factor.
    fn events_in_warm_up(&self) -> Vec<Diagnostic> {
        let events =
            self.definition.root.table().and_then(|root| root.get("event")).map_or(&[][..], Value::elements);
        let early = events.iter().filter_map(|event| {
            let at = event.at(&["at"]);
            let moment: Duration = at.text()?.parse().ok()?;
            (moment < self.warm_up).then(|| {
                let why =
                    format!("this happens during the warm-up of {}, which is not measured", self.warm_up);
                Diagnostic::warning(at.span.clone(), why)
            })
        });
        early.collect()
    }

    /// Warnings about means over objects whose sizes have infinite variance.
    fn means_without_variance(&self) -> Vec<Diagnostic> {
        let responses = self.design.map_or(&[][..], |design| &design.responses).iter();
        let doubtful = responses.filter(|(_, spec)| {
            spec.metric().is_some_and(|metric| metric.about().observed)
                && spec.statistic() == Statistic::Mean
                && matches!(&spec.of, Of::Flow(name) if self.unbounded.contains(name.split('#').next().unwrap_or(name)))
        });
        doubtful
            .map(|(name, spec)| {
                let place = self.at(&["response", name, if spec.statistic.is_some() { "statistic" } else { "metric" }]);
                let flow = spec.of.group();
                Diagnostic::warning(place, format!("a mean over objects of flow `{flow}`, whose sizes have infinite variance"))
                    .note_at(
                        self.at(&["flow", flow, "application", "size"]),
                        "a Pareto distribution of shape 2 or less: its means hardly converge, and their intervals are too narrow",
                    )
                    .help("use a quantile such as `median`, or give the size a `max`")
            })
            .collect()
    }

    /// Warnings about margins in percent of responses in percent: the author seldom means a share of a share.
    fn shares_of_percentages(&self) -> Vec<Diagnostic> {
        let responses = self.design.map_or(&[][..], |design| &design.responses).iter();
        let doubtful = responses.filter_map(|(name, spec)| {
            let margins = &spec.agreement.as_ref().filter(|_| spec.unit() == "%")?.within;
            margins.iter().all(Amount::is_share).then_some((name, margins.iter().next()?))
        });
        doubtful
            .map(|(name, margin)| {
                let place = self.at(&["response", name, "agreement", "within"]);
                let why =
                    format!("`{margin}` is a share of the mean of `{name}`, which is in percent itself");
                let points = format!("for a difference in percentage points write `{} pp`", margin.value());
                Diagnostic::warning(place, why).help(points)
            })
            .collect()
    }
}

/// A rate with three digits: `62.5 KB/s`.
fn bytes_per_s(value: f64) -> String {
    let units = [("GB/s", 1e9), ("MB/s", 1e6), ("KB/s", 1e3), ("B/s", 1.0)];
    // 999.7 KB/s is rounded to 1 MB/s.
    let (unit, worth) = units.into_iter().find(|(_, worth)| value >= 0.9995 * worth).unwrap_or(("B/s", 1.0));
    let number = value / worth;
    let decimals = if number >= 100.0 { 0 } else { 1 };
    let text = format!("{number:.decimals$}");
    format!("{} {unit}", text.strip_suffix(".0").unwrap_or(&text))
}
