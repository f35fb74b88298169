//! Sets interfaces of nodes down and up during a run. The kernel's interface is changed, so that the node's kernel and
//! its sockets react immediately.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use netlink_packet_route::link::LinkFlags;
use netrig_core::{Duration, Instant, Note, Subject};
use netrig_experiment::{Action, RunError, Scenario};
use netrig_host::{Clock, Lateness, StoppableThread, is_stopped_within};
use rustix::thread::set_current_timer_slack;

use crate::build::routes;
use crate::netlink::NetlinkError;
use crate::netlink::route::{NewRoute, Rtnetlink};
use crate::port::{PerPort, PortId};
use crate::router::ObservationBatch;
use crate::testbed::Testbed;
use crate::wiring::{LinkEnd, Wiring};

/// If an interface changes later than this, the run is invalid. It is the longest tick of a kernel, which is the
/// resolution of its transport timers.
pub(crate) const TOO_LATE: Duration = Duration::from_millis(10);

/// Which interfaces of nodes are down, by the router's port on the same veth pair. Frames for such an interface are
/// lost because of the experiment, so they are not a fault of the testbed.
#[derive(Clone, Debug)]
pub(crate) struct DownInterfaces(Arc<PerPort<AtomicBool>>);

impl DownInterfaces {
    /// A set in which all interfaces are up.
    pub fn none(ports: usize) -> Self {
        Self(Arc::new((0..ports).map(|_| Some(AtomicBool::new(false))).collect()))
    }

    /// Whether the node's interface at this port is down.
    pub fn is(&self, port: PortId) -> bool {
        self.0[port].load(Ordering::Acquire)
    }

    fn set(&self, port: PortId, down: bool) {
        self.0[port].store(down, Ordering::Release);
    }
}

/// A scheduled change of an interface.
struct InterfaceChange {
    at: Instant,
    up: bool,
    /// Text for the time line.
    words: String,
    interface: NodeInterface,
}

/// An interface, and the configuration that the kernel discards when the interface goes down.
#[derive(Clone)]
struct NodeInterface {
    port: PortId,
    index: u32,
    /// The addresses at the other end of the link.
    neighbours: Vec<IpAddr>,
    neighbour: [u8; 6],
    routes: Vec<NewRoute>,
}

/// The threads that change interfaces, one for each node with such changes. They end when this value is dropped.
pub(crate) struct InterfaceEvents(Vec<StoppableThread<Result<Lateness, String>>>);

/// How punctual the events of interfaces were.
#[derive(Clone, Debug, Default)]
pub(crate) struct InterfaceReport {
    /// Time from the due time of a change until the kernel had made it.
    pub lateness: Lateness,
    /// Why the run is invalid, one sentence each.
    pub faults: Vec<String>,
}

