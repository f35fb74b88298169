//! Web objects with heavy-tailed sizes.

use std::net::SocketAddr;

use netrig_core::{ConnectionEvent, Instant, Quantity, Size, SpanDistribution, Stream, StreamId, quantity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::application_settings::{ApplicationSettings, check_spans};
use crate::inbox::ObjectInbox;
use crate::{AppAction, AppEvent, Application, ConnId, Ends, FlowContext, SettingsError, SizeDistribution};

/// Web objects, with exponential or other gaps and Pareto or other sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Web {
    /// Gaps between the objects of one source.
    pub interarrival: SpanDistribution,
    /// Size of an object.
    pub size: SizeDistribution,
    /// Independent sources that share the flow's connection.
    #[serde(default = "one_source")]
    pub sources: u32,
    /// Number of streams that carry the objects in turn, at most those of the connection. With `think`, also the number
    /// of users.
    #[serde(default = "one_stream")]
    pub streams: u16,
    /// Direction and timing of the objects.
    #[serde(default)]
    pub exchange: WebExchange,
    /// Size of a request, for `request` and `think`.
    #[serde(default = "request_size")]
    pub request: Size,
}

fn one_stream() -> u16 {
    1
}

fn one_source() -> u32 {
    1
}

fn request_size() -> Size {
    Size::from_bytes(400)
}

/// Which end sends a web object, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WebExchange {
    /// The flow's first end sends objects at their arrival times, whether or not earlier ones arrived.
    #[default]
    Push,
    /// The flow's first end requests an object at its arrival time, and the other end sends it: open loop.
    Request,
    /// A user requests an object, waits for all of it, thinks for a gap, and requests the next: closed loop.
    Think,
}

/// Largest number of sources. Each source has its own random stream.
const MAX_SOURCES: u32 = 100_000;

impl ApplicationSettings for Web {
    fn check(&self) -> Result<(), SettingsError> {
        check_spans("interarrival", &self.interarrival)?;
        self.size.check("size")?;
        let positive = |field, n: u64| {
            if n > 0 { Ok(()) } else { Err(SettingsError::new(field, "it must be above zero")) }
        };
        positive("sources", self.sources.into())?;
        if self.sources > MAX_SOURCES {
            return Err(SettingsError::new("sources", format!("at most {MAX_SOURCES} can be handled")));
        }
        positive("streams", self.streams.into())?;
        positive("request", self.request.bytes())
    }

    fn may_read_slowly(&self) -> bool {
        true
    }

    fn streams(&self) -> u16 {
        self.streams
    }

    fn sends_fill_only(&self) -> bool {
        true
    }

    fn ends(&self, flow: &FlowContext) -> Ends {
        let (client, server): (Box<dyn Application>, Box<dyn Application>) = match self.exchange {
            WebExchange::Push => (Box::new(Pusher::new(self, flow)), Box::new(PushReceiver::new(self, flow))),
            WebExchange::Request | WebExchange::Think => {
                (Box::new(Requester::new(self, flow)), Box::new(Responder::new(self, flow)))
            }
        };
        Ends { client, server }
    }

    fn answers(&self) -> bool {
        self.exchange != WebExchange::Push
    }

    /// Requested objects are sent in the other direction. Users that think offer a rate that depends on the network.
    fn offered_load(&self) -> Option<f64> {
        let objects = f64::from(self.sources) / self.interarrival.mean().as_secs_f64();
        match self.exchange {
            WebExchange::Push => Some(objects * self.size.mean()),
            WebExchange::Request => Some(objects * self.request.bytes() as f64),
            WebExchange::Think => None,
        }
    }

    fn has_infinite_variance(&self) -> bool {
        self.size.has_infinite_variance()
    }
}

/// Arrival times of the objects of all sources, merged, with the stream of each object. Both ends compute the same
/// values, because both draw from the same named random streams.
struct ObjectArrivals {
    gap: SpanDistribution,
    sources: Vec<(Stream, Instant)>,
    /// Time and source of the next object. If several sources are due at that time, the first of them.
    due: (Instant, usize),
    streams: u16,
    count: u64,
}

