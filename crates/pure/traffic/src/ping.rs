//! Ping: datagrams that the other end answers immediately with datagrams of the same size.

use std::collections::VecDeque;
use std::net::SocketAddr;

use netrig_core::{Data, DatagramId, Duration, Instant, Size, SpanDistribution, Stream, quantity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::application_settings::{ApplicationSettings, check_spans};
use crate::{AppAction, AppEvent, Application, Ends, FlowContext, SettingsError};

/// Datagrams that the other end answers: round-trip times (RFC 2681) and two-way loss (RFC 6673).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ping {
    /// Gap between pings. Exponential gaps make the Poisson stream that RFC 2681 section 2.7 and RFC 6673 section 4.5
    /// require.
    pub interval: SpanDistribution,
    /// Payload of a ping, and of its answer.
    pub size: Size,
    /// Longest wait for an answer, above zero. A later answer counts as lost (Tmax of RFC 6673).
    #[serde(default = "two_seconds")]
    pub wait: Duration,
}

/// The default of most ping programs on a slow network.
fn two_seconds() -> Duration {
    Duration::from_secs(2)
}

impl ApplicationSettings for Ping {
    fn check(&self) -> Result<(), SettingsError> {
        check_spans("interval", &self.interval)?;
        if self.wait.is_zero() {
            return Err(SettingsError::new("wait", "it must be above zero"));
        }
        if self.size.bytes() > LONGEST {
            return Err(SettingsError::new("size", format!("UDP over IP takes at most {LONGEST} B")));
        }
        Ok(())
    }

    fn ends(&self, flow: &FlowContext) -> Ends {
        let pinger = Pinger {
            server: flow.server,
            settings: self.clone(),
            gaps: flow.stream("gaps"),
            next: None,
            sent: 0,
            undecided: VecDeque::new(),
        };
        Ends { client: Box::new(pinger), server: Box::new(EchoResponder) }
    }

    fn datagram(&self) -> Option<f64> {
        Some(self.size.bytes() as f64)
    }

    fn pace(&self, _headers: u32) -> Option<f64> {
        Some(1.0 / self.interval.mean().as_secs_f64())
    }

    fn offered_load(&self) -> Option<f64> {
        Some(self.size.bytes() as f64 / self.interval.mean().as_secs_f64())
    }
}

/// The longest payload over IPv4 (RFC 768, RFC 791), bytes: 65535 minus 28.
const LONGEST: u64 = 65_507;

/// Sends pings and receives their answers.
struct Pinger {
    server: SocketAddr,
    settings: Ping,
    gaps: Stream,
    /// Time of the next ping. `None` before the flow starts and after it has stopped.
    next: Option<Instant>,
    /// Pings sent so far.
    sent: u64,
    /// Pings whose wait has not ended, oldest first. The last entry is the last ping sent.
    undecided: VecDeque<PendingPing>,
}

/// A ping that waits for its answer.
struct PendingPing {
    until: Instant,
    answered: bool,
}

impl Pinger {
    fn ping(&mut self, due: Instant, act: &mut dyn FnMut(AppAction)) {
        let data = Data::Fill(self.settings.size.bytes());
        act(AppAction::Datagram { to: self.server, data });
        self.undecided.push_back(PendingPing { until: due + self.settings.wait, answered: false });
        self.sent += 1;
        // Computed from the due time, not from `now`: if the carrier is late, the rate of pings does not fall.
        self.next = Some(due + self.settings.interval.draw(&mut self.gaps));
    }

    /// Counts the pings whose wait has ended, answered or not. A ping whose wait has not ended when the run ends is not
    /// counted: only the answered ones among them are decided, so counting would be biased.
    fn decide(&mut self, now: Instant, act: &mut dyn FnMut(AppAction)) {
        while let Some(ping) = self.undecided.pop_front_if(|ping| ping.until <= now) {
            act(AppAction::record(now, &quantity::PINGS, 1.0));
            if ping.answered {
                act(AppAction::record(now, &quantity::PINGS_ANSWERED, 1.0));
            }
        }
    }

    fn answered(&mut self, now: Instant, ping: DatagramId, act: &mut dyn FnMut(AppAction)) {
        let oldest = self.sent - self.undecided.len() as u64;
        let place = ping.number.checked_sub(oldest).and_then(|place| usize::try_from(place).ok());
        let Some(found) = place.and_then(|place| self.undecided.get_mut(place)) else { return };
        if !std::mem::replace(&mut found.answered, true) {
            // RFC 2681 section 2.4: measured from the time at which the first bit was sent.
            act(AppAction::took(now, &quantity::ROUND_TRIP_TIME, ping.sent));
        }
    }
}

