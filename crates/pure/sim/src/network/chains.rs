//! Lines that are offered packets ahead of time: chains and merges.

use std::collections::{BTreeMap, BTreeSet};

use super::{LinkPassage, Network, ScheduledFifo, Stop};
#[cfg(test)]
use crate::actor::{EndId, FlowSide};
use crate::merge::Merge;

impl Network {
    /// Finds the lines that are offered packets ahead of time. Call it once all ways have been added. Such a line has a closed
    /// form, and a single other line with a closed form feeds it; the node between the two is not captured.
    pub fn chain(&mut self) {
        #[derive(Clone, Copy, PartialEq)]
        enum Feeder {
            None,
            Line(u32),
            Several,
        }
        let fifo_at = |place: usize| match self.stops.get(place) {
            Some(Stop::Over(LinkPassage::Fifo(line))) if !self.fifos[*line as usize].has_outages => {
                Some(*line)
            }
            _ => None,
        };
        let mut feeders = vec![Feeder::None; self.fifos.len()];
        for place in 0..self.stops.len() {
            let Some(line) = fifo_at(place) else { continue };
            let before = place.checked_sub(1).filter(|_| !self.beginnings.contains(&place));
            let feeder = match before.and_then(|before| Some((before, fifo_at(before)?))) {
                Some((before, line)) if !self.is_tapped(before) => Feeder::Line(line),
                _ => Feeder::Several,
            };
            let known = &mut feeders[line as usize];
            *known = if *known == Feeder::None || *known == feeder { feeder } else { Feeder::Several };
        }
        let chained = |place: usize| {
            let (Some(line), Some(next)) = (fifo_at(place), fifo_at(place + 1)) else { return false };
            !self.beginnings.contains(&(place + 1)) && feeders[next as usize] == Feeder::Line(line)
        };
        let chained: Vec<_> = (0..self.stops.len()).filter(|place| chained(*place)).collect();
        for place in chained {
            if let Stop::Over(LinkPassage::Fifo(line)) = self.stops[place] {
                self.stops[place] = Stop::Over(LinkPassage::Ahead(line));
            }
        }
        for (line, feeder) in (0..).zip(feeders) {
            if let Feeder::Line(feeder) = feeder {
                self.fifos[feeder as usize].fed.push(line);
            }
        }
        self.find_merges();
    }

    /// Finds the merges: see [`Merge`]. Call it after the chains are known. Lines whose packets go on through one have closed forms and
    /// lead to one line only, which has a closed form and a delay, and to which no others lead; the node between is not captured.
    fn find_merges(&mut self) {
        let without_outages = |line: u32| (!self.fifos[line as usize].has_outages).then_some(line);
        let fifo_at = |place: usize| match self.stops.get(place) {
            Some(Stop::Over(LinkPassage::Fifo(line))) => without_outages(*line),
            _ => None,
        };
        let target_at = |place: usize| match self.stops.get(place) {
            Some(Stop::Over(LinkPassage::Fifo(line) | LinkPassage::Ahead(line))) => without_outages(*line)
                .filter(|line| self.fifos[*line as usize].line.delay() >= Merge::LEAST_DELAY),
            _ => None,
        };
        // For each line the one to which it leads; none if that is more than one, or not a line that can be a target.
        let mut leads_to: BTreeMap<u32, Option<u32>> = BTreeMap::new();
        for place in 0..self.stops.len() {
            let Some(line) = fifo_at(place) else { continue };
            let ScheduledFifo { line: fifo, fed, .. } = &self.fifos[line as usize];
            let may_merge = fed.is_empty() && fifo.takes_time();
            let next = target_at(place + 1)
                .filter(|_| may_merge)
                .filter(|_| !self.is_tapped(place) && !self.beginnings.contains(&(place + 1)));
            leads_to
                .entry(line)
                .and_modify(|known| *known = known.filter(|known| Some(*known) == next))
                .or_insert(next);
        }
        let leads = |place: usize| fifo_at(place).and_then(|line| leads_to[&line]);
        let refused: BTreeSet<u32> = (0..self.stops.len())
            .filter(|place| {
                let before = place.checked_sub(1).filter(|_| !self.beginnings.contains(place));
                target_at(*place).is_some() && before.and_then(leads) != target_at(*place)
            })
            .filter_map(target_at)
            .collect();
        let (mut merges, mut merge_of) = (BTreeMap::new(), BTreeMap::new());
        for (line, target) in leads_to {
            let Some(target) = target.filter(|target| !refused.contains(target)) else { continue };
            let merge = *merges.entry(target).or_insert_with(|| {
                self.merges.push(Merge::new(target, self.fifos[target as usize].line.delay()));
                self.merges.len() as u32 - 1
            });
            self.merges[merge as usize].feeders.push(line);
            merge_of.insert(line, merge);
        }
        for stop in &mut self.stops {
            if let Stop::Over(LinkPassage::Fifo(line)) = *stop
                && let Some(&merge) = merge_of.get(&line)
            {
                *stop = Stop::Over(LinkPassage::Merging { line, merge });
            }
        }
    }

    /// Whether the frames at the node behind this stop are captured.
    fn is_tapped(&self, stop: usize) -> bool {
        self.tap.as_ref().is_some_and(|tap| tap.is_behind(stop))
    }
}

#[cfg(test)]
impl Network {
    /// Makes every packet vanish behind the first line whose packets go on ahead of time. Returns whether there is one.
    pub fn break_chain(&mut self) -> bool {
        self.break_behind(|passage| matches!(passage, LinkPassage::Ahead(_)))
    }

    /// Makes every packet vanish behind the first line whose packets go on through a merge. Returns whether there is one.
    pub fn break_merge(&mut self) -> bool {
        self.break_behind(|passage| matches!(passage, LinkPassage::Merging { .. }))
    }

    fn break_behind(&mut self, is_broken: impl Fn(&LinkPassage) -> bool) -> bool {
        let is_broken = |stop: &Stop| matches!(stop, Stop::Over(passage) if is_broken(passage));
        let Some(place) = self.stops.iter().position(is_broken) else { return false };
        self.stops[place + 1] = Stop::End(EndId::of(0, FlowSide::Server));
        true
    }
}
