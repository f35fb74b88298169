//! Delayed responses: a server with a configured response time.

use std::collections::BTreeMap;

use netrig_core::{Instant, SpanDistribution, Stream};

use super::Destination;
use crate::{Message, Name, Response};

/// Most responses that wait at once. Further ones are refused.
const MOST: usize = 1 << 18;

/// Responses with a random delay. Responses to one request keep their order: none leaves before an earlier one.
#[derive(Debug)]
pub struct DelayedResponses {
    law: SpanDistribution,
    random: Stream,
    number: u64,
    due: BTreeMap<(Instant, u64), (Destination, Message)>,
    /// For each request with waiting responses: the time of the last one, and their number.
    last: BTreeMap<String, (Instant, u32)>,
}

impl DelayedResponses {
    /// A queue without responses, for delays of this distribution.
    pub fn new(law: SpanDistribution, random: Stream) -> Self {
        Self { law, random, number: 0, due: BTreeMap::new(), last: BTreeMap::new() }
    }

    /// Delays a response.
    ///
    /// # Errors
    /// Returns the response if too many wait.
    pub fn put(&mut self, now: Instant, to: Destination, response: Response) -> Result<(), Response> {
        if self.due.len() >= MOST {
            return Err(response);
        }
        let span = self.law.draw(&mut self.random);
        let last = self.last.entry(request_of(&response)).or_insert((Instant::ZERO, 0));
        let at = (now + span).max(last.0);
        *last = (at, last.1 + 1);
        self.number += 1;
        self.due.insert((at, self.number), (to, response.into()));
        Ok(())
    }

    /// The time of the next response.
    pub fn next(&self) -> Option<Instant> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }

    /// Removes the next response that is due.
    pub fn poll(&mut self, now: Instant) -> Option<(Destination, Message)> {
        let first = self.due.first_entry().filter(|first| first.key().0 <= now)?;
        let (to, message) = first.remove();
        if let Message::Response(response) = &message {
            let request = request_of(response);
            if let Some((_, count)) = self.last.get_mut(&request) {
                *count -= 1;
                if *count == 0 {
                    self.last.remove(&request);
                }
            }
        }
        Some((to, message))
    }
}

/// Key of the request of a response: `Via` and `CSeq`.
fn request_of(response: &Response) -> String {
    let get = |name: &Name| response.headers.get(name).unwrap_or_default();
    [get(&Name::Via), get(&Name::CSeq)].join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::Source;
    use super::*;
    use crate::header::Transport;
    use crate::{Method, Request, Status};
    use netrig_core::{Duration, Seeds};

    fn waiting(law: &str) -> DelayedResponses {
        DelayedResponses::new(law.parse().unwrap(), Seeds::new(1).stream("delay"))
    }

    fn response(branch: usize, status: Status) -> Response {
        let mut request = Request::new(Method::Invite, "sip:b@192.0.2.1".parse().unwrap());
        request.headers.push(Name::Via, format!("SIP/2.0/UDP h;branch=z9hG4bK{branch}"));
        request.headers.push(Name::CSeq, "1 INVITE");
        request.response(status)
    }

    fn put(waiting: &mut DelayedResponses, now: Instant, response: Response) {
        let to = Source { transport: Transport::Udp, address: ([192, 0, 2, 1], 5060).into() };
        waiting.put(now, Destination::Address(to), response).unwrap();
    }

    #[test]
    fn a_fixed_delay_is_that_long() {
        let mut waiting = waiting("5ms");
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        put(&mut waiting, at(1), response(1, Status::OK));
        assert_eq!(waiting.next(), Some(at(6)));
        assert!(waiting.poll(at(5)).is_none());
        assert!(waiting.poll(at(6)).is_some());
        assert_eq!((waiting.next(), waiting.last.len()), (None, 0));
    }

    #[test]
    fn exponential_delays_have_their_mean_and_keep_the_order_of_a_request() {
        let mut waiting = waiting("exponential:10 ms");
        for branch in 0..20_000 {
            put(&mut waiting, Instant::ZERO, response(branch, Status::RINGING));
        }
        let total: f64 = waiting.due.keys().map(|(at, _)| (*at - Instant::ZERO).as_secs_f64()).sum();
        // The mean of 20,000 has a standard deviation of 0.7 %.
        assert!((total / 20_000.0 - 0.010).abs() < 0.0003, "{total}");
        for branch in 0..20_000 {
            put(&mut waiting, Instant::ZERO, response(branch, Status::OK));
        }
        let mut ringing = std::collections::BTreeSet::new();
        while let Some((_, message)) = waiting.poll(Instant::NEVER) {
            let Message::Response(response) = message else { panic!("only responses wait") };
            let via = response.headers.get(&Name::Via).unwrap().to_owned();
            assert_eq!(ringing.contains(&via), response.status == Status::OK);
            ringing.insert(via);
        }
        assert!(waiting.last.is_empty());
    }
}