impl Application for Pinger {
    fn handle(&mut self, now: Instant, event: AppEvent, act: &mut dyn FnMut(AppAction)) {
        self.decide(now, act);
        match event {
            AppEvent::Started => self.next = Some(now + self.settings.interval.draw(&mut self.gaps)),
            AppEvent::Timeout => {
                if let Some(due) = self.next.filter(|due| *due <= now) {
                    self.ping(due, act);
                }
            }
            AppEvent::Answered { datagram, .. } => self.answered(now, datagram, act),
            AppEvent::Stopped => self.next = None,
            _ => {}
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let decided = self.undecided.front().map(|ping| ping.until);
        [self.next, decided].into_iter().flatten().min()
    }
}

/// Answers each ping, and records its one-way delay.
struct EchoResponder;

impl Application for EchoResponder {
    fn handle(&mut self, now: Instant, event: AppEvent, act: &mut dyn FnMut(AppAction)) {
        if let AppEvent::Datagram { from, number, sent, data } = event {
            act(AppAction::Answer { to: from, datagram: DatagramId { number, sent }, data });
            act(AppAction::took(now, &quantity::ONE_WAY_DELAY, sent));
            act(AppAction::record(sent, &quantity::DATAGRAMS_RECEIVED, 1.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::react;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * MS)
    }

    fn settings() -> Ping {
        Ping {
            interval: SpanDistribution::Constant(Duration::from_millis(10)),
            size: Size::from_bytes(64),
            wait: Duration::from_millis(50),
        }
    }

    fn ends(settings: &Ping) -> Ends {
        settings.ends(&FlowContext::of_test("ping", 1))
    }

    /// Sends pings every 10 ms for 100 ms. `answer` returns the delay of the answer to the n-th ping in milliseconds,
    /// or `None` if it is not answered. Returns the samples up to 200 ms, each with its time in milliseconds.
    fn run(answer: impl Fn(u64) -> Option<u64>) -> Vec<(u64, &'static str, f64)> {
        let mut pinger = ends(&settings()).client;
        let (mut samples, mut answers, mut sent) = (vec![], vec![], 0);
        let mut next = react(&mut *pinger, at(0), AppEvent::Started, |_| {});
        for ms in 0..=200 {
            let mut events: Vec<AppEvent> = answers
                .iter()
                .filter(|(when, _)| *when == ms)
                .map(|(_, datagram)| AppEvent::Answered { datagram: *datagram, data: Data::Fill(64) })
                .collect();
            events.extend((ms == 100).then_some(AppEvent::Stopped));
            events.extend(next.filter(|due| *due <= at(ms)).map(|_| AppEvent::Timeout));
            for event in events {
                next = react(&mut *pinger, at(ms), event, |action| match action {
                    AppAction::Datagram { data, .. } => {
                        assert_eq!(data.size(), 64);
                        if let Some(took) = answer(sent) {
                            answers.push((ms + took, DatagramId { number: sent, sent: at(ms) }));
                        }
                        sent += 1;
                    }
                    AppAction::Record(sample) => {
                        samples.push((sample.at.as_nanos() / MS, sample.quantity.name, sample.value));
                    }
                    other => panic!("{other:?}"),
                });
            }
        }
        assert_eq!(sent, 9, "from 10 to 90 ms");
        samples
    }

    fn count(samples: &[(u64, &str, f64)], name: &str) -> usize {
        samples.iter().filter(|(_, quantity, _)| *quantity == name).count()
    }

    #[test]
    fn a_round_trip_is_told_when_the_answer_comes() {
        let samples = run(|n| Some(3 + n));
        let first: Vec<_> =
            samples.iter().filter(|(_, name, _)| *name == "round_trip_time").take(2).collect();
        assert_eq!(first, [&(13, "round_trip_time", 0.003), &(24, "round_trip_time", 0.004)]);
        assert_eq!((count(&samples, "pings"), count(&samples, "pings_answered")), (9, 9));
    }

    /// Of nine pings, every third is not answered, and one is answered after 60 ms although the wait is 50 ms.
    #[test]
    fn what_is_answered_late_or_not_at_all_is_lost() {
        let samples = run(|n| (n % 3 != 0).then_some(if n == 4 { 60 } else { 5 }));
        assert_eq!((count(&samples, "pings"), count(&samples, "pings_answered")), (9, 5));
        assert_eq!(count(&samples, "round_trip_time"), 5);
        // The first ping, sent at 10 ms, is not answered. It counts as lost at 60 ms, when its wait ends.
        assert_eq!(samples.iter().find(|(_, name, _)| *name == "pings"), Some(&(60, "pings", 1.0)));
    }

    #[test]
    fn an_answer_counts_once_and_only_to_what_was_sent() {
        let mut pinger = ends(&settings()).client;
        react(&mut *pinger, at(0), AppEvent::Started, |_| {});
        react(&mut *pinger, at(10), AppEvent::Timeout, |_| {});
        let mut actions = 0;
        for number in [0, 0, 1, u64::MAX] {
            let datagram = DatagramId { number, sent: at(10) };
            let event = AppEvent::Answered { datagram, data: Data::Fill(64) };
            react(&mut *pinger, at(12), event, |_| actions += 1);
        }
        assert_eq!(actions, 1);
    }

    #[test]
    fn the_answer_names_what_it_answers_and_is_as_long() {
        let mut echo = ends(&settings()).server;
        let from = ([10, 0, 0, 1], 40_000).into();
        let event = AppEvent::Datagram { from, number: 7, sent: at(1), data: Data::Fill(64) };
        let mut actions = vec![];
        react(&mut *echo, at(3), event, |action| actions.push(action));
        let AppAction::Answer { to, datagram, data } = &actions[0] else { panic!("{actions:?}") };
        assert_eq!((*to, *datagram, data.size()), (from, DatagramId { number: 7, sent: at(1) }, 64));
    }

    #[test]
    fn a_ping_that_waits_for_nothing_is_refused() {
        let error = Ping { wait: Duration::ZERO, ..settings() }.check().expect_err("no wait");
        assert_eq!(error.field, "wait");
    }
}
