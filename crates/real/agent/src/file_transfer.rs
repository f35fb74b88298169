//! A file by FTP within a run: a client of others' making against a server of others' making.

use std::sync::mpsc::SyncSender;

use netrig_core::{Duration, Instant, Note, Quantity, Sample, Subject, quantity};
use netrig_traffic::{Ftp, Settings};

use crate::AgentError;
use crate::end::EndReport;
use crate::event_loop::Progress;
use crate::meter::Samples;
use crate::order::{CarrierOptions, EndOrder, RunOrder, Side};
use netrig_host::Precedence;
use netrig_host::socket::TcpOptions;
use netrig_host::{Clock, RunSignals, TcpCounts};
use netrig_host::{InterruptionCounts, Interruptions};
use netrig_probe::transfer::{FtpOrder, FtpReport, LimitedBy, TransferLimit, session};

/// Between two looks whether the run has ended.
const LOOK: Duration = Duration::from_millis(20);

/// The file's name at the server: there already if it is fetched.
pub const SERVED_FILE: &str = "netrig.bin";

/// The client of a flow of FTP. Its server is a program that listens already.
pub(crate) struct FileTransfer {
    order: EndOrder,
    ftp: Ftp,
    options: TcpOptions,
    until: Instant,
}

impl FileTransfer {
    /// Whether an end is one.
    pub fn is_for(order: &EndOrder) -> bool {
        matches!(order.application, Settings::Ftp(_))
    }

    /// Nothing is opened before the flow starts.
    pub fn prepare(run: &RunOrder, order: EndOrder) -> Result<Self, AgentError> {
        let wrong = |why: &str| AgentError::Order { flow: order.name.clone(), why: why.to_owned() };
        let Settings::Ftp(ftp) = order.application.clone() else {
            return Err(wrong("its application is not FTP"));
        };
        let CarrierOptions::Tcp(options) = order.carrier.clone() else {
            return Err(wrong("FTP needs connections of TCP"));
        };
        if order.side == Side::Server {
            return Err(wrong("an FTP server is a program of others, and no agent"));
        }
        Ok(Self { ftp, options, until: Instant::from_nanos(run.duration_ns), order })
    }

    /// Transfers the file when the flow starts, and tells of it once it is over.
    ///
    /// # Errors
    /// If the transfer fails; that the run ends before it does is none.
    pub fn run(
        self,
        clock: Clock,
        signals: &RunSignals,
        progress: &SyncSender<Progress>,
    ) -> Result<Vec<EndReport>, AgentError> {
        let before = InterruptionCounts::read();
        let is_over = || signals.has_ended() || clock.now() >= self.until;
        wait(clock, self.order.start(), &is_over);
        let transferred = if is_over() { None } else { self.transfer(clock, &is_over, progress).transpose() };
        let (counts, strains) = transferred.transpose()?.unwrap_or_default();
        let Self { order, until, .. } = &self;
        // Nobody listens any more once the run was given up.
        let _ = progress.send(Progress::Idle { flow: order.flow, side: order.side, idle: true });
        wait(clock, *until, &is_over);
        let interruptions = InterruptionCounts::read().since(&before, Precedence::None, false);
        Ok(vec![self.report(counts, strains, interruptions)])
    }

    /// What TCP counted, and why the end was the limit and not the path; nothing of a transfer that the end of the run ended.
    fn transfer(
        &self,
        clock: Clock,
        is_over: &(dyn Fn() -> bool + Sync),
        progress: &SyncSender<Progress>,
    ) -> Result<Option<(TcpCounts, Vec<String>)>, AgentError> {
        let begun = clock.now();
        match session(&self.ftp_order(clock), is_over) {
            Ok(report) => {
                let _ = progress.send(Progress::Samples(self.samples(begun, &report)));
                let (strains, notes) = self.told(clock.now(), &report);
                let _ = progress.send(Progress::Notes(notes));
                Ok(Some((report.counts, strains)))
            }
            Err(_) if is_over() => Ok(None),
            Err(error) => Err(AgentError::Order { flow: self.order.name.clone(), why: error.to_string() }),
        }
    }

    /// What made this end the limit, as strains and as notes: buffers and windows are those that the transport and the
    /// nodes' kernels have by the file, and part of what is measured; a processor need not be.
    fn told(&self, at: Instant, report: &FtpReport) -> (Vec<String>, Vec<Note>) {
        let (mut strains, mut notes) = (Vec::new(), Vec::new());
        for TransferLimit { by, why } in &report.limits {
            let text = format!("flow `{}`: {why}", self.order.name);
            match by {
                LimitedBy::Processor => strains.push(text),
                LimitedBy::Buffer | LimitedBy::Window => {
                    notes.push(Note { at, subject: Subject::Flow(self.order.flow), text });
                }
                // What the report says of the whole run.
                LimitedBy::Host => {}
            }
        }
        (strains, notes)
    }

    fn ftp_order(&self, clock: Clock) -> FtpOrder {
        FtpOrder {
            server: self.order.server,
            user: "anonymous".to_owned(),
            password: "netrig@".to_owned(),
            direction: self.ftp.direction,
            file: SERVED_FILE.to_owned(),
            bytes: self.ftp.size.bytes(),
            options: self.options.clone(),
            dscp: self.order.dscp,
            patience: clock.left_until(self.until),
        }
    }

    /// What is told at the end of a transfer whose session began at `begun`: of what both ends of a flow count, what this
    /// one knows. What the other end sent again only its own kernel knows.
    fn samples(&self, begun: Instant, report: &FtpReport) -> Samples {
        let FtpReport { counts, .. } = report;
        let end = begun + Duration::from_secs_f64(report.session_s);
        let bytes = report.bytes as f64;
        let both: [(&'static Quantity, f64); 3] = [
            (&quantity::RESPONSE_TIME, report.transfer_s),
            (&quantity::OFFERED_BYTES, bytes),
            (&quantity::RECEIVED_BYTES, bytes),
        ];
        let stored: [(&'static Quantity, f64); 3] = [
            (&quantity::DATA_PACKETS_SENT, counts.data_segments_sent as f64),
            (&quantity::RETRANSMITTED_BYTES, counts.bytes_retransmitted as f64),
            (&quantity::TIMEOUTS, counts.timeouts as f64),
        ];
        let fetched: [(&'static Quantity, f64); 1] =
            [(&quantity::DATA_PACKETS_RECEIVED, counts.data_segments_received as f64)];
        let own: &[_] = if self.order.sends_data() { &stored } else { &fetched };
        let sample = |(quantity, value): &(&'static Quantity, f64)| {
            (Subject::Flow(self.order.flow), Sample { at: end, quantity, value: *value })
        };
        both.iter().chain(own).map(sample).collect()
    }

    fn report(&self, counts: TcpCounts, strains: Vec<String>, interruptions: Interruptions) -> EndReport {
        let stolen = interruptions.fault().map(|why| format!("flow `{}`: {why}", self.order.name));
        EndReport {
            connections: u32::from(counts != TcpCounts::default()),
            faults: stolen.into_iter().collect(),
            strains,
            ..EndReport::empty(&self.order, interruptions)
        }
    }
}

/// Waits for a moment, or until it is over.
fn wait(clock: Clock, until: Instant, is_over: &dyn Fn() -> bool) {
    while !is_over() && !clock.left_until(until).is_zero() {
        std::thread::sleep(clock.left_until(until).min(LOOK).into());
    }
}
