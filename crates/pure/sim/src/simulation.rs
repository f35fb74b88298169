//! A run: the simulation of a scenario, and the loop over virtual time.

use std::sync::atomic::{AtomicBool, Ordering};

use netrig_core::{CLIENT_PORT, Duration, Instant, Quantity, Seeds, Sink, Size, Subject, Timeline, quantity};
use netrig_experiment::{Action, Flow, Route, Run, RunError, RunOutcome, Scenario, TimedEvent};
use netrig_link::wire::words;
use netrig_traffic::{AppEvent, Application, FlowContext, FlowSide};
use netrig_transport::ReportingEnds;

use crate::actor::{Actor, EndId, PacketHolder};
use crate::blueprint::{Blueprint, FlowPath, acceptor, carrier_at};
use crate::flow_end::{EndContext, FlowEnd, TimerOwner};
use crate::flow_record::FlowRecord;
use crate::network::Network;

/// Number of events between two checks of the cancel flag and of the memory: a few milliseconds of real time.
const CANCEL_EVERY: u64 = 1 << 14;

/// Approximate memory of a connection, bytes.
const CONNECTION: usize = 4096;

/// One run in virtual time.
pub(crate) struct Simulation<'a> {
    scenario: &'a Scenario,
    seeds: Seeds,
    network: Network,
    /// Indexed by [`EndId::index`].
    ends: Vec<FlowEnd>,
    records: Vec<FlowRecord>,
    timers: Vec<TimerOwner>,
    timeline: Timeline,
    /// The end of the run: `duration`, or the time at which all flows of `ends_with` were done, if that is earlier.
    end: Instant,
    /// The reason for which an application gave up the run, if one did.
    given_up: Option<String>,
    /// The memory limit.
    most_memory: Size,
}

impl<'a> Simulation<'a> {
    /// Builds the simulation of `run`, at the time before its first event.
    ///
    /// # Errors
    /// If the scenario is invalid. The check of the experiment should have found this.
    pub fn new(run: &'a Run, most_memory: Size, sink: &dyn Sink) -> Result<Self, RunError> {
        let scenario = &*run.scenario;
        let seeds = Seeds::new(run.seed);
        let mut network = Network::new(scenario, &seeds, sink)?;
        let mut ends = Vec::with_capacity(2 * scenario.flows.len());
        let mut records = Vec::with_capacity(scenario.flows.len());
        for (flow, number) in scenario.flows.iter().zip(0..) {
            ends.extend(ends_of(flow, number, scenario, &seeds, sink, &mut network)?);
            records.push(FlowRecord::new(number, scenario.sample_every, sink));
        }
        network.chain();
        let end = Instant::ZERO + scenario.duration;
        let timeline = Timeline::new(sink);
        let (timers, given_up) = (Vec::new(), None);
        Ok(Self { scenario, seeds, network, ends, records, timers, timeline, end, given_up, most_memory })
    }

    /// Runs until the end of the run.
    ///
    /// # Errors
    /// [`RunError::Cancelled`] soon after `cancel` is set. [`RunError::Failed`] if packets or bytes do not balance, if
    /// the run exceeds its memory limit or if an application gives up.
    pub fn run(mut self, sink: &mut dyn Sink, cancel: &AtomicBool) -> Result<RunOutcome, RunError> {
        self.fill_agenda();
        for (node, number) in self.scenario.nodes.iter().zip(0..).filter(|(node, _)| !node.cpus.is_empty()) {
            let words =
                || format!("`cpus` of node {} have no effect here: models need no processor", node.name);
            self.timeline.note(Instant::ZERO, Subject::Node(number), words, sink);
        }
        while let Some((now, actor)) = self.network.agenda.next(self.end) {
            if self.network.agenda.handled().is_multiple_of(CANCEL_EVERY) {
                if cancel.load(Ordering::Relaxed) {
                    return Err(RunError::Cancelled);
                }
                self.check_memory(now, sink)?;
            }
            self.wake(now, actor, sink);
            if let Some(why) = self.given_up {
                return Err(RunError::Failed(why));
            }
            if !self.scenario.ends_with.is_empty() && self.flows_are_done() {
                self.end = now;
                break;
            }
        }
        self.tick(self.end, sink);
        for record in &self.records {
            record.finish(self.end, sink);
        }
        self.check_memory(self.end, sink)?;
        self.check_bytes()?;
        let balance = self.network.balance(self.end)?;
        let events = self.network.agenda.handled();
        let lasted = Some(self.end.since(Instant::ZERO)).filter(|span| *span < self.scenario.duration);
        Ok(RunOutcome {
            balance,
            events,
            lasted,
            lateness: Duration::ZERO,
            invalid: None,
            moved: None,
            remarks: Vec::new(),
            deterministic: !self.seeds.were_drawn_from(),
        })
    }

