//! SIP users and a SIP server as the two ends of a flow, which start and end with a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;

use netrig_core::{Duration, Fraction, Instant, Note, Sample, Seeds, Subject};
use netrig_sip::Host;
use netrig_sip::header::Transport;
use netrig_sip::index::quantity;
use netrig_sip::location::Zone;
use netrig_sip::server::Server;
use netrig_sip::settings::{LoadSettings, ServerSettings};

use crate::AgentResult;
use crate::event_loop::Progress;
use crate::order::{CarrierOptions, EndOrder, RunOrder};
use crate::report::{EndRemark, EndReport};
use netrig_host::InterruptionCounts;
use netrig_host::Precedence;
use netrig_host::tls::{self, Identity, Trust};
use netrig_host::{Clock, RunSignals, SlotLimits};
use netrig_sip_net::dns::{Asking, Location, NameServer, NameServerOrder, NameSource};
use netrig_sip_net::load::{
    Carrier, FailureRow, LoadOrder, LoadTls, OpenLoad, SecondRow, SoFar, Span, Steering,
};
use netrig_sip_net::server::{Limits, Names, Sockets, SocketsOrder};
use netrig_sip_net::tap::MessageTaps;
use netrig_sip_net::{FlowTester, MessageKeeper, RuleReport, ScenarioCalls, TesterFault};
use netrig_sip_net::{ListeningPoint, server_name};
use netrig_traffic::FlowSide;

/// Interval between two checks whether the run has ended.
const LOOK: Duration = Duration::from_millis(20);

/// An end of a SIP flow with open sockets.
pub struct SipEnd {
    order: EndOrder,
    until: Instant,
    role: SipEndRole,
    /// Writes the SIP messages of the users to files.
    keeper: Option<Box<dyn MessageKeeper>>,
}

/// The task of an end in a run: to make the calls of the users, to run the SIP server, or to run the DNS server. The
/// task stops when the flag is set.
type SipEndRole = Box<dyn FnOnce(&RunningFlow<'_>, &AtomicBool) -> AgentResult<EndFindings> + Send>;

/// The findings of an end of a SIP flow.
#[derive(Default)]
struct EndFindings {
    /// Reasons why the tester, not the server, limited the result.
    faults: Vec<String>,
    remarks: Vec<EndRemark>,
}

impl SipEnd {
    /// Whether an end belongs to a SIP flow.
    pub fn is_for(order: &EndOrder) -> bool {
        order.application.sip().is_some()
    }

    /// Opens the sockets of the end.
    ///
    /// # Errors
    /// If a socket cannot be opened, or the order cannot be executed.
    pub fn prepare(
        run: &RunOrder,
        order: EndOrder,
        tester: Option<&'static dyn FlowTester>,
    ) -> AgentResult<Self> {
        let Some(settings) = order.application.sip() else {
            return Err(order.wrong("its application is not SIP"));
        };
        let needed = |what: &str| {
            tester.ok_or_else(|| order.wrong(format!("{what}, and this agent has no tester for it")))
        };
        let seeds = Seeds::new(run.seed);
        let plan = settings.plan(&order.name, &seeds, order.stop().since(order.start()));
        let plan = plan.map_err(|error| order.wrong(error))?;
        let names = order.names.as_ref().filter(|names| names.serves);
        let mut keeper = None;
        let role: SipEndRole = match (order.side, settings.server.own()) {
            (FlowSide::Server, _) if names.is_some() => {
                let server = name_server(settings, &order, seeds.clone()).map_err(|why| order.wrong(why))?;
                Box::new(move |flow, stop| flow.serve_names(server, stop))
            }
            (FlowSide::Client, _) => {
                let carrier = carrier(settings, &order).map_err(|why| order.wrong(why))?;
                let others = settings.others().map_err(|error| order.wrong(error))?;
                let own = LoadOrder::new(order.server, plan);
                let location = location(settings, &order).map_err(|why| order.wrong(why))?;
                let local = Some(order.client.into());
                let load = LoadOrder { carrier, local, location, others, shards: settings.threads, ..own };
                let tester_fault = |fault: TesterFault| order.wrong(fault);
                if let Some(keep) = &order.keep {
                    keeper = Some(needed("its messages are to be kept")?.keep(keep).map_err(tester_fault)?);
                }
                if settings.script().is_some() {
                    let tester = needed("its calls follow a scenario of the file's own")?;
                    let calls = tester.scenario(&load, settings).map_err(tester_fault)?;
                    Box::new(move |flow, stop| flow.script(calls, stop))
                } else {
                    let rules =
                        settings.conform.then(|| needed("its server is to be tested before the load"));
                    let load = OpenLoad::open(load).map_err(|error| order.wrong(error))?;
                    let rules = rules.transpose()?;
                    Box::new(move |flow, stop| flow.users(load, rules, stop))
                }
            }
            (FlowSide::Server, Some(own)) => {
                let sockets =
                    sockets(settings, own, &order, seeds.clone()).map_err(|why| order.wrong(why))?;
                let server = own.order(&plan, order.server.ip(), seeds).server(sockets.listens());
                let mut server = server.map_err(|error| order.wrong(error))?;
                Box::new(move |flow, stop| flow.serve(sockets, server.as_mut(), stop))
            }
            (FlowSide::Server, None) => {
                return Err(order.wrong("its server is an external program, not an agent"));
            }
        };
        Ok(Self { until: Instant::from_nanos(run.duration_ns), order, role, keeper })
    }

    /// Runs the end until the run ends, and returns its reports.
    ///
    /// # Errors
    /// If not all users are registered when the flow starts although they must be, if the test of the server has not
    /// finished by then, or if a system call fails that succeeds in normal operation.
    pub fn run(
        self,
        clock: Clock,
        signals: &RunSignals,
        progress: &SyncSender<Progress>,
    ) -> AgentResult<Vec<EndReport>> {
        let Self { order, until, role, keeper } = self;
        let before = InterruptionCounts::read();
        let taps = keeper.as_deref().map(|keeper| keeper as &dyn MessageTaps);
        let flow = RunningFlow { order: &order, clock, until, signals, progress, taps };
        let result = flow.stopped_at(until, |stop| role(&flow, stop));
        // The messages are needed as evidence even if the load failed.
        let kept = keeper.map(MessageKeeper::finish);
        if order.names.as_ref().is_some_and(|names| names.serves) {
            // The DNS server only serves the users of the flow. It has no report of its own.
            return result.map(|_| Vec::new());
        }
        let EndFindings { faults, remarks } = result?;
        let interruptions = InterruptionCounts::read().since(&before, Precedence::None, false);
        // Interruptions of the server belong to the measurement, so only those of the users are a fault.
        let watched = if order.side == FlowSide::Client { interruptions.fault() } else { None };
        let watched = watched.map(|why| order.of_flow(why));
        let faults = faults.into_iter().chain(watched).collect();
        Ok(vec![EndReport { faults, remarks, kept, ..EndReport::empty(&order, interruptions) }])
    }
}

/// An end of a SIP flow in a run.
struct RunningFlow<'a> {
    order: &'a EndOrder,
    clock: Clock,
    /// When the run ends.
    until: Instant,
    signals: &'a RunSignals,
    progress: &'a SyncSender<Progress>,
    taps: Option<&'a dyn MessageTaps>,
}

