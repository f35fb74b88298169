//! Warnings about rules and classes of links that no packet can reach, and about unknown names of rules and classes.

use std::collections::{BTreeMap, BTreeSet};

use netrig_core::Direction;
use netrig_link::LinkSettings;
use netrig_link::conditioning::{ConditionAction, DscpSet, Match};

use super::definition::Definition;
use super::diagnostic::{Diagnostic, Span};
use crate::judge::Design;
use crate::response::Of;
use crate::{Flow, LinkSpec, Scenario};

/// Examines points. Reports rules and classes that no packet can reach at any point, and names of rules and classes
/// that do not exist at any point.
#[derive(Default)]
pub(super) struct Conditioned {
    /// The names of classes and of rules, by group of links and direction.
    classes: Names,
    rules: Names,
    /// The unreachable rules and classes, by position in the file.
    unreached: BTreeMap<Vec<String>, Unreached>,
    /// The positions of rules and classes that packets reach at some point.
    reached: BTreeSet<Vec<String>>,
}

type Names = BTreeMap<(String, Direction), BTreeSet<String>>;

struct Unreached {
    message: String,
    help: &'static str,
}

/// One direction of a link.
pub(super) struct ClassPath<'a> {
    pub(super) definition: &'a Definition,
    pub(super) link: &'a LinkSpec,
    pub(super) direction: Direction,
}

impl ClassPath<'_> {
    pub(super) fn settings(&self) -> &LinkSettings {
        self.link.towards(self.direction)
    }

    /// The position of a setting (`condition.0.meter.burst`) in the file. For the reverse direction, it is in `reverse`
    /// if `reverse` contains the setting.
    pub(super) fn place(&self, field: &str) -> Vec<String> {
        let link = ["link", &self.link.group];
        let mut steps = field.split('.').peekable();
        let reverse = self.definition.root.at(&link).table().and_then(|table| table.get("reverse"));
        let reverse = reverse.and_then(|reverse| reverse.table());
        let own = reverse.zip(steps.peek()).is_some_and(|(table, first)| table.get(first).is_some());
        let back = (self.direction == Direction::Backward && own).then_some("reverse");
        link.into_iter().chain(back).chain(steps).map(str::to_owned).collect()
    }
}

impl Conditioned {
    pub(super) fn look_at(&mut self, scenario: &Scenario, definition: &Definition) {
        let mut seen = BTreeSet::new();
        let mut sent: Option<DscpSet> = None;
        for link in &scenario.links {
            let conditions = !link.forward.conditions().is_empty() || !link.backward.conditions().is_empty();
            let classes = !link.forward.classes().is_empty() || !link.backward.classes().is_empty();
            if !(conditions || classes) || !seen.insert(&link.group) {
                continue;
            }
            let sent = *sent.get_or_insert_with(|| code_points(scenario));
            for direction in [Direction::Forward, Direction::Backward] {
                let way = ClassPath { definition, link, direction };
                self.look_at_rules(&way);
                self.look_at_classes(&way, sent);
            }
        }
    }

    fn look_at_rules(&mut self, way: &ClassPath<'_>) {
        let rules = way.settings().conditions();
        let names = self.rules.entry((way.link.group.clone(), way.direction)).or_default();
        names.extend(rules.iter().enumerate().map(|(n, rule)| rule.name(n).into_owned()));
        for (n, rule) in rules.iter().enumerate() {
            let before = rules[..n].iter().position(|before| before.matches.covers(&rule.matches));
            let why = before.map(|before| Unreached {
                message: format!(
                    "rule `{}` never holds: rule `{}` before it matches all its packets",
                    rule.name(n),
                    rules[before].name(before)
                ),
                help: "the first rule that matches applies; put the narrower one first",
            });
            self.note(way.place(&format!("condition.{n}")), why);
        }
    }