impl ObjectArrivals {
    fn new(settings: &Web, flow: &FlowContext) -> Self {
        let sources = (0..settings.sources)
            .map(|n| {
                let mut gaps = flow.stream(&format!("gaps/{n}"));
                let first = flow.start + settings.interarrival.draw(&mut gaps);
                (gaps, first)
            })
            .collect();
        let (gap, streams) = (settings.interarrival.clone(), streams(settings, flow));
        let mut arrivals = Self { gap, sources, due: (Instant::NEVER, 0), streams, count: 0 };
        arrivals.find_first();
        arrivals
    }

    fn find_first(&mut self) {
        self.due = (Instant::NEVER, 0);
        for (source, (_, at)) in self.sources.iter().enumerate() {
            if *at < self.due.0 {
                self.due = (*at, source);
            }
        }
    }

    /// Arrival time of the next object.
    const fn peek(&self) -> Instant {
        self.due.0
    }

    fn next(&mut self) -> (Instant, StreamId) {
        let (at, source) = self.due;
        if let Some((gaps, due)) = self.sources.get_mut(source) {
            *due = at + self.gap.draw(gaps);
            self.find_first();
        }
        // The remainder of a division by a 16-bit number fits 16 bits.
        let stream = StreamId((self.count % u64::from(self.streams)) as u16);
        self.count += 1;
        (at, stream)
    }
}

/// Sizes of the objects on each stream, in order.
struct ObjectSizes {
    size: SizeDistribution,
    streams: Vec<Stream>,
}

impl ObjectSizes {
    fn new(settings: &Web, flow: &FlowContext) -> Self {
        let streams = (0..streams(settings, flow)).map(|n| flow.stream(&format!("sizes/{n}"))).collect();
        Self { size: settings.size.clone(), streams }
    }

    fn next(&mut self, stream: StreamId) -> u64 {
        self.size.draw(&mut self.streams[usize::from(stream.0)])
    }
}

/// Number of streams that carry objects: the configured number, or that of the connection if it is smaller. Both ends
/// know both numbers, and therefore compute the same stream for each object.
fn streams(settings: &Web, flow: &FlowContext) -> u16 {
    settings.streams.min(flow.streams)
}

const CONN: ConnId = ConnId::Opened(0);

/// The action that opens the connection, when the first object is due. `None` if it is already open.
fn open_once(opened: &mut bool, server: SocketAddr) -> Option<AppAction> {
    (!std::mem::replace(opened, true)).then_some(AppAction::Open { conn: CONN, to: server })
}

/// Sends objects at their arrival times.
struct Pusher {
    server: SocketAddr,
    arrivals: ObjectArrivals,
    sizes: ObjectSizes,
    running: bool,
    opened: bool,
}

impl Pusher {
    fn new(settings: &Web, flow: &FlowContext) -> Self {
        Self {
            server: flow.server,
            arrivals: ObjectArrivals::new(settings, flow),
            sizes: ObjectSizes::new(settings, flow),
            running: false,
            opened: false,
        }
    }
}

impl Pusher {
    /// The actions for the object that is due at `now`.
    fn next_object(&mut self, now: Instant) -> [AppAction; 2] {
        let (_, stream) = self.arrivals.next();
        [
            AppAction::fill(CONN, stream, self.sizes.next(stream)),
            AppAction::record(now, &quantity::OBJECTS_SENT, 1.0),
        ]
    }
}

impl Application for Pusher {
    fn handle(&mut self, now: Instant, event: AppEvent, act: &mut dyn FnMut(AppAction)) {
        match event {
            AppEvent::Started => self.running = true,
            AppEvent::Timeout if self.running && self.arrivals.peek() <= now => {
                open_once(&mut self.opened, self.server).into_iter().for_each(&mut *act);
                self.next_object(now).into_iter().for_each(act);
            }
            AppEvent::Stopped => {
                self.running = false;
                act(AppAction::Close { conn: CONN });
            }
            AppEvent::Connection { event: ConnectionEvent::Closed(_), .. } => self.running = false,
            _ => {}
        }
    }

    fn only_offers(&self) -> bool {
        self.running && self.opened
    }