    fn fill_agenda(&mut self) {
        let agenda = &mut self.network.agenda;
        for (event, place) in self.scenario.events.iter().zip(0..) {
            agenda.enter(event.at, Actor::Event(place));
        }
        for (flow, number) in self.scenario.flows.iter().zip(0..) {
            agenda.enter(flow.start, Actor::FlowStarts(number));
            if flow.stop < self.end {
                agenda.enter(flow.stop, Actor::FlowStops(number));
            }
        }
        self.ends.iter_mut().for_each(|end| end.prepare(agenda));
        agenda.enter_last(Instant::ZERO + self.scenario.sample_every, Actor::Tick);
    }

    /// Called once per event, from the loop of [`Simulation::run`]. Without the attribute the compiler does not inline
    /// it.
    #[inline(always)]
    fn wake(&mut self, now: Instant, actor: Actor, sink: &mut dyn Sink) {
        match actor {
            Actor::Network(holder) => self.serve(now, holder, sink),
            Actor::FifoLine(line) => {
                while let Some((end, mut carriage)) = self.network.arrived_from_fifo(now, line, sink) {
                    self.at_end(end, sink, |end, context| end.packet(now, &mut carriage, context));
                    self.network.recycle(carriage);
                }
            }
            Actor::Merge(merge) => self.network.serve_merge(now, merge),
            Actor::Timer(timer) => {
                let TimerOwner { end, conn } = self.timers[timer as usize];
                self.at_end(end, sink, |end, context| end.connection_timeout(now, conn, context));
            }
            Actor::Reader(timer) => {
                let TimerOwner { end, conn } = self.timers[timer as usize];
                self.at_end(end, sink, |end, context| end.read(now, conn, context));
            }
            Actor::Application(end) => {
                self.at_end(end, sink, |end, context| end.application_timeout(now, context));
            }
            // The server's end starts first: it must listen before the client opens a connection.
            Actor::FlowStarts(flow) => {
                for end in [FlowSide::Server, FlowSide::Client].map(|side| EndId::of(flow, side)) {
                    self.at_end(end, sink, |end, context| end.notify(now, AppEvent::Started, context));
                }
            }
            Actor::FlowStops(flow) => {
                self.at_end(EndId::of(flow, FlowSide::Client), sink, |end, context| {
                    end.notify(now, AppEvent::Stopped, context)
                });
            }
            Actor::Event(number) => self.apply(now, &self.scenario.events[number as usize], sink),
            Actor::Tick => {
                self.tick(now, sink);
                self.network.agenda.enter_last(now + self.scenario.sample_every, Actor::Tick);
            }
        }
    }

    /// Delivers the packets that have left `holder`.
    fn serve(&mut self, now: Instant, holder: PacketHolder, sink: &mut dyn Sink) {
        if !self.network.met(now, holder) {
            return;
        }
        while let Some((end, mut carriage)) = self.network.arrived(now, holder, sink) {
            self.at_end(end, sink, |end, context| end.packet(now, &mut carriage, context));
            self.network.recycle(carriage);
        }
        self.network.reappoint(holder);
    }

    #[inline(always)]
    fn at_end(&mut self, end: EndId, sink: &mut dyn Sink, act: impl FnOnce(&mut FlowEnd, &mut EndContext)) {
        let mut context = EndContext {
            network: &mut self.network,
            record: &mut self.records[end.flow()],
            timers: &mut self.timers,
            timeline: &self.timeline,
            given_up: &mut self.given_up,
            sink,
        };
        act(&mut self.ends[end.index()], &mut context);
    }

