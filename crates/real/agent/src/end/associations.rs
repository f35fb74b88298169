//! The part of an end that is specific to SCTP associations: their packets and timers are its own work.

use netrig_core::{Instant, Note, Sample, Subject};
use netrig_transport::{Counters, Incident, PathId, ReportingEnds};

use super::{CarrierSockets, EndContext, FlowEnd};
use crate::AgentError;
use crate::end::Samples;
use crate::order::CarrierOptions;
use crate::sctp::HandledPacket;

/// Packets that are handled before other ends get a turn.
const PACKETS: usize = 64;

impl FlowEnd {
    /// Handles the packets of associations, gives each of these associations a turn, and handles expired timers.
    pub(super) fn take_packets(&mut self, around: &mut EndContext) -> Result<(), AgentError> {
        for _ in 0..PACKETS {
            let CarrierSockets::Sctp(sctp) = &mut self.sockets else { return Ok(()) };
            let handled = sctp.handle_next(around.clock, around.offset)?;
            let Some(HandledPacket { at, data, is_new, place }) = handled else { break };
            if let Some(ip_len) = data.filter(|_| !self.order.sends_data()) {
                self.meter.packet_arrived(ip_len.into());
                if is_new {
                    self.meter.data_arrived(at, around.samples);
                }
            }
            if let Some(place) = place {
                self.take_turn(around.clock.now(), place, around)?;
            }
        }
        let CarrierSockets::Sctp(sctp) = &mut self.sockets else { return Ok(()) };
        sctp.expire(around.clock, &mut self.turns)
    }

    /// Reports the incidents of an association. Only the end that sends the flow's data reports them. Establishment and close
    /// are not among them: they are reported for every connection.
    pub(super) fn report_incidents(&mut self, at: Instant, incidents: &[Incident], around: &mut EndContext) {
        let CarrierOptions::Sctp(options) = &self.order.carrier else { return };
        let (flow, sends) = (self.order.flow, self.order.sends_data());
        let name = |path: PathId| options.paths.get(usize::from(path.0)).map_or("?", |path| &path.name);
        for incident in incidents.iter().filter(|_| sends) {
            let text = incident.words("T3-rtx", name);
            self.notes.push(Note { at, subject: Subject::Flow(flow), text });
            if let Some((subject @ Subject::Path(..), quantity, value)) = incident.moment(flow) {
                around.samples.push((subject, Sample { at, quantity, value }));
            }
        }
    }

    /// The events since the last call, as sentences.
    pub fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    /// Reports the associations' counts since the last tick, and the current levels.
    pub(super) fn tick_associations(&mut self, at: Instant, out: &mut Samples) {
        let CarrierSockets::Sctp(sctp) = &self.sockets else { return };
        let now = sctp.counters();
        let before = std::mem::replace(&mut self.reported_sctp, now);
        let (flow, sends) = (self.order.flow, self.order.sends_data());
        for (quantity, whose, of) in &Counters::REPORTED {
            let value = of(&now) - of(&before);
            if value > 0 && (sends || *whose == ReportingEnds::Both) {
                self.meter.mark(at, quantity, value as f64, out);
            }
        }
        if sends {
            let level = |(path, quantity, value)| (Subject::Path(flow, path), Sample { at, quantity, value });
            out.extend(sctp.path_levels().map(level));
        }
    }
}