    /// Finds classes whose packets all belong to earlier classes, and classes whose code points are not in `sent`.
    fn look_at_classes(&mut self, way: &ClassPath<'_>, sent: DscpSet) {
        let classes = way.settings().classes();
        let names = self.classes.entry((way.link.group.clone(), way.direction)).or_default();
        names.extend(classes.iter().map(|class| class.name().to_owned()));
        let matches: Vec<Match> =
            classes.iter().map(|class| class.matches().unwrap_or_default().into_owned()).collect();
        let mut taken = DscpSet::default();
        for (n, class) in classes.iter().enumerate() {
            let is_last = n + 1 == classes.len();
            let rest = Match::default();
            let own = if is_last { &rest } else { &matches[n] };
            let left = |set: DscpSet| set.iter().any(|dscp| !taken.contains(dscp));
            let hidden = matches[..n].iter().any(|before| before.covers(own))
                || own.dscp.is_some_and(|own| !left(own));
            let absent = own.only_dscp().is_some_and(|own| !own.iter().any(|dscp| sent.contains(dscp)));
            let why = if hidden {
                Some(Unreached {
                    message: format!(
                        "class `{}` is always empty: classes before it match all its packets",
                        class.name()
                    ),
                    help: "a packet belongs to the first class that matches; put the narrower one first",
                })
            } else if absent {
                Some(Unreached {
                    message: format!(
                        "class `{}` is always empty: no flow sends its code point, and no rule gives it",
                        class.name()
                    ),
                    help: "`dscp` of a flow is what its hosts send; a rule of `condition` marks what passes",
                })
            } else {
                None
            };
            if let Some(own) = matches[n].only_dscp() {
                taken = taken.iter().chain(own.iter()).collect();
            }
            self.note(way.place(&format!("classes.{n}")), why);
        }
    }

    fn note(&mut self, place: Vec<String>, why: Option<Unreached>) {
        match why {
            Some(why) => {
                self.unreached.entry(place).or_insert(why);
            }
            None => {
                self.reached.insert(place);
            }
        }
    }

    /// Errors for responses of classes and rules that do not exist on any link at any point.
    pub(super) fn unknown(&self, definition: &Definition, design: &Design) -> Vec<Diagnostic> {
        let mut all = Vec::new();
        for (name, spec) in &design.responses {
            let (known, direction, part, kind) = match &spec.of {
                Of::Class(_, direction, class) => (&self.classes, direction, class, "class"),
                Of::Rule(_, direction, rule) => (&self.rules, direction, rule, "rule"),
                _ => continue,
            };
            let group = spec.of.group();
            let known = known.get(&(group.to_owned(), *direction));
            if known.is_some_and(|known| known.contains(part)) {
                continue;
            }
            let back = if *direction == Direction::Backward { ", backward," } else { "" };
            let message = format!("no {kind} of link `{group}`{back} is called `{part}`");
            let problem = Diagnostic::error(place(definition, &["response", name, "of"]), message);
            all.push(match known.filter(|known| !known.is_empty()) {
                Some(known) => problem.among(part, known.iter().map(String::as_str)),
                None if kind == "class" => {
                    problem.help(format!("its classes are listed as [[link.{group}.classes]]"))
                }
                None => problem.help(format!("its rules are listed as [[link.{group}.condition]]")),
            });
        }
        all
    }

    /// A warning for every unreachable rule and class, at its position.
    pub(super) fn finish(self, definition: &Definition) -> impl Iterator<Item = Diagnostic> {
        let Self { unreached, reached, .. } = self;
        unreached.into_iter().filter(move |(place, _)| !reached.contains(place)).map(|(path, why)| {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            Diagnostic::warning(place(definition, &path), why.message).help(why.help)
        })
    }
}

fn place(definition: &Definition, path: &[&str]) -> Span {
    definition.root.at(path).span.clone()
}

/// The code points that packets can have: those that flows send and those that rules set.
fn code_points(scenario: &Scenario) -> DscpSet {
    let sent = scenario.flows.iter().flat_map(Flow::code_points);
    let ways = scenario.links.iter().flat_map(|link| [&link.forward, &link.backward]);
    let given = ways.flat_map(LinkSettings::conditions).flat_map(|rule| {
        let actions = [Some(rule.green), rule.yellow, Some(rule.red)].into_iter().flatten();
        actions.filter_map(|action| if let ConditionAction::Mark(dscp) = action { Some(dscp) } else { None })
    });
    sent.chain(given).collect()
}
