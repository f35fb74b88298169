//! Settings for reaching a server that is tested without a load.

use netrig_host::HostAddress;
use netrig_sip_tester::request::{ReachSettings, TestedServer, TesterSettings};

use super::refusal::refused;
use crate::failure::Failure;
use crate::typed::Typed;

impl Typed<ReachSettings> {
    /// The server at a target.
    pub fn server(&self, target: &str) -> Result<TestedServer, Failure> {
        let settings = TesterSettings { target: target.to_owned(), ..self.settings.table.clone() };
        TestedServer::of(&settings, None).map_err(refused)
    }

    /// The local address; `None` if the system chooses it.
    pub fn local(&self) -> Option<HostAddress> {
        self.settings.table.local
    }
}
