//! The reports of a network, and the balance of its packets.

use netrig_core::{Duration, HOP_LIMIT, Instant, Sample, Sink, Subject, Timeline, quantity};
use netrig_experiment::{Balance, RunError};
use netrig_link::wire::words;
use netrig_link::{FifoReading, Imbalance, LineCounters, WireMeters};

use super::{ExpiringNode, LinkPassage, Network, ScheduledFifo};
use crate::air::Air;
use crate::merge::Merge;
use crate::parcel::Carriage;

impl Network {
    /// Reports the interval since the last tick.
    pub fn tick(&mut self, now: Instant, timeline: &Timeline, sink: &mut dyn Sink) {
        // The merges forward all packets up to `now`, so that the counters are complete.
        for number in 0..self.merges.len() as u32 {
            self.forward_merged(now + Duration::from_nanos(1), number);
        }
        for index in &self.reporting {
            let (passage, meters) = &mut self.meters[*index];
            match *passage {
                LinkPassage::Wire(wire) => {
                    meters.tick(now, &mut self.wires[wire as usize].wire, timeline, sink)
                }
                LinkPassage::Fifo(line) => {
                    meters.tick_fifo(now, &mut self.fifos[line as usize].line, timeline, sink);
                }
                LinkPassage::Air(..)
                | LinkPassage::Ahead(_)
                | LinkPassage::Merging { .. }
                | LinkPassage::Cable => {}
            }
        }
        self.airs.iter_mut().for_each(|air| air.tick(now, timeline, sink));
        self.events.flush(sink);
        self.hosts.iter_mut().for_each(|host| host.tick(now, timeline, sink));
        for own in &mut self.expiring {
            own.tick(&self.names[own.node as usize], now, timeline, sink);
        }
    }

    /// The balance of all packets at `now`.
    ///
    /// # Errors
    /// If the packets of a link or a node do not balance, which is a defect of a model. The error names the link or
    /// node.
    pub fn balance(&self, now: Instant) -> Result<Balance, RunError> {
        let mut sum = Balance::default();
        let mut add = |counters: &LineCounters, inside: usize| {
            sum.offered += counters.offered.packets;
            sum.duplicated += counters.duplicated.packets;
            sum.delivered += counters.delivered.packets;
            sum.dropped += counters.dropped_in_all().packets;
            sum.inside += inside as u64;
        };
        for (passage, meters) in &self.meters {
            let failed = |error| RunError::Failed(format!("{}: {error}", meters.name()));
            match *passage {
                LinkPassage::Wire(wire) => {
                    let wire = &self.wires[wire as usize].wire;
                    add(wire.counters(), wire.balance().map_err(failed)?);
                }
                LinkPassage::Fifo(line) => {
                    let (counters, inside) = self.account(now, line).map_err(failed)?;
                    add(&counters, inside);
                }
                LinkPassage::Air(..)
                | LinkPassage::Ahead(_)
                | LinkPassage::Merging { .. }
                | LinkPassage::Cable => {}
            }
        }
        for merge in &self.merges {
            let counters = |line: &u32| self.fifos[*line as usize].line.read(now).counters;
            let delivered = merge.feeders.iter().map(|line| counters(line).delivered.packets).sum::<u64>();
            let offered = counters(&merge.target).offered.packets;
            if delivered != offered {
                let is_target = |(passage, _): &&(LinkPassage, WireMeters)| matches!(*passage, LinkPassage::Fifo(line) if line == merge.target);
                // Every line has meters, so the default is not used.
                let name = self.meters.iter().find(is_target).map_or("", |(_, meters)| meters.name());
                return Err(RunError::Failed(format!(
                    "{name}: packets do not balance: the lines that lead to it delivered {delivered}, and {offered} were offered to it"
                )));
            }
        }
        for (name, counters, inside) in self.airs.iter().flat_map(Air::account) {
            add(counters, inside.map_err(|error| RunError::Failed(format!("{name}: {error}")))?);
        }
        sum.offered += self.cables.offered;
        sum.delivered += self.cables.delivered;
        sum.inside += self.cables.underway.len() as u64;
        for host in &self.hosts {
            let own = host.balance();
            if !own.holds() {
                return Err(RunError::Failed(format!(
                    "node {}: packets do not balance: {own:?}",
                    host.name()
                )));
            }
            sum.offered += own.offered;
            sum.delivered += own.delivered;
            sum.dropped += own.dropped;
            sum.inside += own.inside;
        }
        Ok(sum)
    }

    /// The counters of a line with a closed form at `now`, and the number of packets inside. `delivered` is not the
    /// line's own count: it is the number of packets taken from the line plus the number offered to the lines that it
    /// feeds. A line that feeds a merge keeps its own count; [`Network::balance`] compares the sum over the feeders
    /// with the count of the target.
    fn account(&self, now: Instant, number: u32) -> Result<(LineCounters, usize), Imbalance> {
        let ScheduledFifo { line, fed, .. } = &self.fifos[number as usize];
        let FifoReading { mut counters, inside, .. } = line.read(now);
        let offered = |line: &u32| self.fifos[*line as usize].line.read(now).counters.offered.packets;
        if !self.merges.iter().any(|merge| merge.feeders.contains(&number)) {
            counters.delivered.packets = line.delivered() + fed.iter().map(offered).sum::<u64>();
        }
        counters.balance(inside).map(|()| (counters, inside))
    }

    /// Number of packets in the network.
    pub fn packets(&self) -> usize {
        let fifos: usize = self.fifos.iter().map(|scheduled| scheduled.line.held()).sum();
        let wires: usize = self.wires.iter().map(|scheduled| scheduled.wire.inside()).sum();
        let merges: usize = self.merges.iter().map(Merge::len).sum();
        let airs: usize = self.airs.iter().map(Air::inside).sum();
        let hosts: u64 = self.hosts.iter().map(|host| host.balance().inside).sum();
        fifos + wires + merges + airs + hosts as usize + self.cables.underway.len()
    }

    /// Memory of packets, of the records of lines and of the agenda, bytes.
    pub fn bytes(&self) -> usize {
        let lines: usize = self.fifos.iter().map(|scheduled| scheduled.line.bytes()).sum();
        let wires: usize = self.wires.iter().map(|scheduled| scheduled.wire.noted_bytes()).sum();
        let merges: usize = self.merges.iter().map(Merge::bytes).sum();
        let packets = self.packets() + self.pool.len();
        packets * Carriage::BYTES + lines + merges + wires + self.events.bytes() + self.agenda.bytes()
    }
}

impl ExpiringNode {
    /// Reports the drops since the last tick, but nothing before the first drop.
    fn tick(&mut self, name: &str, now: Instant, timeline: &Timeline, sink: &mut dyn Sink) {
        let (subject, dropped) = (Subject::Node(self.node), self.dropped - self.before);
        if self.dropped > 0 {
            let quantity = &quantity::HOP_LIMIT_DROPS;
            sink.sample(subject, Sample { at: now, quantity, value: dropped as f64 });
        }
        if dropped > 0 {
            let why = format!("their hop limit of {HOP_LIMIT} ran out");
            timeline.note(now, subject, || words::drops(name, dropped, &why, self.ticked), sink);
        }
        (self.before, self.ticked) = (self.dropped, now);
    }
}