impl RunningFlow<'_> {
    /// Calls `done` with a flag that is set at `moment`, or earlier if the run is aborted.
    fn stopped_at<T>(&self, moment: Instant, done: impl FnOnce(&AtomicBool) -> T) -> T {
        let (stop, over) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let left = self.clock.left_until(moment);
                    if self.signals.has_ended() || left.is_zero() {
                        stop.store(true, Ordering::Relaxed);
                        break;
                    }
                    std::thread::sleep(left.min(LOOK).into());
                }
            });
            let done = done(&stop);
            over.store(true, Ordering::Relaxed);
            done
        })
    }

    /// Sends notes about the whole flow. If the receiver is closed, the run has been aborted, which is not an error.
    fn send_notes<'n>(&self, texts: impl IntoIterator<Item = &'n str>) {
        texts.into_iter().for_each(|text| self.send_note(self.order.of_flow(text)));
    }

    /// Sends a note with the stop time of the flow.
    fn send_note(&self, text: String) {
        let note = Note { at: self.order.stop(), subject: Subject::Flow(self.order.flow), text };
        let _ = self.progress.send(Progress::Notes(vec![note]));
    }

    fn send_samples(&self, samples: impl IntoIterator<Item = Sample>) {
        let subject = Subject::Flow(self.order.flow);
        let samples = samples.into_iter().map(|sample| (subject, sample));
        let _ = self.progress.send(Progress::Samples(samples.collect()));
    }

    /// Tests the server if `tester` is given, and then runs the load of the users.
    fn users(
        &self,
        load: OpenLoad,
        tester: Option<&'static dyn FlowTester>,
        stop: &AtomicBool,
    ) -> AgentResult<EndFindings> {
        let tested = tester.map(|tester| self.rules(tester, load.order())).transpose()?;
        let remarks = tested.into_iter().flatten().collect();
        self.send_notes(load.readiness().warnings.iter().map(String::as_str));
        let span = Span { clock: self.clock, begins: self.order.start(), ends: self.until };
        let steering = Steering { stop, control: None, taps: self.taps };
        match load.carry_out(Some(span), steering, || (), |_: &SecondRow, _: SoFar<'_>| ()) {
            Ok((report, samples)) => {
                self.send_samples(samples);
                let failure = |row: &FailureRow| format!("{} of {}: {}", row.count, row.what, row.why);
                let failures: Vec<String> = report.failures.iter().map(failure).collect();
                self.send_notes(failures.iter().map(String::as_str));
                Ok(EndFindings {
                    faults: report.faults.iter().map(|why| self.order.of_flow(why)).collect(),
                    remarks,
                })
            }
            // The run was aborted before it started.
            Err(_) if self.signals.has_ended() => Ok(EndFindings::default()),
            Err(error) => Err(self.order.wrong(error)),
        }
    }

    /// Tests the server before the flow starts. Returns the remark that is shown with the results of the flow, if any.
    fn rules(&self, tester: &dyn FlowTester, load: &LoadOrder) -> AgentResult<Option<EndRemark>> {
        let start = self.order.start();
        let tested = self.stopped_at(start, |stop| tester.test_rules(load, stop, self.taps));
        if self.signals.has_ended() {
            return Ok(None);
        }
        let report = tested.map_err(|fault| self.order.wrong(fault))?;
        let at = self.clock.now();
        if at >= start {
            return Err(self.order.wrong(
                "the test of its server (`conform`) had not ended at the `start` of the flow: a later `start` gives it more time",
            ));
        }
        let count = |quantity, value: u64| Sample { at, quantity, value: value as f64 };
        let RuleReport { run, failed, lines, .. } = &report;
        self.send_samples([
            count(&quantity::SIP_CONFORMANCE_RUN, *run),
            count(&quantity::SIP_CONFORMANCE_FAILED, failed.len() as u64),
        ]);
        let subject = Subject::Flow(self.order.flow);
        let notes = lines.iter().map(|line| Note { at, subject, text: self.order.of_flow(line) });
        let _ = self.progress.send(Progress::Notes(notes.collect()));
        Ok(report.remark().map(|text| EndRemark { text: self.order.of_flow(&text), details: report.lines }))
    }

    /// Runs the calls of the flow's own scenario.
    fn script(&self, calls: Box<dyn ScenarioCalls>, stop: &AtomicBool) -> AgentResult<EndFindings> {
        let (start, until) = (self.order.start(), self.until);
        let clock = Clock::starting_at(self.clock.epoch_nanos() + start.as_nanos());
        let by_run = |sample: Sample| Sample { at: start + sample.at.since(Instant::ZERO), ..sample };
        // Samples after the end of the run are discarded: a call that ended later was not served within the run.
        let mut send = |samples: Vec<Sample>| {
            self.send_samples(samples.into_iter().map(by_run).filter(|sample| sample.at <= until));
        };
        let record = calls.carry_out(clock, stop, self.taps, &mut send);
        let record = record.map_err(|fault| self.order.wrong(fault))?;
        self.send_notes(record.notes.iter().map(String::as_str));
        Ok(EndFindings {
            faults: record.faults.iter().map(|why| self.order.of_flow(why)).collect(),
            remarks: Vec::new(),
        })
    }

    /// Runs the server until the end of the run. A server reports no faults.
    fn serve(
        &self,
        sockets: Sockets,
        server: &mut dyn Server,
        stop: &AtomicBool,
    ) -> AgentResult<EndFindings> {
        let tally = sockets.serve(server, None, stop).map_err(|error| self.order.wrong(error))?;
        if tally.socket_drops > 0 {
            let drops = tally.socket_drops;
            self.send_note(format!("the server's sockets had no room for {drops} datagrams"));
        }
        Ok(EndFindings::default())
    }

    /// Runs the DNS server until the end of the run. A DNS server reports no faults.
    fn serve_names(&self, server: NameServer, stop: &AtomicBool) -> AgentResult<EndFindings> {
        let tally = server.serve(None, stop).map_err(|error| self.order.wrong(error))?;
        self.send_note(format!(
            "the DNS server received {} queries over UDP and {} over TCP; it sent {} responses and dropped {} by configuration",
            tally.over_udp, tally.over_tcp, tally.answered, tally.lost
        ));
        Ok(EndFindings::default())
    }
}