    fn offers(&self) -> Option<&'static [&'static Quantity]> {
        static RECORDED: [&Quantity; 1] = [&quantity::OBJECTS_SENT];
        Some(&RECORDED)
    }

    fn offer(&mut self, until: Instant, carry: &mut dyn FnMut(Instant, AppAction)) {
        while self.arrivals.peek() <= until {
            let at = self.arrivals.peek();
            self.next_object(at).into_iter().for_each(|action| carry(at, action));
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.running.then(|| self.arrivals.peek())
    }
}

/// Receives pushed objects, and records for each the time since its arrival time at the sender.
struct PushReceiver {
    arrivals: ObjectArrivals,
    sizes: ObjectSizes,
    inboxes: Vec<ObjectInbox<Instant>>,
}

impl PushReceiver {
    fn new(settings: &Web, flow: &FlowContext) -> Self {
        Self {
            arrivals: ObjectArrivals::new(settings, flow),
            sizes: ObjectSizes::new(settings, flow),
            inboxes: (0..streams(settings, flow)).map(|_| ObjectInbox::default()).collect(),
        }
    }

    fn received(&mut self, now: Instant, stream: StreamId, bytes: u64, act: &mut dyn FnMut(AppAction)) {
        let here = usize::from(stream.0) % self.inboxes.len();
        self.inboxes[here].receive(bytes);
        loop {
            if let Some(arrived) = self.inboxes[here].complete() {
                act(AppAction::took(now, &quantity::OBJECT_TIME, arrived));
                act(AppAction::record(now, &quantity::OBJECTS_RECEIVED, 1.0));
            } else if self.inboxes[here].wants_more() {
                let (arrived, stream) = self.arrivals.next();
                self.inboxes[usize::from(stream.0)].expect(arrived, self.sizes.next(stream));
            } else {
                break;
            }
        }
    }
}

impl Application for PushReceiver {
    fn handle(&mut self, now: Instant, event: AppEvent, act: &mut dyn FnMut(AppAction)) {
        match event {
            AppEvent::Connection { event: ConnectionEvent::Received { stream, data }, .. } => {
                self.received(now, stream, data.size(), act);
            }
            AppEvent::Connection { conn, event: ConnectionEvent::PeerFinished } => {
                act(AppAction::Close { conn });
            }
            _ => {}
        }
    }
}

/// Requests objects: at their arrival times, or each user one after the other with a pause to think.
struct Requester {
    server: SocketAddr,
    request: u64,
    pace: RequestPacing,
    sizes: ObjectSizes,
    inboxes: Vec<ObjectInbox<PendingRequest>>,
    running: bool,
    opened: bool,
}

/// A request whose object has not arrived completely.
struct PendingRequest {
    /// Its scheduled time.
    at: Instant,
    /// Index of its user.
    user: usize,
}

/// Timing of requests.
enum RequestPacing {
    Open(ObjectArrivals),
    /// One user for each configured stream; several users share a stream if the connection has fewer. Each user waits
    /// for its object, thinks, and requests the next.
    Closed {
        gap: SpanDistribution,
        users: Vec<(Stream, Option<Instant>)>,
    },
}

impl Requester {
    fn new(settings: &Web, flow: &FlowContext) -> Self {
        let pace = if settings.exchange == WebExchange::Request {
            RequestPacing::Open(ObjectArrivals::new(settings, flow))
        } else {
            let users = (0..settings.streams)
                .map(|n| {
                    let mut gaps = flow.stream(&format!("gaps/{n}"));
                    let first = flow.start + settings.interarrival.draw(&mut gaps);
                    (gaps, Some(first))
                })
                .collect();
            RequestPacing::Closed { gap: settings.interarrival.clone(), users }
        };
        Self {
            server: flow.server,
            request: settings.request.bytes(),
            pace,
            sizes: ObjectSizes::new(settings, flow),
            inboxes: (0..streams(settings, flow)).map(|_| ObjectInbox::default()).collect(),
            running: false,
            opened: false,
        }
    }

