//! What an end with associations of SCTP does beside the others: their packets and timers are its own work.

use netrig_core::{Instant, Note, Sample, Subject};
use netrig_transport::{Counters, Incident, PathId, ReportingEnds};

use super::{FlowEnd, Sockets, Surroundings};
use crate::AgentError;
use crate::meter::{Counted, Samples};
use crate::order::CarrierOptions;
use crate::sctp::Handled;

/// Packets that are looked at before the other ends are.
const PACKETS: usize = 64;

impl FlowEnd {
    /// Takes the packets of associations, each of which then has its turn, and does what their timers say.
    pub(super) fn take_packets(&mut self, around: &mut Surroundings) -> Result<(), AgentError> {
        for _ in 0..PACKETS {
            let Sockets::Sctp(sctp) = &mut self.sockets else { return Ok(()) };
            let handled = sctp.handle_next(around.clock, around.offset)?;
            let Some(Handled { at, data, is_new, place }) = handled else { break };
            if let Some(ip_len) = data.filter(|_| !self.order.sends_data()) {
                self.meter.count(Counted::WireBytes, ip_len.into());
                self.meter.count(Counted::DataPacketsReceived, 1);
                if is_new {
                    self.meter.data_arrived(at, around.samples);
                }
            }
            if let Some(place) = place {
                self.take_turn(around.clock.now(), place, around)?;
            }
        }
        let Sockets::Sctp(sctp) = &mut self.sockets else { return Ok(()) };
        sctp.expire(around.clock, &mut self.turns)
    }

    /// What happened to an association, told by the end that sends the flow's data. When it stood and when it closed is
    /// told of every connection alike.
    pub(super) fn tell_incidents(&mut self, at: Instant, incidents: &[Incident], around: &mut Surroundings) {
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

    /// What happened since the last time, in words.
    pub fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    /// Reports what associations have counted since the last tick, and the levels of now.
    pub(super) fn tick_associations(&mut self, at: Instant, out: &mut Samples) {
        let Sockets::Sctp(sctp) = &self.sockets else { return };
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
