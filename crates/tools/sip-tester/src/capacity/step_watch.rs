//! Counters of the server's processes and stalls of this machine during a step.

use std::io;

use super::StepObservation;
use netrig_host::{ServerWatch, StallWatch};
use netrig_sip::header::Transport;
use netrig_sip_net::load::LoadOrder;

/// The watches of a search.
pub struct StepWatch {
    server: ServerWatch,
    stalls: StallWatch,
}

impl StepWatch {
    /// Starts to watch the server of a load.
    ///
    /// # Errors
    /// If the system starts no thread.
    pub fn open(order: &LoadOrder) -> io::Result<Self> {
        let is_tcp = order.carrier.transport() != Transport::Udp;
        let server = ServerWatch::open(order.target, is_tcp)?;
        Ok(Self { server, stalls: StallWatch::start()? })
    }

    /// Finds the server's processes, before a step is prepared.
    pub fn find(&mut self) {
        self.server.find();
    }

    /// Starts the measurement of a step.
    pub fn start(&mut self) {
        self.server.start();
        self.stalls.take();
    }

    /// Updates the observations at the end of a second in which calls were started.
    pub fn look(&mut self, seen: &mut StepObservation) {
        seen.server = Some(self.server.look());
        seen.stalls += &self.stalls.take();
    }

    /// Reports that no new call starts.
    pub fn unload(&mut self) {
        self.server.unload();
    }

    /// Ends the measurement of a step, after the wait for its open calls.
    pub fn end(&mut self, seen: &mut StepObservation) {
        seen.server = Some(self.server.end());
    }
}