    /// A request that is due at `now`, with its stream. `None` if no request is due.
    fn due(&mut self, now: Instant) -> Option<(PendingRequest, StreamId)> {
        let streams = self.inboxes.len();
        match &mut self.pace {
            RequestPacing::Open(arrivals) => (arrivals.peek() <= now).then(|| {
                let (at, stream) = arrivals.next();
                (PendingRequest { at, user: 0 }, stream)
            }),
            RequestPacing::Closed { users, .. } => {
                users.iter_mut().enumerate().find_map(|(user, (_, due))| {
                    let at = due.filter(|at| *at <= now)?;
                    *due = None;
                    // The remainder of a division by a 16-bit number fits 16 bits.
                    Some((PendingRequest { at, user }, StreamId((user % streams) as u16)))
                })
            }
        }
    }

    fn received(&mut self, now: Instant, stream: StreamId, bytes: u64, act: &mut dyn FnMut(AppAction)) {
        let here = usize::from(stream.0) % self.inboxes.len();
        self.inboxes[here].receive(bytes);
        while let Some(PendingRequest { at, user }) = self.inboxes[here].complete() {
            act(AppAction::took(now, &quantity::RESPONSE_TIME, at));
            act(AppAction::record(now, &quantity::OBJECTS_RECEIVED, 1.0));
            if let RequestPacing::Closed { gap, users } = &mut self.pace {
                let (gaps, due) = &mut users[user];
                *due = Some(now + gap.draw(gaps));
            }
        }
    }
}

impl Application for Requester {
    fn handle(&mut self, now: Instant, event: AppEvent, act: &mut dyn FnMut(AppAction)) {
        match event {
            AppEvent::Started => self.running = true,
            AppEvent::Timeout if self.running => {
                if let Some((request, stream)) = self.due(now) {
                    open_once(&mut self.opened, self.server).into_iter().for_each(&mut *act);
                    self.inboxes[usize::from(stream.0)].expect(request, self.sizes.next(stream));
                    act(AppAction::fill(CONN, stream, self.request));
                }
            }
            AppEvent::Connection { event: ConnectionEvent::Received { stream, data }, .. } => {
                self.received(now, stream, data.size(), act);
            }
            AppEvent::Connection { event: ConnectionEvent::Closed(_), .. } => self.running = false,
            AppEvent::Stopped => {
                self.running = false;
                act(AppAction::Close { conn: CONN });
            }
            _ => {}
        }
    }

    fn only_offers(&self) -> bool {
        self.running && self.opened && matches!(self.pace, RequestPacing::Open(_))
    }

    fn offers(&self) -> Option<&'static [&'static Quantity]> {
        Some(&[])
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if !self.running {
            return None;
        }
        match &self.pace {
            RequestPacing::Open(arrivals) => Some(arrivals.peek()),
            RequestPacing::Closed { users, .. } => users.iter().filter_map(|(_, due)| *due).min(),
        }
    }
}

/// Answers each request with the next object of the same stream.
struct Responder {
    request: u64,
    sizes: ObjectSizes,
    inboxes: Vec<ObjectInbox<()>>,
}

impl Responder {
    fn new(settings: &Web, flow: &FlowContext) -> Self {
        Self {
            request: settings.request.bytes(),
            sizes: ObjectSizes::new(settings, flow),
            inboxes: (0..streams(settings, flow)).map(|_| ObjectInbox::default()).collect(),
        }
    }
}

