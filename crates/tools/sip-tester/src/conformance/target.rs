//! The server under test, its users, and the user agents of the tester.

use std::sync::Arc;

use netrig_core::Duration;
use netrig_sip::{Host, Uri};
use netrig_sip_net::EndAddress;

use super::names::TesterNames;

/// A user of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestUser {
    /// User part of the address of record, and user name of its credentials.
    pub name: String,
    /// The password; `None` if the server asks for none.
    pub password: Option<String>,
}

/// The server and how it is reached.
#[derive(Clone, Debug)]
pub struct ConformanceTarget {
    /// The addresses of the server and of the tester.
    pub address: EndAddress,
    /// Domain of the users' addresses of record.
    pub domain: Host,
    /// Port of the domain in URIs; `None` for the default.
    pub domain_port: Option<u16>,
    /// The URI that is called in the role `uas`; `None` for the server itself.
    pub callee: Option<Uri>,
    /// How long to wait for a response.
    pub patience: Duration,
    /// How long to wait if no message is expected.
    pub silence: Duration,
    /// The domain for which the tester answers as DNS server.
    pub names: Option<Arc<TesterNames>>,
}

/// A user agent of the tester.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TestAgent {
    /// The caller, or the registering user.
    First,
    /// The callee.
    Second,
    /// An additional callee.
    Third,
}

pub(super) const FIRST: TestAgent = TestAgent::First;
pub(super) const SECOND: TestAgent = TestAgent::Second;
pub(super) const THIRD: TestAgent = TestAgent::Third;

impl TestAgent {
    pub(super) const ALL: [Self; 3] = [Self::First, Self::Second, Self::Third];
}
