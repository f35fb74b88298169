//! A model of a server in virtual time, and a driver that performs the orders of a search on it.

use netrig_core::{Seeds, Stream};
use netrig_sip_tester::capacity::{
    CallCounts, CapacitySearch, CapacityVerdict, DelaySeen, DriverOrder, LoadStep, MachineStalls,
    StepObservation, StepOutcome, StepPause, StepProgress, TesterSeen,
};

/// The time after which a lost call is detected: 64 T1.
const LOST_S: f64 = 32.0;

/// The interval between observations, s.
const TICK_S: f64 = 0.5;

/// A model server.
pub struct Server {
    /// The calls per second that it serves.
    pub capacity: f64,
    /// The largest number of waiting calls; further calls are lost.
    pub buffer: f64,
    /// The duration of a call without waiting, s.
    pub delay_s: f64,
    /// Returns the share of refused calls at a rate.
    pub refuses: Box<dyn Fn(f64) -> f64>,
    /// After a lost call, the server loses all calls for this time, s.
    pub recovery_s: f64,
    /// The time from the last started call until the server answers the lost calls, which are retransmitted, s.
    pub answers_again_s: f64,
    /// Returns the faults of the tester at a rate, in the step with this number. A tester with faults starts no calls.
    pub tester: Box<dyn FnMut(f64, u32) -> Vec<String>>,
    /// The share of steps with a stall of the machine, in which many calls are lost.
    pub stalls: f64,
    /// The share of steps in which half of the calls fail by chance, without a stall or a fault of the tester.
    pub mischance: f64,
    /// The share of the intended calls that the driver starts.
    pub offered: f64,
    /// Whether calls arrive as a Poisson process instead of at equal intervals.
    pub is_poisson: bool,
    pub state: State,
}

/// The variable state of a server.
pub struct State {
    /// Virtual time since the start, s.
    pub now_s: f64,
    waiting: f64,
    /// The unused part of the capacity, less than one call.
    credit: f64,
    blind_until_s: f64,
    steps: u32,
    random: Stream,
}

impl State {
    fn new(seed: u64) -> Self {
        Self {
            now_s: 0.0,
            waiting: 0.0,
            credit: 0.0,
            blind_until_s: 0.0,
            steps: 0,
            random: Seeds::new(seed).stream("test/capacity/server"),
        }
    }
}

impl Server {
    /// A server that serves `capacity` calls per second, immediately or after a short wait.
    pub fn of(capacity: f64) -> Self {
        Self {
            capacity,
            buffer: 20.0,
            delay_s: 0.005,
            refuses: Box::new(|_| 0.0),
            recovery_s: 0.0,
            answers_again_s: f64::INFINITY,
            tester: Box::new(|_, _| Vec::new()),
            stalls: 0.0,
            mischance: 0.0,
            offered: 1.0,
            is_poisson: false,
            state: State::new(1),
        }
    }

    /// The same server with another seed.
    pub fn seeded(self, seed: u64) -> Self {
        Self { state: State::new(seed), ..self }
    }

    /// Performs all orders of the search.
    pub fn drive(&mut self, search: &mut CapacitySearch) -> CapacityVerdict {
        loop {
            match search.next() {
                DriverOrder::Step(step) => self.step(search, &step),
                DriverOrder::Drain(StepPause { span_s, .. }) => {
                    self.pass(span_s);
                    search.drained();
                }
                DriverOrder::Finished(verdict) => return verdict,
            }
        }
    }

    /// Performs a step, until the results of all its calls are known or the wait for them is over.
    pub fn step(&mut self, search: &mut CapacitySearch, step: &LoadStep) {
        self.state.steps += 1;
        let mut load = Load { begun_s: self.state.now_s, ..Load::default() };
        load.is_unlucky = self.mischance > 0.0 && self.state.random.chance(self.mischance);
        load.is_spoilt = self.stalls > 0.0 && self.state.random.chance(self.stalls);
        let linger_s = loop {
            self.tick(step, &mut load);
            if let StepProgress::Enough { linger_s, .. } = search.observe(&load.seen(self, step.rate)) {
                break linger_s;
            }
            let is_counted_out = step.calls.is_some_and(|calls| load.counts.begun >= calls);
            if is_counted_out || load.span_s + 1e-9 >= step.at_most_s {
                break step.linger_s;
            }
        };
        let (until_s, answered_s) = (self.state.now_s + linger_s, self.state.now_s + self.answers_again_s);
        while load.counts.open() > 0 && self.state.now_s < until_s {
            self.serve(0.0, &mut load);
            self.state.now_s += TICK_S;
            if self.state.now_s >= answered_s {
                let answered: u64 = load.losses.drain(..).map(|(_, calls)| calls).sum();
                load.counts.succeeded += answered;
                load.delays.push((answered, self.answers_again_s));
            }
            load.learn(self.state.now_s);
        }
        self.state.waiting = 0.0;
        let seen = load.seen(self, step.rate);
        let record = search.end(&seen).expect("a step was ordered");
        assert_eq!(record.rate, step.rate);
        let is_server = record.decision.outcome == StepOutcome::Failed;
        assert!(!is_server || seen.tester.faults.is_empty(), "the server is blamed for {:?}", seen.tester);
    }

