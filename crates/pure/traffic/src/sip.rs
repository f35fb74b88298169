//! SIP users and their server over datagrams, with the state machines of `netrig-sip`. The users are at the flow's
//! first end, and the server at its second.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use netrig_core::{Data, Duration, Instant};
use netrig_sip::Message;
use netrig_sip::header::Transport;
use netrig_sip::index::{quantity, samples_of};
use netrig_sip::load::{AttemptStart, Failure, Moment, Part, Scan};
use netrig_sip::server::{DelayedResponses, Destination, Server, Source};
use netrig_sip::settings::LoadSettings;

use crate::application_settings::ApplicationSettings;
use crate::{AppAction, AppEvent, Application, Ends, FlowContext, SettingsError};

/// Typical size of a SIP message, bytes: that of a request without a session description.
const MESSAGE: f64 = 500.0;

impl ApplicationSettings for Box<LoadSettings> {
    fn check(&self) -> Result<(), SettingsError> {
        self.check_values().map_err(|error| SettingsError::new(error.field, error.why))
    }

    fn ends(&self, flow: &FlowContext) -> Ends {
        let server = SocketAddr::new(flow.server.ip(), self.port);
        let lasts = flow.stop.since(flow.start);
        let plan = self.plan(&flow.name, &flow.seeds, lasts);
        let tester = plan.as_ref().map_err(ToString::to_string);
        let client: Box<dyn Application> =
            match tester.and_then(|plan| Tester::new(self, plan.clone(), server, flow)) {
                Ok(tester) => Box::new(tester),
                Err(why) => Box::new(FailedEnd(Some(why))),
            };
        let served = match (self.server.own(), &plan) {
            (Some(own), Ok(plan)) => {
                let order = own.order(plan, server.ip(), flow.seeds.clone());
                order.server(&[(Transport::Udp, server)]).map_err(|error| error.to_string()).map(|server| {
                    let waiting = own
                        .delay
                        .as_ref()
                        .map(|law| DelayedResponses::new(law.0.clone(), flow.stream("delay")));
                    SipServerEnd { server, waiting, client: flow.client.ip() }
                })
            }
            _ => Err("its server is an external program and not part of netrig".to_owned()),
        };
        let server: Box<dyn Application> = match served {
            Ok(served) => Box::new(served),
            Err(why) => Box::new(FailedEnd(Some(why))),
        };
        Ends { client, server }
    }

    fn datagram(&self) -> Option<f64> {
        Some(MESSAGE)
    }
}

/// Replaces an end that could not be created. It aborts the run at its first event or deadline. The deadline is at time
/// 0.
struct FailedEnd(Option<String>);

impl Application for FailedEnd {
    fn handle(&mut self, _now: Instant, _event: AppEvent, act: &mut dyn FnMut(AppAction)) {
        if let Some(why) = self.0.take() {
            act(AppAction::GiveUp { why });
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.0.is_some().then_some(Instant::ZERO)
    }
}

/// All users of a load, as a single part.
struct Tester {
    part: Part,
    name: String,
    local: SocketAddr,
    /// Start of the flow and of the load.
    start: Instant,
    has_begun: bool,
    /// The next deadline of the users.
    next: Option<Instant>,
}

impl Tester {
    fn new(
        settings: &LoadSettings,
        plan: netrig_sip::load::Plan,
        server: SocketAddr,
        flow: &FlowContext,
    ) -> Result<Self, String> {
        let mut random = flow.stream("sip/run");
        let run = random.bits() as u32;
        let secret = [random.bits(), random.bits()].map(u64::to_le_bytes).concat();
        let secret = secret.try_into().unwrap_or([0; 16]);
        let setup = plan.setup((run, 0), &[flow.client], (server, Transport::Udp));
        let part = Part::new(Arc::new(plan), setup, 1, secret).map_err(|error| error.to_string())?;
        Ok(Self {
            part,
            name: flow.name.clone(),
            local: flow.client,
            start: flow.start,
            has_begun: false,
            // If the load requires registered users, they register before the flow starts.
            next: settings.prepares().then_some(Instant::ZERO),
        })
    }

    fn give_up(&self, why: &str) -> AppAction {
        AppAction::GiveUp { why: format!("flow `{}`: {why}", self.name) }
    }

    /// Starts the load, or aborts the run if not all users are registered.
    fn begin(&mut self, act: &mut dyn FnMut(AppAction)) {
        if self.part.is_prepared() {
            self.has_begun = true;
            self.part.start(self.start);
        } else {
            let [done, all] = self.part.prepared();
            act(self.give_up(&format!(
                "only {done} of {all} users were registered at its start; a later `start` gives them more time"
            )));
        }
    }

