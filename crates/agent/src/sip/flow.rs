//! Users of SIP and their server as the ends of a flow: a load and a server that begin and end with a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;

use netrig_core::{Duration, Fraction, Instant, Note, Seeds, Subject};
use netrig_sip::Host;
use netrig_sip::header::Transport;
use netrig_sip::location::Zone;
use netrig_sip::server::Server;
use netrig_sip::settings::{Connections, LoadSettings, LookupSettings, ServerSettings};

use super::dns::{Asking, Location, Lookup, NameServer, NameServerOrder, NameSource};
use super::load::{Carrier, Connecting, LoadOrder, LoadTls, OpenLoad, SecondRow, SoFar, Span};
use super::server::{Limits, Names, Sockets, SocketsOrder};
use super::{ListeningPoint, server_name};
use crate::end::EndReport;
use crate::event_loop::Progress;
use crate::interruptions::{InterruptionCounts, Interruptions};
use crate::order::{CarrierOptions, EndOrder, RunOrder, Side};
use crate::precedence::Precedence;
use crate::tls::{self, Identity, Trust};
use crate::{AgentError, Clock, RunSignals, SlotLimits};

/// Between two looks whether the run has ended.
const LOOK: Duration = Duration::from_millis(20);

/// An end of a flow of SIP whose sockets are open.
pub(crate) struct SipEnd {
    order: EndOrder,
    until: Instant,
    what: What,
}

enum What {
    Users(Box<OpenLoad>),
    Server(Box<Sockets>, Box<dyn Server>),
    Names(Box<NameServer>),
}

impl SipEnd {
    /// Whether an end is one.
    pub fn is_for(order: &EndOrder) -> bool {
        order.application.sip().is_some()
    }

    /// Opens its sockets.
    ///
    /// # Errors
    /// If one is not to be had, or the order is none that can be carried out.
    pub fn prepare(run: &RunOrder, order: EndOrder) -> Result<Self, AgentError> {
        let wrong = |why: String| AgentError::Order { flow: order.name.clone(), why };
        let Some(settings) = order.application.sip() else {
            return Err(wrong("its application is not SIP".to_owned()));
        };
        let seeds = Seeds::new(run.seed);
        let plan = settings.plan(&order.name, &seeds, order.stop().since(order.start()));
        let plan = plan.map_err(|error| wrong(error.to_string()))?;
        let names = order.names.as_ref().filter(|names| names.serves);
        let what = match (order.side, settings.server.own()) {
            (Side::Server, _) if names.is_some() => {
                What::Names(Box::new(name_server(settings, &order, seeds.clone()).map_err(wrong)?))
            }
            (Side::Client, _) => {
                let carrier = carrier(settings, &order).map_err(wrong)?;
                let others = settings.others().map_err(|error| wrong(error.to_string()))?;
                let own = LoadOrder::new(order.server, plan);
                let location = location(settings, &order).map_err(wrong)?;
                let local = Some(order.client.into());
                let load = LoadOrder { carrier, local, location, others, shards: settings.threads, ..own };
                What::Users(Box::new(OpenLoad::open(load).map_err(|error| wrong(error.to_string()))?))
            }
            (Side::Server, Some(own)) => {
                let sockets = sockets(settings, own, &order, seeds.clone()).map_err(wrong)?;
                let server = own.order(&plan, order.server.ip(), seeds).server(sockets.listens());
                What::Server(Box::new(sockets), server.map_err(|error| wrong(error.to_string()))?)
            }
            (Side::Server, None) => {
                return Err(wrong("who serves its users is a program of others, and no agent".to_owned()));
            }
        };
        Ok(Self { until: Instant::from_nanos(run.duration_ns), order, what })
    }