    /// Checks the memory of the run and of its kept samples. It is called every [`CANCEL_EVERY`] events and at the end,
    /// so a run may exceed the limit by the memory of that many events.
    fn check_memory(&self, now: Instant, sink: &dyn Sink) -> Result<(), RunError> {
        let kept = sink.kept_bytes();
        let taken = (self.network.bytes() + self.timers.len() * CONNECTION) as u64 + kept;
        if taken <= self.most_memory.bytes() {
            return Ok(());
        }
        Err(RunError::Failed(format!(
            "the run takes more memory than its limit ({}) after {:.6} s of virtual time: {} packets are on their way, {} \
             connections were opened, and its samples take {:.3} MB; offer less load, bound the queues, use statistics that keep no \
             samples (such as the mean), or raise the limit with --memory",
            self.most_memory,
            now.since(Instant::ZERO).as_secs_f64(),
            self.network.packets(),
            self.timers.len(),
            kept as f64 / 1e6,
        )))
    }

    /// Checks for each flow that all bytes have arrived, if all its connections report that they delivered everything.
    fn check_bytes(&self) -> Result<(), RunError> {
        for ((record, ends), flow) in self.records.iter().zip(self.ends.chunks(2)).zip(&self.scenario.flows) {
            let missing = record.meter.outstanding();
            if missing != 0 && ends.iter().all(FlowEnd::has_delivered) {
                return Err(RunError::Failed(format!(
                    "the bytes of flow `{}` do not balance: its connections report that all data was delivered, and {missing} B \
                     have not arrived",
                    flow.name
                )));
            }
        }
        Ok(())
    }

    /// Whether all flows of `ends_with` are done.
    fn flows_are_done(&self) -> bool {
        let ends = |flow: &usize| &self.ends[2 * flow..2 * flow + 2];
        self.scenario.ends_with.iter().flat_map(ends).all(FlowEnd::is_done)
    }

    fn apply(&mut self, now: Instant, event: &TimedEvent, sink: &mut dyn Sink) {
        match event.action {
            Action::Link { link, direction, event } => {
                let words = || words::link_event(&self.scenario.links[link].name, direction, &event);
                self.timeline.note(now, Subject::Link(link as u32, direction), words, sink);
                self.network.apply(now, link, direction, event);
            }
            Action::Interface { node, link, up } => {
                for end in self.ends_at(node) {
                    self.at_end(end, sink, |end, context| end.interface(now, link, up, context));
                }
            }
            Action::SetPrimary { node, link } => {
                for end in self.ends_at(node) {
                    self.at_end(end, sink, |end, context| end.set_primary(now, link, context));
                }
            }
        }
    }

    /// The ends of flows at `node`.
    fn ends_at(&self, node: usize) -> Vec<EndId> {
        let sides = |(flow, number): (&Flow, u32)| {
            [(flow.from, FlowSide::Client), (flow.to, FlowSide::Server)]
                .map(|(at, side)| (at, EndId::of(number, side)))
        };
        let ends = self.scenario.flows.iter().zip(0..).flat_map(sides);
        ends.filter(|(at, _)| *at == node).map(|(_, end)| end).collect()
    }

    fn tick(&mut self, now: Instant, sink: &mut dyn Sink) {
        self.network.tick(now, &self.timeline, sink);
        for number in 0..self.scenario.flows.len() as u32 {
            for end in FlowSide::BOTH.map(|side| EndId::of(number, side)) {
                self.at_end(end, sink, |end, context| end.offer_until(now, context));
            }
        }
        for (record, ends) in self.records.iter_mut().zip(self.ends.chunks(2)) {
            let counted = |whose, of| {
                let counts = |end: &&FlowEnd| whose == ReportingEnds::Both || end.plan.sends_data;
                ends.iter().filter(counts).map(|end| end.counted(of)).sum()
            };
            record.tick(now, counted, sink);
        }
    }
}