/// How the users resolve the name of their server. `None`: they use its address.
fn location(settings: &LoadSettings, order: &EndOrder) -> Result<Option<Location>, String> {
    let (Some(own), Some(names)) = (settings.located_by(), &order.names) else { return Ok(None) };
    let source = if own.asks() {
        NameSource::Server(Asking { server: names.resolver, retry: own.retry, tries: own.tries })
    } else {
        NameSource::Table(Arc::new(zone(&names.records)?))
    };
    let is_secure = settings.secure && !matches!(order.carrier, CarrierOptions::Udp(_));
    let uri = own.uri(is_secure).ok_or_else(|| format!("`{}` is not a host name", own.name))?;
    Ok(Some(Location { uri, source, lookup: own.lookup }))
}

fn zone(records: &str) -> Result<Zone, String> {
    Zone::parse(records).map_err(|error| format!("its records: {error}"))
}

/// The DNS server of the users of a flow.
fn name_server(settings: &LoadSettings, order: &EndOrder, seeds: Seeds) -> Result<NameServer, String> {
    let (Some(own), Some(names)) = (settings.located_by(), &order.names) else {
        return Err("its users do not look up a name".to_owned());
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

/// The transport of the users' requests.
fn carrier(settings: &LoadSettings, order: &EndOrder) -> Result<Carrier, String> {
    let connecting = settings.connections.unwrap_or_default();
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
        CarrierOptions::Sctp(_) => Err("SIP over SCTP is not supported".to_owned()),
    }
}

/// Opens the server's sockets. With TLS, the server listens over TLS only. Without TLS, it listens over both UDP and
/// TCP, as RFC 3261 section 18 requires of every SIP element.
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