    /// Carries it out until the end of the run, and tells what its users met.
    ///
    /// # Errors
    /// If users that have to be registered before the flow starts are not, or the kernel refuses what it always grants.
    pub fn run(
        self,
        clock: Clock,
        signals: &RunSignals,
        progress: &SyncSender<Progress>,
    ) -> Result<Vec<EndReport>, AgentError> {
        let Self { order, until, what } = self;
        let before = InterruptionCounts::read();
        let stop = AtomicBool::new(false);
        let over = AtomicBool::new(false);
        let faults = std::thread::scope(|scope| {
            // Whoever carries it out looks at a flag of its own.
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let left = clock.left_until(until);
                    if signals.has_ended() || left.is_zero() {
                        stop.store(true, Ordering::Relaxed);
                        break;
                    }
                    std::thread::sleep(left.min(LOOK).into());
                }
            });
            let done = match what {
                What::Users(load) => users(*load, &order, clock, until, &stop, signals, progress),
                What::Server(sockets, mut server) => {
                    serve(*sockets, server.as_mut(), &order, &stop, progress)
                }
                What::Names(server) => know(*server, &order, &stop, progress),
            };
            over.store(true, Ordering::Relaxed);
            done
        });
        if order.names.as_ref().is_some_and(|names| names.serves) {
            // It is no end of the flow: only a helper of its users.
            return faults.map(|_| Vec::new());
        }
        let interruptions = InterruptionCounts::read().since(&before, Precedence::None, false);
        // What interrupted a server is what it is measured with.
        let watched = if order.side == Side::Client { interruptions.fault() } else { None };
        let watched = watched.map(|why| format!("flow `{}`: {why}", order.name));
        Ok(vec![report(&order, interruptions, faults?.into_iter().chain(watched).collect())])
    }
}

fn report(order: &EndOrder, interruptions: Interruptions, faults: Vec<String>) -> EndReport {
    EndReport { faults, ..EndReport::empty(order, interruptions) }
}

/// Lets the users do what they do; why the tester was the limit.
fn users(
    load: OpenLoad,
    order: &EndOrder,
    clock: Clock,
    until: Instant,
    stop: &AtomicBool,
    signals: &RunSignals,
    progress: &SyncSender<Progress>,
) -> Result<Vec<String>, AgentError> {
    let of_flow = |why: &String| format!("flow `{}`: {why}", order.name);
    let notes = load.readiness().warnings.iter().map(|text| note(order, of_flow(text))).collect();
    let _ = progress.send(Progress::Notes(notes));
    let span = Span { clock, begins: order.start(), ends: until };
    match load.carry_out(Some(span), stop.into(), || (), |_: &SecondRow, _: SoFar<'_>| ()) {
        Ok((report, met)) => {
            let subject = Subject::Flow(order.flow);
            // Nobody listens any more once the run was given up.
            let samples = met.into_iter().map(|sample| (subject, sample)).collect();
            let _ = progress.send(Progress::Samples(samples));
            let failures = report.failures.iter().map(|failure| {
                let text = format!("{} of {}: {}", failure.count, failure.what, failure.why);
                note(order, of_flow(&text))
            });
            let _ = progress.send(Progress::Notes(failures.collect()));
            Ok(report.faults.iter().map(of_flow).collect())
        }
        // It was given up before it began.
        Err(_) if signals.has_ended() => Ok(Vec::new()),
        Err(error) => Err(AgentError::Order { flow: order.name.clone(), why: error.to_string() }),
    }
}

/// Serves until the end of the run; nothing is a fault of the tester's.
fn serve(
    sockets: Sockets,
    server: &mut dyn Server,
    order: &EndOrder,
    stop: &AtomicBool,
    progress: &SyncSender<Progress>,
) -> Result<Vec<String>, AgentError> {
    let tally = sockets.serve(server, None, stop);
    let tally =
        tally.map_err(|error| AgentError::Order { flow: order.name.clone(), why: error.to_string() })?;
    if tally.socket_drops > 0 {
        let text = format!("the server's sockets had no room for {} datagrams", tally.socket_drops);
        let _ = progress.send(Progress::Notes(vec![note(order, text)]));
    }
    Ok(Vec::new())
}

/// Answers questions to the DNS until the end of the run; nothing is a fault of the tester's.
fn know(
    server: NameServer,
    order: &EndOrder,
    stop: &AtomicBool,
    progress: &SyncSender<Progress>,
) -> Result<Vec<String>, AgentError> {
    let tally = server.serve(None, stop);
    let tally =
        tally.map_err(|error| AgentError::Order { flow: order.name.clone(), why: error.to_string() })?;
    let text = format!(
        "the DNS server had {} questions over UDP and {} over TCP; it sent {} answers and lost {} on purpose",
        tally.over_udp, tally.over_tcp, tally.answered, tally.lost
    );
    let _ = progress.send(Progress::Notes(vec![note(order, text)]));
    Ok(Vec::new())
}