impl Application for Responder {
    fn handle(&mut self, _now: Instant, event: AppEvent, act: &mut dyn FnMut(AppAction)) {
        let AppEvent::Connection { conn, event } = event else { return };
        match event {
            ConnectionEvent::Received { stream, data } => {
                let here = usize::from(stream.0) % self.inboxes.len();
                let stream = StreamId(here as u16);
                self.inboxes[here].receive(data.size());
                loop {
                    if self.inboxes[here].complete().is_some() {
                        act(AppAction::fill(conn, stream, self.sizes.next(stream)));
                    } else if self.inboxes[here].wants_more() {
                        self.inboxes[here].expect((), self.request);
                    } else {
                        break;
                    }
                }
            }
            // All requests have been answered. Answers in transit still arrive.
            ConnectionEvent::PeerFinished => act(AppAction::Close { conn }),
            ConnectionEvent::Connected { .. } | ConnectionEvent::Writable | ConnectionEvent::Closed(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use netrig_core::{Duration, Sample, Size};

    use super::*;
    use crate::{Settings, react};

    fn web(exchange: WebExchange, sources: u32, streams: u16) -> Settings {
        Settings::Web(Web {
            interarrival: SpanDistribution::Exponential(Duration::from_millis(100)),
            size: SizeDistribution::Pareto { mean: Size::from_bytes(10_000), shape: 1.5, max: None },
            sources,
            streams,
            exchange,
            request: Size::from_bytes(400),
        })
    }

    fn flow(streams: u16) -> FlowContext {
        FlowContext { streams, ..FlowContext::of_test("web", 9) }
    }

    /// Runs both ends for ten seconds over a network without loss and with a fixed delay in each direction. Returns the
    /// recorded samples. Data on a stream with a number of `streams` or more is delivered on stream 0.
    fn carry(settings: &Settings, delay: Duration, streams: u16) -> Vec<Sample> {
        let mut ends = settings.ends(&flow(streams));
        let mut recorded = vec![];
        let mut agenda: Vec<(Instant, usize, AppEvent)> =
            vec![(Instant::ZERO, 0, AppEvent::Started), (Instant::ZERO, 1, AppEvent::Started)];
        let mut timeouts = [None, None];
        let end = Instant::from_nanos(10_000_000_000);
        loop {
            let earliest =
                agenda.iter().enumerate().min_by_key(|(n, (at, ..))| (*at, *n)).map(|(n, (at, ..))| (*at, n));
            let timer = (0..2).filter_map(|side| timeouts[side].map(|at| (at, side))).min();
            let (now, side, event) = match (earliest, timer) {
                (Some((at, n)), t) if t.is_none_or(|(timer, _)| at <= timer) => {
                    let (_, side, event) = agenda.remove(n);
                    (at, side, event)
                }
                (_, Some((at, side))) => (at, side, AppEvent::Timeout),
                _ => return recorded,
            };
            if now > end {
                return recorded;
            }
            let app: &mut dyn Application = if side == 0 { &mut *ends.client } else { &mut *ends.server };
            let other = [ConnId::Accepted(0), ConnId::Opened(0)][side];
            timeouts[side] = react(app, now, event, |action| match action {
                AppAction::Send { stream, data, .. } => {
                    let stream = if stream.0 < streams { stream } else { StreamId(0) };
                    let event = ConnectionEvent::Received { stream, data };
                    agenda.push((now + delay, 1 - side, AppEvent::Connection { conn: other, event }));
                }
                AppAction::Record(sample) => recorded.push(sample),
                _ => {}
            });
        }
    }

    #[test]
    fn every_object_takes_the_delay_of_the_network() {
        for (sources, streams, had) in [(1, 1, 1), (6, 1, 10), (6, 4, 4), (6, 4, 1), (6, 10, 3)] {
            let samples = carry(&web(WebExchange::Push, sources, streams), Duration::from_millis(70), had);
            let times: Vec<_> = samples.iter().filter(|s| s.quantity.name == "object_time").collect();
            assert!(times.len() > 50 * sources as usize, "{}", times.len());
            assert!(
                times.iter().all(|s| (s.value - 0.07).abs() < 1e-9),
                "{sources} sources, {streams} streams on {had}"
            );
        }
    }

    #[test]
    fn a_request_takes_a_round_trip() {
        for (exchange, had) in [
            (WebExchange::Request, 3),
            (WebExchange::Think, 3),
            (WebExchange::Request, 1),
            (WebExchange::Think, 1),
        ] {
            let samples = carry(&web(exchange, 1, 3), Duration::from_millis(70), had);
            let times: Vec<_> = samples.iter().filter(|s| s.quantity.name == "response_time").collect();
            assert!(times.len() > 50, "{exchange:?} on {had}: {}", times.len());
            assert!(times.iter().all(|s| (s.value - 0.14).abs() < 1e-9), "{exchange:?} on {had}");
        }
    }

    #[test]
    fn the_offered_load_is_what_is_sent() {
        // 6 sources × 10 objects/s × 10 KB.
        assert_eq!(web(WebExchange::Push, 6, 1).offered_load(), Some(600_000.0));
        assert_eq!(web(WebExchange::Think, 6, 1).offered_load(), None);
    }
}
