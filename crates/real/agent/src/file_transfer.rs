//! A file transfer by FTP within a run, between an external client and an external server.

use std::sync::mpsc::SyncSender;

use netrig_bulk::LimitingFactor;
use netrig_core::{Duration, Instant, Note, Quantity, Sample, Subject, quantity};
use netrig_traffic::{FlowSide, Ftp, Settings};

use crate::AgentResult;
use crate::carrier::Samples;
use crate::event_loop::Progress;
use crate::order::{CarrierOptions, EndOrder, RunOrder};
use crate::report::EndReport;
use netrig_host::Precedence;
use netrig_host::socket::TcpOptions;
use netrig_host::{Clock, RunSignals, TcpCounts};
use netrig_host::{InterruptionCounts, Interruptions};
use netrig_probe::transfer::{FtpOrder, FtpReport, session};

/// Interval between two checks whether the run has ended.
const LOOK: Duration = Duration::from_millis(20);

/// The file's name at the server. If the client fetches the file, it must exist at the server before the run.
pub const SERVED_FILE: &str = "netrig.bin";

/// The client of an FTP flow. The server is an external program that is already listening.
pub(crate) struct FileTransfer {
    order: EndOrder,
    ftp: Ftp,
    options: TcpOptions,
    until: Instant,
}

impl FileTransfer {
    /// Whether an end is the client or server of an FTP flow.
    pub fn is_for(order: &EndOrder) -> bool {
        matches!(order.application, Settings::Ftp(_))
    }

    /// Makes the client. It opens no socket before the flow starts.
    pub fn prepare(run: &RunOrder, order: EndOrder) -> AgentResult<Self> {
        let Settings::Ftp(ftp) = order.application.clone() else {
            return Err(order.wrong("its application is not FTP"));
        };
        let CarrierOptions::Tcp(options) = order.carrier.clone() else {
            return Err(order.wrong("FTP needs connections of TCP"));
        };
        if order.side == FlowSide::Server {
            return Err(order.wrong("an FTP server is an external program, not an agent"));
        }
        Ok(Self { ftp, options, until: Instant::from_nanos(run.duration_ns), order })
    }

    /// Transfers the file when the flow starts, and reports the result.
    ///
    /// # Errors
    /// If the transfer fails for a reason other than the end of the run.
    pub fn run(
        self,
        clock: Clock,
        signals: &RunSignals,
        progress: &SyncSender<Progress>,
    ) -> AgentResult<Vec<EndReport>> {
        let before = InterruptionCounts::read();
        let is_over = || signals.has_ended() || clock.now() >= self.until;
        wait(clock, self.order.start(), &is_over);
        let transferred = if is_over() { None } else { self.transfer(clock, &is_over, progress).transpose() };
        let (counts, strains) = transferred.transpose()?.unwrap_or_default();
        let Self { order, until, .. } = &self;
        // The receiver is closed once the run has been aborted.
        let _ = progress.send(Progress::Idle { flow: order.flow, side: order.side, idle: true });
        wait(clock, *until, &is_over);
        let interruptions = InterruptionCounts::read().since(&before, Precedence::None, false);
        Ok(vec![self.report(counts, strains, interruptions)])
    }

    /// Transfers the file. Returns the TCP counters and the strains of this end (see [`EndReport::strains`]), or `None`
    /// if the run ended before the transfer.
    fn transfer(
        &self,
        clock: Clock,
        is_over: &(dyn Fn() -> bool + Sync),
        progress: &SyncSender<Progress>,
    ) -> AgentResult<Option<(TcpCounts, Vec<String>)>> {
        let begun = clock.now();
        match session(&self.ftp_order(clock), is_over) {
            Ok(report) => {
                let _ = progress.send(Progress::Samples(self.samples(begun, &report)));
                let text =
                    report.limit.as_ref().map(|limit| self.order.of_flow(limit.explanation("the transfer")));
                // Buffers and windows are configured by the experiment file and are part of the measurement, so a limit
                // by them is only a note. A processor that limits the transfer is a strain.
                let is_part = matches!(
                    report.limit,
                    Some(LimitingFactor::Window { .. } | LimitingFactor::SendBuffer { .. })
                );
                let (note, strain) = if is_part { (text, None) } else { (None, text) };
                let note =
                    note.map(|text| Note { at: clock.now(), subject: Subject::Flow(self.order.flow), text });
                let _ = progress.send(Progress::Notes(note.into_iter().collect()));
                Ok(Some((report.counts, strain.into_iter().collect())))
            }
            Err(_) if is_over() => Ok(None),
            Err(error) => Err(self.order.wrong(error)),
        }
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

    /// Samples at the end of a transfer whose session started at `begun`. They include the byte counts of the other
    /// end, which equal those of this end. Retransmissions are reported only if this end sends the file.
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
        let stolen = interruptions.fault().map(|why| self.order.of_flow(why));
        EndReport {
            connections: u32::from(counts != TcpCounts::default()),
            faults: stolen.into_iter().collect(),
            strains,
            ..EndReport::empty(&self.order, interruptions)
        }
    }
}

/// Waits until the given time, or until `is_over` returns true.
fn wait(clock: Clock, until: Instant, is_over: &dyn Fn() -> bool) {
    while !is_over() && !clock.left_until(until).is_zero() {
        std::thread::sleep(clock.left_until(until).min(LOOK).into());
    }
}