/// Builds the two ends of a flow.
fn ends_of(
    flow: &Flow,
    number: u32,
    scenario: &Scenario,
    seeds: &Seeds,
    sink: &dyn Sink,
    network: &mut Network,
) -> Result<[FlowEnd; 2], RunError> {
    let server_port = flow.server_port(number);
    let paths = paths_of(flow, number, scenario, network)?;
    let server =
        paths[0].first().ok_or_else(|| RunError::Failed(format!("flow `{}` has no path", flow.name)))?;
    let context = FlowContext {
        name: flow.name.clone(),
        seeds: seeds.clone(),
        client: (server.local, CLIENT_PORT).into(),
        server: (server.remote, server_port).into(),
        start: flow.start,
        stop: flow.stop,
        datagram_headers: flow.rate_headers(),
        streams: flow.carrier.streams(),
    };
    let applications = flow.application.ends(&context);
    let traces = sink.wants(&quantity::CWND);
    let offers_are_wanted = |recorded: &[&'static Quantity]| {
        recorded.iter().chain([&&quantity::OFFERED_BYTES]).any(|quantity| sink.wants(quantity))
    };
    let (answers, code_points) = (flow.application.answers(), flow.code_points());
    let [client_paths, server_paths] = paths;
    let end = |side, paths: Vec<FlowPath>, ports: [u16; 2], application: Box<dyn Application>| {
        let sends_data = (side == FlowSide::Server) == answers;
        let dscp = code_points[side as usize];
        let host = &scenario.nodes[if side == FlowSide::Client { flow.from } else { flow.to }].host;
        let carrier = carrier_at(host, &flow.carrier);
        FlowEnd::new(Blueprint {
            acceptor: acceptor(&carrier, (ports[0], dscp), &paths, seeds, &flow.name),
            id: EndId::of(number, side),
            flow: number,
            name: flow.name.clone(),
            side,
            sends_data,
            traces: traces && sends_data,
            offers: application.offers().is_some(),
            counts_offers: application.offers().is_some_and(offers_are_wanted),
            carrier,
            // The MSS option has 16 bits.
            announced_mss: host.mss.map(|mss| u16::try_from(mss.bytes()).unwrap_or(u16::MAX)),
            dscp,
            reads: flow.reads.filter(|_| !sends_data),
            paths: paths.into(),
            ports,
            seeds: seeds.clone(),
            application,
        })
    };
    Ok([
        end(FlowSide::Client, client_paths, [CLIENT_PORT, server_port], applications.client),
        end(FlowSide::Server, server_paths, [server_port, CLIENT_PORT], applications.server),
    ])
}