    /// Starts the attempts that are due.
    fn users(&mut self, now: Instant, act: &mut dyn FnMut(AppAction)) {
        while let Some(begun) = self.part.begin(now) {
            act(match begun {
                AttemptStart::At(at) => AppAction::record(at, &quantity::SIP_BEGUN, 1.0),
                AttemptStart::Full => self.give_up("it reached the limit `most_calls` of simultaneous calls"),
                AttemptStart::Busy => self.give_up("more users are needed (`users`): all of them were busy"),
            });
        }
    }

    /// Sends waiting messages, and counts attempts that have ended. A message from one user to another is passed on
    /// directly.
    fn flush(&mut self, now: Instant, act: &mut dyn FnMut(AppAction)) {
        loop {
            let own = self.local;
            let mut looped: Vec<Vec<u8>> = Vec::new();
            for (to, bytes) in self.part.out.messages.iter() {
                if to == own {
                    looped.push(bytes.to_vec());
                } else {
                    act(AppAction::Datagram { to, data: Data::Bytes(bytes.into()) });
                }
            }
            self.part.out.messages.clear();
            self.settle(now, act);
            if looped.is_empty() {
                return;
            }
            for bytes in looped {
                self.part.handle(now.into(), own, &Scan::of(&bytes));
            }
        }
    }

    fn settle(&mut self, now: Instant, act: &mut dyn FnMut(AppAction)) {
        let has_begun = self.has_begun;
        self.part.settle(now, |record| {
            if has_begun {
                samples_of(record, now, |sample| act(AppAction::Record(sample)));
            }
        });
        if let Some((user, record)) = self.part.take_aside() {
            let why = record.failure.map_or_else(String::new, |failure: Failure| failure.to_string());
            act(self.give_up(&format!("user {user} could not be registered before it starts: {why}")));
        }
    }
}

impl Application for Tester {
    fn handle(&mut self, now: Instant, event: AppEvent, act: &mut dyn FnMut(AppAction)) {
        match event {
            AppEvent::Started => self.begin(act),
            AppEvent::Stopped => self.part.stop(),
            AppEvent::Datagram { from, data: Data::Bytes(bytes), .. } => {
                self.part.handle(Moment { arrived: now, now }, from, &Scan::of(&bytes));
            }
            _ => {}
        }
        if !self.has_begun {
            self.part.prepare(now);
        }
        self.part.handle_timeout(now);
        self.users(now, act);
        self.flush(now, act);
        // Deadlines at or before `now` have just been handled, so the next one is after `now`.
        let later = |at: Instant| at.max(now + Duration::from_nanos(1));
        self.next = [self.part.next_deadline(), self.part.due()].into_iter().flatten().min().map(later);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }
}

/// A SIP server of netrig.
struct SipServerEnd {
    server: Box<dyn Server>,
    /// Responses that the server delays before it sends them, if it is configured to.
    waiting: Option<DelayedResponses>,
    /// The host of the users. The server can send to no other host.
    client: IpAddr,
}

impl SipServerEnd {
    /// Sends or delays the server's messages.
    fn transmit(&mut self, now: Instant, act: &mut dyn FnMut(AppAction)) {
        while let Some((to, message)) = self.server.poll_transmit() {
            match (&mut self.waiting, message) {
                (Some(waiting), Message::Response(response)) => {
                    // If no more responses can be delayed, the server receives a transport failure instead.
                    if let Err(response) = waiting.put(now, to, response) {
                        self.server.handle_failure(now, &response.into());
                    }
                }
                (_, message) => self.send(now, &to, &message, act),
            }
        }
    }

    fn send(&mut self, now: Instant, to: &Destination, message: &Message, act: &mut dyn FnMut(AppAction)) {
        match to {
            Destination::Address(Source { transport: Transport::Udp, address })
                if address.ip() == self.client =>
            {
                let data = Data::Bytes((*message.to_bytes()).into());
                act(AppAction::Datagram { to: *address, data });
            }
            // No other host exists.
            _ => self.server.handle_failure(now, message),
        }
    }
}

impl Application for SipServerEnd {
    fn handle(&mut self, now: Instant, event: AppEvent, act: &mut dyn FnMut(AppAction)) {
        if let AppEvent::Datagram { from, data: Data::Bytes(bytes), .. } = event
            && let Ok(message) = Message::parse(&Bytes::copy_from_slice(&bytes))
        {
            self.server.handle(now, message, Source { transport: Transport::Udp, address: from });
        }
        self.server.handle_timeout(now);
        self.transmit(now, act);
        while let Some((to, message)) = self.waiting.as_mut().and_then(|waiting| waiting.poll(now)) {
            self.send(now, &to, &message, act);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let waiting = self.waiting.as_ref().and_then(DelayedResponses::next);
        [self.server.poll_timeout(), waiting].into_iter().flatten().min()
    }
}