/// How the users look for their server, if they do.
fn location(settings: &LoadSettings, order: &EndOrder) -> Result<Option<Location>, String> {
    let (Some(own), Some(names)) = (settings.located_by(), &order.names) else { return Ok(None) };
    let lookup = match own.lookup {
        LookupSettings::Once => Lookup::Once,
        LookupSettings::PerAttempt => Lookup::PerAttempt,
        LookupSettings::Cached => Lookup::Cached,
    };
    let source = if own.asks() {
        NameSource::Server(Asking { server: names.resolver, retry: own.retry, tries: own.tries })
    } else {
        NameSource::Table(Arc::new(zone(&names.records)?))
    };
    let is_secure = settings.secure && !matches!(order.carrier, CarrierOptions::Udp(_));
    let uri = own.uri(is_secure).ok_or_else(|| format!("`{}` is no name of a host", own.name))?;
    Ok(Some(Location { uri, source, lookup }))
}

fn zone(records: &str) -> Result<Zone, String> {
    Zone::parse(records).map_err(|error| format!("its records: {error}"))
}

/// The DNS server that the users of a flow ask.
fn name_server(settings: &LoadSettings, order: &EndOrder, seeds: Seeds) -> Result<NameServer, String> {
    let (Some(own), Some(names)) = (settings.located_by(), &order.names) else {
        return Err("nobody wants to know names".to_owned());
    };
    let at = |transport| ListeningPoint { transport, address: names.resolver };
    let server = NameServer::open(NameServerOrder {
        listen: vec![at(Transport::Udp), at(Transport::Tcp)],
        zone: Arc::new(zone(&names.records)?.into()),
        proven: Vec::new(),
        delay: own.delay.as_ref().map(|delay| delay.0.clone()),
        loss: own.loss.map_or(0.0, Fraction::get),
        slots: SlotLimits::unshared(NameServerOrder::SLOTS.total),
        seeds,
    });
    server.map_err(|error| error.to_string())
}

/// Known when the run is over.
fn note(order: &EndOrder, text: String) -> Note {
    Note { at: order.stop(), subject: Subject::Flow(order.flow), text }
}

/// Over what requests go.
fn carrier(settings: &LoadSettings, order: &EndOrder) -> Result<Carrier, String> {
    let connecting = match settings.connections {
        None | Some(Connections::One) => Connecting::One,
        Some(Connections::PerUser) => Connecting::PerUser,
        Some(Connections::PerAttempt) => Connecting::PerAttempt,
    };
    match order.carrier {
        CarrierOptions::Udp(_) => Ok(Carrier::Udp),
        CarrierOptions::Tcp(_) if settings.secure => {
            let host = Host::Address(order.server.ip());
            let name = server_name(&host).ok_or_else(|| format!("no certificate can be for `{host}`"))?;
            let text = |error: tls::TlsError| error.to_string();
            let own = Identity::self_signed(vec![order.client.to_string()]).map_err(text)?;
            let client = tls::client(&Trust::Anyone, None).map_err(text)?;
            let server = Some(tls::server(&own, None).map_err(text)?);
            Ok(Carrier::Tls(connecting, LoadTls { client, name, server }))
        }
        CarrierOptions::Tcp(_) => Ok(Carrier::Tcp(connecting)),
        CarrierOptions::Sctp(_) => Err("SIP over SCTP is not to be had".to_owned()),
    }
}

/// Where the server listens: over the transport of the flow, and over UDP and TCP both where that is no TLS, as every element
/// of SIP does (RFC 3261 section 18).
fn sockets(
    settings: &LoadSettings,
    own: &ServerSettings,
    order: &EndOrder,
    seeds: Seeds,
) -> Result<Sockets, String> {
    let at = |transport| ListeningPoint { transport, address: order.server };
    let is_secure = settings.secure && !matches!(order.carrier, CarrierOptions::Udp(_));
    let (listen, identity) = if is_secure {
        let identity = Identity::self_signed(vec![order.server.ip().to_string()]);
        (vec![at(Transport::Tls)], Some(identity.map_err(|error| error.to_string())?))
    } else {
        (vec![at(Transport::Udp), at(Transport::Tcp)], None)
    };
    let sockets = Sockets::open(SocketsOrder {
        listen,
        identity,
        clients: None,
        trust: Some(Trust::Anyone),
        names: Names::default(),
        delay: own.delay.as_ref().map(|delay| delay.0.clone()),
        limits: Limits::default(),
        seeds,
    });
    sockets.map_err(|error| error.to_string())
}
