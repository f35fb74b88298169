//! How a server is reached that gets no load.

use std::path::PathBuf;

use clap::Args;
use netrig_host::HostAddress;
use netrig_sip_tester::request::{TestedServer, TesterSettings};

use super::refusal::refused;
use crate::failure::Failure;

/// Options of a server that is reached without a load.
#[derive(Debug, Args)]
pub struct ServerReach {
    /// The server must show a certificate that one of these authorities, in PEM, has signed. Without authorities any certificate is accepted
    #[arg(long, value_name = "FILE")]
    pub authorities: Option<PathBuf>,
    /// The local address, one of a link with its interface (`fe80::1%eth0`); by default the system chooses it
    #[arg(long, value_name = "ADDRESS")]
    pub local: Option<HostAddress>,
    /// You may test this host. A target with a public address needs it, with the same name as the target
    #[arg(long, value_name = "HOST")]
    pub i_may_test: Option<String>,
}

impl ServerReach {
    /// The server of a target.
    pub fn server(&self, target: &str) -> Result<TestedServer, Failure> {
        let settings = TesterSettings {
            target: target.to_owned(),
            authorities: self.authorities.clone(),
            i_may_test: self.i_may_test.clone(),
            ..TesterSettings::default()
        };
        TestedServer::of(&settings, None).map_err(refused)
    }
}
