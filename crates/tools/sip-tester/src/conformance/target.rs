//! The server under test, its users, and the user agents of the tester.

use std::sync::Arc;

use netrig_core::Duration;
use netrig_sip::{Host, Uri};
use netrig_sip_net::EndAddress;

use super::names::TesterNames;

/// A user of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestUser {
    /// User part of the address of record, and the username of its credentials.
    pub name: String,
    /// Absent if the server asks for none.
    pub password: Option<String>,
}

/// The server and how it is reached.
#[derive(Clone, Debug)]
pub struct ConformanceTarget {
    /// Its address and the tester's.
    pub address: EndAddress,
    /// Domain of the users' addresses of record.
    pub domain: Host,
    /// Port of the domain in URIs; absent if it is the default.
    pub domain_port: Option<u16>,
    /// The URI that calls go to in the role `uas`; the server itself if absent.
    pub callee: Option<Uri>,
    /// How long a response is waited for.
    pub patience: Duration,
    /// How long the tester waits where nothing is to come.
    pub silence: Duration,
    /// The domain that the tester answers for as DNS server, if it does.
    pub names: Option<Arc<TesterNames>>,
}

/// A user agent of the tester.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TestAgent {
    /// The caller, or the user who registers.
    First,
    /// The callee.
    Second,
    /// Another callee.
    Third,
}

impl TestAgent {
    pub(super) const ALL: [Self; 3] = [Self::First, Self::Second, Self::Third];
}