/// The paths of a flow as seen from its client and its server.
fn paths_of(
    flow: &Flow,
    number: u32,
    scenario: &Scenario,
    network: &mut Network,
) -> Result<[Vec<FlowPath>; 2], RunError> {
    let broken = |route: &Route| {
        RunError::Failed(format!("path `{}` of flow `{}` leads nowhere", route.name, flow.name))
    };
    let mut paths = [Vec::new(), Vec::new()];
    for route in &flow.paths {
        let (first, last) = route.hops.first().zip(route.hops.last()).ok_or_else(|| broken(route))?;
        let near = scenario.address(flow.from, first.link).ok_or_else(|| broken(route))?;
        let far = scenario.address(flow.to, last.link).ok_or_else(|| broken(route))?;
        for (back, local, remote, link) in [(false, near, far, first.link), (true, far, near, last.link)] {
            let node = if back { flow.from } else { flow.to };
            let service =
                scenario.nodes[node].receive.map(|receive| (node, receive.takes(flow.carrier.streams())));
            let to = EndId::of(number, if back { FlowSide::Client } else { FlowSide::Server });
            let way = network.add_way(route, back, to, service);
            paths[usize::from(back)].push(FlowPath { name: route.name.clone(), local, remote, link, way });
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use netrig_core::{Direction, Sample};
    use netrig_experiment::{Experiment, Reduction, Substrate};

    use crate::Simulator;

    use super::*;

    /// Name, the two nodes, start time and packet payload of a constant flow.
    type ConstantFlow = (&'static str, [char; 2], &'static str, &'static str);

    /// A run of these flows over lines of 1 Mbit/s and 1 ms. The name of a line is the names of its two nodes.
    fn run(links: &[&str], flows: &[ConstantFlow]) -> Run {
        let nodes: std::collections::BTreeSet<_> = links.iter().flat_map(|link| link.chars()).collect();
        let nodes = nodes.iter().map(|node| format!("[node.{node}]\n"));
        let links = links.iter().map(|link| {
            let (from, to) = link.split_at(1);
            format!(
                "[link.{link}]\nbetween = [\"{from}\", \"{to}\"]\nrate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n\
                 queue = {{ kind = \"fifo\", packets = 5 }}\n"
            )
        });
        let flows = flows.iter().map(|(name, [from, to], start, size)| {
            format!(
                "[flow.{name}]\nfrom = \"{from}\"\nto = \"{to}\"\ntransport = \"udp\"\nstart = \"{start}\"\n\
                 application = {{ kind = \"cbr\", interval = \"20 ms\", size = \"{size}\" }}\n"
            )
        });
        let head = "format = 1\nname = \"lines\"\nquestion = \"?\"\nduration = \"1 s\"\nsample_every = \"100 ms\"\n\
                    replications = { count = 1 }\ntransport.udp = { kind = \"udp\" }\n\
                    response.arrived = { of = \"flow.two\", metric = \"data_packets_received\" }\n";
        let text = head.to_owned() + &nodes.chain(links).chain(flows).collect::<String>();
        Experiment::parse_runs("lines.toml", text).unwrap().plan().run(0, 1).unwrap()
    }

    /// Records all samples, and wants the frames of a node or the packets of a link.
    #[derive(Default)]
    struct Watcher {
        node: Option<u32>,
        link: Option<u32>,
        /// Whether it does not want the quantities that applications offer.
        ignores_offers: bool,
        samples: Vec<String>,
    }

    impl Sink for Watcher {
        fn sample(&mut self, subject: Subject, sample: Sample) {
            let Sample { at, quantity, value } = sample;
            if !self.wants(quantity) {
                return;
            }
            self.samples.push(format!("{subject:?} {} {at} {value}", quantity.name));
        }

        // A trace of the congestion window would contain a sample for every event of an end.
        fn wants(&self, quantity: &'static Quantity) -> bool {
            let offers = [quantity::OFFERED_BYTES.name, quantity::OBJECTS_SENT.name];
            quantity.name != quantity::CWND.name && !(self.ignores_offers && offers.contains(&quantity.name))
        }

        fn wants_frames(&self, node: u32) -> bool {
            self.node == Some(node)
        }

        fn wants_packets(&self, link: u32, _: Direction) -> bool {
            self.link == Some(link)
        }
    }

    /// The error of the run after `breaking` changed its network. Without the change, the run must balance.
    fn failure_of(run: &Run, breaking: impl Fn(&mut Network) -> bool) -> String {
        let mut watcher = Watcher::default();
        let simulation = || Simulation::new(run, Simulator::MOST_MEMORY, &Watcher::default()).unwrap();
        let balance = simulation().run(&mut watcher, &AtomicBool::new(false)).unwrap().balance;
        assert!(balance.holds() && balance.delivered > 140, "{balance:?}");
        let mut broken = simulation();
        assert!(breaking(&mut broken.network));
        broken.run(&mut watcher, &AtomicBool::new(false)).unwrap_err().to_string()
    }

    /// The delays of 100,000 datagrams are kept for a quantile, at least 16 B each.
    #[test]
    fn samples_that_are_kept_count_as_memory_of_the_run() {
        let failure = |statistic: &str, most: u64| {
            let file = format!(
                "format = 1\nname = \"kept\"\nduration = \"1 s\"\nreplications = {{ count = 1 }}\n[node.a]\n[node.b]\n\
                 [link.ab]\nbetween = [\"a\", \"b\"]\nrate = \"1 Gbit/s\"\ndelay = \"1 ms\"\n\
                 queue = {{ kind = \"fifo\", packets = 5 }}\n[flow.f]\nfrom = \"a\"\nto = \"b\"\n\
                 application = {{ kind = \"cbr\", interval = \"10 us\", size = \"20 B\" }}\n\
                 [response.delay]\nof = \"flow.f\"\nmetric = \"one_way_delay\"\nstatistic = \"{statistic}\"\n"
            );
            let experiment = Experiment::parse_runs("kept.toml", file).unwrap();
            let run = experiment.plan().run(0, 1).unwrap();
            let mut reduction =
                Reduction::new(&experiment.design.responses, experiment.warm_up, &run.scenario);
            let simulator = Simulator { most_memory: Size::from_bytes(most) };
            let ended = simulator.run(&run, &mut reduction, &AtomicBool::new(false));
            ended.err().map(|error| error.to_string())
        };
        assert_eq!(failure("mean", 1_000_000), None);
        assert_eq!(failure("p95", 3_000_000), None);
        let failed = failure("p95", 1_000_000).unwrap();
        assert!(failed.contains("more memory than its limit (1 MB) after 0."), "{failed}");
        assert!(
            failed.contains("its samples take 0.9") && failed.contains("raise the limit with --memory"),
            "{failed}"
        );
    }

    /// The run ends before the first periodic check of its memory.
    #[test]
    fn a_short_run_is_held_to_its_memory_at_its_end() {
        let run = run(&["ab"], &[("two", ['a', 'b'], "0 s", "160 B")]);
        for most in [0, 1000] {
            let simulator = Simulator { most_memory: Size::from_bytes(most) };
            let ended = simulator.run(&run, &mut Watcher::default(), &AtomicBool::new(false));
            let failed = ended.unwrap_err().to_string();
            assert!(
                failed.contains("the run takes more memory than its limit") && failed.contains("after 1.0"),
                "{failed}"
            );
        }
    }

    #[test]
    fn a_packet_that_vanishes_in_a_chain_fails_the_run() {
        let run = run(&["ab", "bc", "cd"], &[("two", ['a', 'd'], "0 s", "160 B")]);
        let failed = failure_of(&run, Network::break_chain);
        assert!(failed.contains("ab (forward): packets do not balance"), "{failed}");
    }

    #[test]
    fn a_packet_that_vanishes_in_a_merge_fails_the_run() {
        let flows = [("two", ['a', 'd'], "0 s", "160 B"), ("one", ['c', 'd'], "1 ms", "160 B")];
        let failed = failure_of(&run(&["ab", "cb", "bd"], &flows), Network::break_merge);
        assert!(failed.contains("bd (forward): packets do not balance"), "{failed}");
    }

    #[test]
    fn packets_of_a_line_that_leads_to_two_others_balance() {
        let flows = [
            ("two", ['x', 'd'], "0 s", "160 B"),
            ("one", ['x', 'e'], "1 ms", "160 B"),
            ("other", ['z', 'e'], "2 ms", "160 B"),
        ];
        let run = run(&["xy", "zy", "yd", "ye"], &flows);
        let mut watcher = Watcher::default();
        let simulation = Simulation::new(&run, Simulator::MOST_MEMORY, &watcher).unwrap();
        let balance = simulation.run(&mut watcher, &AtomicBool::new(false)).unwrap().balance;
        assert!(balance.holds() && balance.delivered > 140, "{balance:?}");
    }

    /// Flow `a` sends two packets at once over a line of 1 Mbit/s. Flow `b` sends one packet after the first of them
    /// has arrived, at twice the rate. It arrives together with the second packet of `a`, and both arrivals have a
    /// cause at the same time.
    #[test]
    fn who_watches_makes_no_difference_to_ties_of_one_cause() {
        let line = |link: &str, ends: [&str; 2], rate: u32, delay: u32| {
            format!(
                "[link.{link}]\nbetween = [\"{}\", \"{}\"]\nrate = \"{rate} Mbit/s\"\ndelay = \"{delay} ms\"\n\
                 queue = {{ kind = \"fifo\", packets = 100 }}\n",
                ends[0], ends[1]
            )
        };
        let flow = |name: &str, datagrams: &str| {
            format!(
                "[flow.{name}]\nfrom = \"{name}\"\nto = \"e\"\ntransport = \"udp\"\n\
                 application = {{ kind = \"trace\", datagrams = {datagrams}, repeat = false }}\n"
            )
        };
        let head = "format = 1\nname = \"ties\"\nquestion = \"?\"\nduration = \"1 s\"\nsample_every = \"100 ms\"\n\
                    replications = { count = 1 }\ntransport.udp = { kind = \"udp\", headers = \"none\" }\n\
                    response.arrived = { of = \"flow.a\", metric = \"data_packets_received\" }\n\
                    [node.a]\n[node.b]\n[node.m]\n[node.e]\n";
        for first in ["a", "b"] {
            let mut flows = [
                flow("a", "[[\"0 s\", \"125 B\"], [\"0 s\", \"125 B\"]]"),
                flow("b", "[[\"1 ms\", \"250 B\"]]"),
            ];
            if first == "b" {
                flows.reverse();
            }
            let lines =
                [line("am", ["a", "m"], 1, 0), line("bm", ["b", "m"], 2, 0), line("me", ["m", "e"], 1, 1)];
            let file = head.to_owned() + &lines.concat() + &flows.concat();
            let run = Experiment::parse_runs("ties.toml", file).unwrap().plan().run(0, 1).unwrap();
            let samples = |node: Option<u32>| {
                let mut watcher = Watcher { node, ..Watcher::default() };
                let simulation = Simulation::new(&run, Simulator::MOST_MEMORY, &watcher).unwrap();
                simulation.run(&mut watcher, &AtomicBool::new(false)).unwrap();
                watcher.samples.sort();
                watcher.samples
            };
            let alone = samples(None);
            for node in 0..4 {
                assert_eq!(samples(Some(node)), alone, "{first} first, frames of node {node}");
            }
        }
    }

    /// Flow `two` crosses two lines to `c`, and flow `one` crosses one line. Packets of 125 B and 250 B arrive there at
    /// the same time, and line `cd` sends them one after the other. The waiting time of the second packet shows which
    /// one was first.
    #[test]
    fn who_watches_makes_no_difference_to_ties() {
        let flows = [("two", ['a', 'd'], "0 s", "97 B"), ("one", ['e', 'd'], "1 ms", "222 B")];
        let run = run(&["ab", "bc", "ec", "cd"], &flows);
        let samples = |mut watcher: Watcher| {
            Simulation::new(&run, Simulator::MOST_MEMORY, &watcher)
                .unwrap()
                .run(&mut watcher, &AtomicBool::new(false))
                .unwrap();
            watcher.samples.sort();
            watcher.samples
        };
        let alone = samples(Watcher::default());
        assert!(
            alone.iter().any(|line| line.contains("waiting_time") && line.ends_with(" 0.002")),
            "{alone:?}"
        );
        for node in 0..5 {
            assert_eq!(
                samples(Watcher { node: Some(node), ..Watcher::default() }),
                alone,
                "frames of node {node}"
            );
        }
        for link in 0..4 {
            assert_eq!(
                samples(Watcher { link: Some(link), ..Watcher::default() }),
                alone,
                "packets of link {link}"
            );
        }
    }

    /// Four connections over separate lines with different rates and delays share one line that drops packets. If the
    /// sink wants the frames of a router, the router forwards packets one by one.
    #[test]
    fn whether_packets_go_on_together_makes_no_difference() {
        let mut file = "format = 1\nname = \"merge\"\nquestion = \"?\"\nduration = \"20 s\"\nsample_every = \"100 ms\"\n\
                        replications = { count = 1 }\ntransport.tcp = { kind = \"tcp\" }\n\
                        response.goodput = { of = \"flow.f0\", metric = \"goodput\" }\n\
                        [node.left]\n[node.right]\n[link.shared]\nbetween = [\"left\", \"right\"]\nrate = \"10 Mbit/s\"\n\
                        delay = \"10 ms\"\nqueue = { kind = \"fifo\", packets = 20 }\n"
            .to_owned();
        for (number, rate, delay) in [(0, 100, 1), (1, 100, 1), (2, 3, 30), (3, 20, 7)] {
            file += &format!(
                "[node.a{number}]\n[node.b{number}]\n\
                 [link.near{number}]\nbetween = [\"a{number}\", \"left\"]\nrate = \"{rate} Mbit/s\"\n\
                 delay = \"{delay} ms\"\nqueue = {{ kind = \"fifo\", packets = 30 }}\n\
                 [link.far{number}]\nbetween = [\"right\", \"b{number}\"]\nrate = \"{rate} Mbit/s\"\n\
                 delay = \"{delay} ms\"\nqueue = {{ kind = \"fifo\", packets = 30 }}\n\
                 [flow.f{number}]\nfrom = \"a{number}\"\nto = \"b{number}\"\ntransport = \"tcp\"\n\
                 application = {{ kind = \"bulk\" }}\n"
            );
        }
        let run = Experiment::parse_runs("merge.toml", file).unwrap().plan().run(0, 1).unwrap();
        let samples = |node: Option<u32>| {
            let mut watcher = Watcher { node, ..Watcher::default() };
            let simulation = Simulation::new(&run, Simulator::MOST_MEMORY, &watcher).unwrap();
            let events = simulation.run(&mut watcher, &AtomicBool::new(false)).unwrap().events;
            watcher.samples.sort();
            (watcher.samples, events)
        };
        let (together, fewer) = samples(None);
        assert!(together.len() > 1000, "{}", together.len());
        for router in [0, 1] {
            let (one_by_one, more) = samples(Some(router));
            let other = together.iter().zip(&one_by_one).find(|(one, other)| one != other);
            assert_eq!((other, together.len()), (None, one_by_one.len()), "router {router}");
            assert!(fewer < more, "{fewer} {more}");
        }
    }

    /// Web objects over a saturated line with losses and an outage, over TCP and SCTP with several profiles.
    #[test]
    fn when_an_application_is_told_of_its_deadlines_makes_no_difference() {
        let text = |transport: &str, exchange: &str, gap: &str| {
            format!(
                "format = 1\nname = \"web\"\nquestion = \"?\"\nduration = \"30 s\"\nsample_every = \"100 ms\"\n\
                 replications = {{ count = 1 }}\n[node.a]\n[node.b]\n[link.ab]\nbetween = [\"a\", \"b\"]\n\
                 rate = \"1 Mbit/s\"\ndelay = \"40 ms\"\nqueue = {{ kind = \"fifo\", packets = 12 }}\n\
                 [transport.used]\n{transport}\n[[event]]\nat = \"12 s\"\nlink = \"ab\"\n\
                 do = {{ down_for = \"3 s\", direction = \"both\", queue = \"drop\", in_flight = \"lose\" }}\n\
                 [flow.web]\nfrom = \"a\"\nto = \"b\"\ntransport = \"used\"\nstop = \"29 s\"\n\
                 [flow.web.application]\nkind = \"web\"\ninterarrival = {{ exponential = \"{gap}\" }}\n\
                 size = {{ pareto = {{ mean = \"10 KB\", shape = 1.3 }} }}\nsources = 3\nstreams = 2\n\
                 exchange = \"{exchange}\"\n[response.goodput]\nof = \"flow.web\"\nmetric = \"goodput\"\n"
            )
        };
        for transport in [
            "kind = \"tcp\"\nprofile = \"ns2\"\nmss = \"1460 B\"\nsend_window = 45",
            "kind = \"tcp\"\nprofile = \"linux\"",
            "kind = \"tcp\"\nprofile = \"rfc\"",
            "kind = \"sctp\"\nprofile = \"ns2\"",
            "kind = \"sctp\"\nprofile = \"rfc\"",
        ] {
            for (exchange, gap) in [("push", "60 ms"), ("push", "400 ms"), ("request", "30 ms")] {
                let file = text(transport, exchange, gap);
                let run = Experiment::parse_runs("web.toml", file).unwrap().plan().run(0, 1).unwrap();
                let samples = |is_eager: bool, ignores_offers: bool| {
                    let mut watcher = Watcher { ignores_offers, ..Watcher::default() };
                    let mut simulation = Simulation::new(&run, Simulator::MOST_MEMORY, &watcher).unwrap();
                    simulation.ends.iter_mut().for_each(|end| end.is_eager = is_eager);
                    let events = simulation.run(&mut watcher, &AtomicBool::new(false)).unwrap().events;
                    watcher.samples.sort();
                    (watcher.samples, events)
                };
                for ignores_offers in [false, true] {
                    let (eager, more) = samples(true, ignores_offers);
                    let (patient, fewer) = samples(false, ignores_offers);
                    let other = eager.iter().zip(&patient).find(|(eager, patient)| eager != patient);
                    assert_eq!(other, None, "{transport} {exchange} {gap} {ignores_offers}");
                    assert!(eager.len() > 1000 && eager.len() == patient.len(), "{}", eager.len());
                    if (exchange, gap) == ("push", "60 ms") {
                        assert!(fewer < more, "{transport}: {fewer} {more}");
                    }
                }
            }
        }
    }
}
