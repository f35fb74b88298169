//! Lines that receive packets ahead of time, that is, before the preceding line delivers them: chains and merges.

use std::collections::{BTreeMap, BTreeSet};

#[cfg(test)]
use netrig_traffic::FlowSide;

use super::{LinkPassage, Network, ScheduledFifo, Stop};
#[cfg(test)]
use crate::actor::EndId;
use crate::merge::Merge;

impl Network {
    /// Finds the lines that receive packets ahead of time. Call it after all ways have been added. Such a line has a
    /// closed form, exactly one other line with a closed form feeds it, and no packets are captured at the node between
    /// them.
    pub fn chain(&mut self) {
        #[derive(Clone, Copy, PartialEq)]
        enum Feeder {
            None,
            Line(u32),
            Several,
        }
        let fifo_at = |stop: usize| match self.stops.get(stop) {
            Some(Stop::Over(LinkPassage::Fifo(line))) if !self.fifos[*line as usize].has_outages => {
                Some(*line)
            }
            _ => None,
        };
        let mut feeders = vec![Feeder::None; self.fifos.len()];
        for stop in 0..self.stops.len() {
            let Some(line) = fifo_at(stop) else { continue };
            let before = stop.checked_sub(1).filter(|_| !self.beginnings.contains(&stop));
            let feeder = match before.and_then(|before| Some((before, fifo_at(before)?))) {
                Some((before, line)) if !self.is_tapped(before) => Feeder::Line(line),
                _ => Feeder::Several,
            };
            let known = &mut feeders[line as usize];
            *known = if *known == Feeder::None || *known == feeder { feeder } else { Feeder::Several };
        }
        let chained = |stop: usize| {
            let (Some(line), Some(next)) = (fifo_at(stop), fifo_at(stop + 1)) else { return false };
            !self.beginnings.contains(&(stop + 1)) && feeders[next as usize] == Feeder::Line(line)
        };
        let chained: Vec<_> = (0..self.stops.len()).filter(|stop| chained(*stop)).collect();
        for stop in chained {
            if let Stop::Over(LinkPassage::Fifo(line)) = self.stops[stop] {
                self.stops[stop] = Stop::Over(LinkPassage::Ahead(line));
            }
        }
        for (line, feeder) in (0..).zip(feeders) {
            if let Feeder::Line(feeder) = feeder {
                self.fifos[feeder as usize].fed.push(line);
            }
        }
        self.find_merges();
    }

    /// Finds the merges ([`Merge`]). Call it after the chains have been found. All feeders of a merge have closed forms
    /// and feed only the target. The target has a closed form and a delay, no other lines feed it, and no packets are
    /// captured at the node between.
    fn find_merges(&mut self) {
        let without_outages = |line: u32| (!self.fifos[line as usize].has_outages).then_some(line);
        let fifo_at = |stop: usize| match self.stops.get(stop) {
            Some(Stop::Over(LinkPassage::Fifo(line))) => without_outages(*line),
            _ => None,
        };
        let target_at = |stop: usize| match self.stops.get(stop) {
            Some(Stop::Over(LinkPassage::Fifo(line) | LinkPassage::Ahead(line))) => without_outages(*line)
                .filter(|line| self.fifos[*line as usize].line.delay() >= Merge::LEAST_DELAY),
            _ => None,
        };
        // For each line, the line that it feeds. `None` if it feeds several lines, or a line that cannot be a target.
        let mut leads_to: BTreeMap<u32, Option<u32>> = BTreeMap::new();
        for stop in 0..self.stops.len() {
            let Some(line) = fifo_at(stop) else { continue };
            let ScheduledFifo { line: fifo, fed, .. } = &self.fifos[line as usize];
            let may_merge = fed.is_empty() && fifo.takes_time();
            let next = target_at(stop + 1)
                .filter(|_| may_merge)
                .filter(|_| !self.is_tapped(stop) && !self.beginnings.contains(&(stop + 1)));
            leads_to
                .entry(line)
                .and_modify(|known| *known = known.filter(|known| Some(*known) == next))
                .or_insert(next);
        }
        let leads = |stop: usize| fifo_at(stop).and_then(|line| leads_to[&line]);
        let refused: BTreeSet<u32> = (0..self.stops.len())
            .filter(|stop| {
                let before = stop.checked_sub(1).filter(|_| !self.beginnings.contains(stop));
                target_at(*stop).is_some() && before.and_then(leads) != target_at(*stop)
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

    /// Whether packets are captured at the node after this stop.
    fn is_tapped(&self, stop: usize) -> bool {
        self.tap.as_ref().is_some_and(|tap| tap.is_behind(stop))
    }
}

#[cfg(test)]
impl Network {
    /// Makes every packet vanish after the first line that forwards packets ahead of time. Returns whether there is
    /// such a line.
    pub fn break_chain(&mut self) -> bool {
        self.break_behind(|passage| matches!(passage, LinkPassage::Ahead(_)))
    }

    /// Makes every packet vanish after the first line that forwards packets through a merge. Returns whether there is
    /// such a line.
    pub fn break_merge(&mut self) -> bool {
        self.break_behind(|passage| matches!(passage, LinkPassage::Merging { .. }))
    }

    fn break_behind(&mut self, is_broken: impl Fn(&LinkPassage) -> bool) -> bool {
        let is_broken = |stop: &Stop| matches!(stop, Stop::Over(passage) if is_broken(passage));
        let Some(stop) = self.stops.iter().position(is_broken) else { return false };
        self.stops[stop + 1] = Stop::End(EndId::of(0, FlowSide::Server));
        true
    }
}