    fn tick(&mut self, step: &LoadStep, load: &mut Load) {
        let is_faulty = !(self.tester)(step.rate, self.state.steps).is_empty();
        let share = if is_faulty { 0.0 } else { self.offered };
        load.due += self.arrivals(share * step.rate);
        let mut calls = load.due.floor();
        if let Some(most) = step.calls {
            calls = calls.min((most - load.counts.begun) as f64);
        }
        load.due -= load.due.floor();
        load.span_s += TICK_S;
        load.counts.begun += calls as u64;
        if self.state.now_s < self.state.blind_until_s {
            self.lose(calls, load);
        } else {
            let mut refused = self.refused(calls as u64, step.rate);
            if load.is_spoilt && load.span_s >= 1.0 {
                load.stalls = MachineStalls { count: 1, longest_s: 0.3, total_s: 0.3, steal: 0.0 };
            }
            if load.is_unlucky || load.stalls.count > 0 {
                refused = refused.max((calls / 2.0) as u64);
            }
            load.counts.failed += refused;
            self.serve(calls - refused as f64, load);
        }
        self.state.now_s += TICK_S;
        load.learn(self.state.now_s);
    }

    /// The calls that arrive in a tick.
    fn arrivals(&mut self, rate: f64) -> f64 {
        if !self.is_poisson {
            return rate * TICK_S;
        }
        let gaps = std::iter::repeat_with(|| self.state.random.exponential(1.0 / rate));
        let until = |at: &mut f64, gap: f64| {
            *at += gap;
            (*at <= TICK_S).then_some(())
        };
        gaps.scan(0.0, until).count() as f64
    }

    fn refused(&mut self, calls: u64, rate: f64) -> u64 {
        let share = (self.refuses)(rate);
        if share == 0.0 {
            return 0;
        }
        (0..calls).filter(|_| self.state.random.chance(share)).count() as u64
    }

    /// Serves waiting and new calls up to the capacity. The other calls wait, or are lost if the buffer is full.
    fn serve(&mut self, calls: f64, load: &mut Load) {
        let all = self.state.waiting + calls;
        let can = self.state.credit + self.capacity * TICK_S;
        let served = all.min(can.floor());
        self.state.credit = can.fract();
        let lost = (all - served - self.buffer).max(0.0).ceil();
        self.state.waiting = all - served - lost;
        self.lose(lost, load);
        load.counts.succeeded += served as u64;
        load.delays.push((served as u64, self.delay_s + self.state.waiting / self.capacity));
    }

    fn lose(&mut self, calls: f64, load: &mut Load) {
        if calls > 0.0 {
            load.losses.push((self.state.now_s, calls as u64));
            self.state.blind_until_s = self.state.blind_until_s.max(self.state.now_s + self.recovery_s);
        }
    }

    /// Lets time pass without load.
    fn pass(&mut self, span_s: f64) {
        self.state.now_s += span_s;
    }
}

/// The driver's state of a step.
#[derive(Default)]
struct Load {
    begun_s: f64,
    is_spoilt: bool,
    is_unlucky: bool,
    stalls: MachineStalls,
    span_s: f64,
    due: f64,
    counts: CallCounts,
    /// Times and numbers of lost calls that are not yet detected.
    losses: Vec<(f64, u64)>,
    /// Numbers of calls with their delay, s.
    delays: Vec<(u64, f64)>,
}

impl Load {
    /// Updates the results of lost calls: they are overdue after 2.5 s and detected after 64 T1. In this model, calls
    /// that wait at the server do not become overdue.
    fn learn(&mut self, now_s: f64) {
        let is_known = |(at, _): &(f64, u64)| now_s - at >= LOST_S;
        let known: u64 = self.losses.iter().filter(|loss| is_known(loss)).map(|(_, calls)| calls).sum();
        self.losses.retain(|loss| !is_known(loss));
        self.counts.failed += known;
        let overdue = self.losses.iter().filter(|(at, _)| now_s - at >= 2.5);
        self.counts.overdue = overdue.map(|(_, calls)| calls).sum();
    }

    fn seen(&self, server: &mut Server, rate: f64) -> StepObservation {
        let n: u64 = self.delays.iter().map(|(calls, _)| calls).sum();
        let mean_s =
            self.delays.iter().map(|(calls, delay)| *calls as f64 * delay).sum::<f64>() / n.max(1) as f64;
        let max_s = self.delays.iter().map(|(_, delay)| *delay).fold(0.0, f64::max);
        let delay = DelaySeen { delay: "connection".to_owned(), n, mean_s, p95_s: max_s, max_s };
        StepObservation {
            span_s: self.span_s,
            counts: self.counts,
            delays: vec![delay],
            stalls: self.stalls,
            took_s: server.state.now_s - self.begun_s,
            tester: TesterSeen { faults: (server.tester)(rate, server.state.steps), ..TesterSeen::default() },
            ..StepObservation::default()
        }
    }
}