impl InterfaceEvents {
    /// Starts threads that make the changes of `scenario` at their times on `clock`. The threads report the changes
    /// with `emit`.
    ///
    /// # Errors
    /// If a thread cannot be started in a node's namespace.
    pub fn start(
        testbed: &Testbed,
        scenario: &Scenario,
        clock: Clock,
        down: &DownInterfaces,
        emit: &(impl Fn(ObservationBatch) + Clone + Send + 'static),
    ) -> Result<Self, RunError> {
        let mut threads = Vec::new();
        for (node, changes) in changes(scenario, testbed.wiring()) {
            let (down, emit) = (down.clone(), emit.clone());
            // A new thread is in the network namespace of the thread that starts it.
            let thread = testbed.in_node(node, move || {
                StoppableThread::start("interfaces", move |stop| {
                    make_changes(node, changes, clock, &down, stop, &emit)
                })
            })?;
            let failed = |error| {
                RunError::Failed(format!("cannot start a thread for the events of interfaces: {error}"))
            };
            threads.push(thread.map_err(failed)?);
        }
        Ok(Self(threads))
    }

    /// Cancels the changes that are not yet due, and returns the report.
    pub fn stop(self) -> InterfaceReport {
        self.0.iter().for_each(StoppableThread::stop);
        let panicked = || Err("a thread for the events of interfaces panicked".into());
        let mut report = InterfaceReport::default();
        for thread in self.0 {
            match thread.end().unwrap_or_else(panicked) {
                Ok(lateness) => {
                    let late = lateness.max().unwrap_or_default();
                    if late > TOO_LATE {
                        let words =
                            format!("an interface changed {late} late; at most {TOO_LATE} is allowed");
                        report.faults.push(words);
                    }
                    report.lateness.record(late);
                }
                Err(why) => report.faults.push(why),
            }
        }
        report
    }
}

/// The scheduled changes of interfaces in time order, by the index of the node.
fn changes(scenario: &Scenario, wiring: &Wiring) -> BTreeMap<usize, Vec<InterfaceChange>> {
    let mut nodes: BTreeMap<usize, Vec<InterfaceChange>> = BTreeMap::new();
    for event in &scenario.events {
        let Action::Interface { node, link, up } = event.action else { continue };
        let ends = &wiring.links[link].ends;
        let own = usize::from(ends[0].node != node);
        let (end, far) = (&ends[own], &ends[1 - own]);
        let words = format!(
            "interface {} of {} {}",
            end.interface,
            scenario.nodes[node].name,
            if up { "up" } else { "down" }
        );
        let interface = NodeInterface::new(PortId::of_end(link, own), end, far, routes(node, wiring).0);
        nodes.entry(node).or_default().push(InterfaceChange { at: event.at, up, words, interface });
    }
    nodes
}

impl NodeInterface {
    fn new(port: PortId, end: &LinkEnd, far: &LinkEnd, routes: Vec<NewRoute>) -> Self {
        Self {
            port,
            index: end.index,
            neighbours: far.addresses.clone(),
            neighbour: far.mac,
            routes: routes.into_iter().filter(|route| route.index == end.index).collect(),
        }
    }

    fn close(&self) -> Result<(), NetlinkError> {
        Rtnetlink::open()?.set_flags(self.index, LinkFlags::empty(), LinkFlags::Up)
    }

    /// Sets the interface up and restores its neighbours and routes. The kernel has kept its addresses.
    fn open(&self) -> Result<(), NetlinkError> {
        let mut kernel = Rtnetlink::open_to_restore()?;
        // The neighbours are restored first, so that no packet needs address resolution.
        for address in &self.neighbours {
            kernel.add_neighbour(self.index, *address, self.neighbour)?;
        }
        kernel.set_flags(self.index, LinkFlags::Up, LinkFlags::empty())?;
        self.routes.iter().try_for_each(|route| kernel.add_route(route))
    }
}

/// Makes the changes of a node's interfaces in its namespace, and returns their lateness.
fn make_changes(
    node: usize,
    changes: Vec<InterfaceChange>,
    clock: Clock,
    down: &DownInterfaces,
    stop: &AtomicBool,
    emit: &impl Fn(ObservationBatch),
) -> Result<Lateness, String> {
    // With the default timer slack, a wait would end 50 µs late.
    let _ = set_current_timer_slack(Some(std::num::NonZeroU64::MIN));
    let mut lateness = Lateness::default();
    for InterfaceChange { at, up, words, interface } in changes {
        if is_stopped_within(stop, clock.left_until(at).into()) {
            break;
        }
        let done = if up {
            interface.open().inspect(|()| down.set(interface.port, false))
        } else {
            down.set(interface.port, true);
            interface.close()
        };
        done.map_err(|error| format!("{words}: {}", refused(&error)))?;
        let late = clock.now() - at;
        lateness.record(late);
        let text = format!("{words}, done {late} late");
        emit(ObservationBatch::of_note(Note { at, subject: Subject::Node(node as u32), text }));
    }
    Ok(lateness)
}

fn refused(error: &NetlinkError) -> String {
    match error {
        NetlinkError::Kernel(error) => error.to_string(),
        NetlinkError::Unreadable(why) => why.clone(),
    }
}
