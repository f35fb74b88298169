//! Preparation and execution of one run.

use std::sync::mpsc::{self, SyncSender};

use crate::event_loop::{DELIVERIES, EventLoop, Progress};
use crate::file_transfer::FileTransfer;
use crate::order::{EndOrder, RunOrder};
use crate::sip_flow::SipEnd;
use crate::{AgentError, AgentResult, EndReport, MOST_TRANSFERS};
use netrig_host::{Clock, RunSignals, sysctl};
use netrig_sip_net::FlowTester;

/// A run with open sockets, ready to start.
///
/// Sources of datagrams have a thread of their own, so that receivers and connections do not delay them. SCTP
/// associations have a separate thread, so that other ends do not delay them: the kernel's own SCTP would interrupt any
/// thread.
pub struct PreparedRun {
    threads: Vec<RunThread>,
}

/// The work of one thread of a run. It gets the clock, the signals and the queue for progress messages, and returns the
/// reports of its ends.
type RunThread =
    Box<dyn FnOnce(Clock, &RunSignals, &SyncSender<Progress>) -> AgentResult<Vec<EndReport>> + Send>;

impl PreparedRun {
    /// Sets the sysctls and opens all sockets. Every setting is read back.
    ///
    /// # Errors
    /// If a setting did not take effect, or an agent cannot execute the order.
    pub fn prepare(order: RunOrder) -> AgentResult<Self> {
        Self::prepare_with(order, None)
    }

    /// Like [`PreparedRun::prepare`], with a tester for the tests and scenarios of SIP flows.
    ///
    /// # Errors
    /// The errors of [`PreparedRun::prepare`].
    pub fn prepare_with(order: RunOrder, tester: Option<&'static dyn FlowTester>) -> AgentResult<Self> {
        if order.sample_every_ns == 0 {
            return Err(AgentError::NoInterval);
        }
        for (name, value) in &order.sysctls {
            sysctl::set(name, value)?;
        }
        let (transfers, ends): (Vec<_>, Vec<_>) = order.ends.iter().cloned().partition(FileTransfer::is_for);
        if transfers.len() > MOST_TRANSFERS {
            return Err(AgentError::TooManyTransfers(transfers.len()));
        }
        let (sip, ends): (Vec<_>, Vec<_>) = ends.into_iter().partition(SipEnd::is_for);
        let (sources, others): (Vec<_>, Vec<_>) = ends.into_iter().partition(EndOrder::is_precise);
        let (associations, others) = others.into_iter().partition(EndOrder::has_associations);
        let groups = [others, associations, sources].into_iter().filter(|ends| !ends.is_empty());
        let mut threads: Vec<RunThread> = Vec::new();
        for ends in groups {
            let ends = EventLoop::open(&order, ends)?;
            threads.push(Box::new(move |clock, signals, progress| ends.run(clock, signals, progress)));
        }
        for end in transfers {
            let end = FileTransfer::prepare(&order, end)?;
            threads.push(Box::new(move |clock, signals, progress| end.run(clock, signals, progress)));
        }
        for end in sip {
            let end = SipEnd::prepare(&order, end, tester)?;
            threads.push(Box::new(move |clock, signals, progress| end.run(clock, signals, progress)));
        }
        Ok(Self { threads })
    }

    /// Executes the run. The epoch of `clock` is the start of the run. `signals` may end the run early. `deliver` is
    /// called with each progress message during the run.
    ///
    /// # Errors
    /// If a system call fails that succeeds in normal operation, or an application asks for data that cannot be sent.
    pub fn run(
        self,
        clock: Clock,
        signals: &RunSignals,
        deliver: impl FnMut(Progress),
    ) -> AgentResult<Vec<EndReport>> {
        let (progress, received) = mpsc::sync_channel(DELIVERIES);
        std::thread::scope(|scope| {
            let start = |work: RunThread| {
                let progress = progress.clone();
                scope.spawn(move || work(clock, signals, &progress))
            };
            let threads: Vec<_> = self.threads.into_iter().map(start).collect();
            drop(progress);
            received.into_iter().for_each(deliver);
            let mut reports = Vec::new();
            for thread in threads {
                reports.extend(thread.join().map_err(|_| AgentError::Panicked)??);
            }
            reports.sort_by_key(|report: &EndReport| (report.flow, report.side));
            Ok(reports)
        })
    }
}
