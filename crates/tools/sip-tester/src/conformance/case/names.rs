//! Names of the tester's DNS server, and further addresses of a user agent.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use netrig_host::{HostAddress, random, realtime_nanos};
use netrig_sip::header::Transport;
use netrig_sip_net::dns::RecordedQuestion;
use netrig_sip_net::{EndAddress, UserAgentEnd};

use super::super::names::TesterNames;
use super::super::outcome::{PurposeEnd, PurposeOutcome, inconclusive};
use super::super::target::TestAgent;
use super::TestCase;

/// Why purposes that need DNS names are not run.
const NO_NAMES: &str =
    "the tester answers no DNS questions: give --dns-listen ADDRESS:PORT, and configure the server to ask it";

impl<'a> TestCase<'a> {
    /// The domain for which the tester answers as DNS server.
    ///
    /// # Errors
    /// If the tester is not a DNS server.
    pub fn names(&self) -> PurposeOutcome<&'a TesterNames> {
        let names = self.target.names.as_deref();
        names.ok_or_else(|| PurposeEnd::Inconclusive(NO_NAMES.to_owned()))
    }

    /// A name of the tester's domain that is unique to this case. It exists once records are added.
    ///
    /// # Errors
    /// If the tester is not a DNS server.
    pub fn draw_name(&mut self) -> PurposeOutcome<String> {
        let domain = self.names()?.domain();
        // A seed may be reused, and the server may have cached the names of a previous run.
        let fresh = random().map(u64::from_le_bytes).unwrap_or_else(|_| realtime_nanos());
        let name = format!("n{:012x}.{domain}", fresh >> 16);
        self.names.push(name.clone());
        Ok(name)
    }

    /// Adds records in the form of a zone file whose names are relative to `name`.
    ///
    /// # Errors
    /// If the tester is not a DNS server.
    pub fn add_records(&self, name: &str, records: &str) -> PurposeOutcome {
        let added = self.names()?.add(name, records);
        added.map_err(|error| inconclusive!("the records of {name}: {error}"))
    }

    /// Adds an address whose DNS questions belong to the case.
    pub fn watch_questions_for(&mut self, address: IpAddr) {
        self.names.push(address.to_string());
    }

    /// The DNS questions for names of the case.
    pub fn questions(&self) -> Vec<RecordedQuestion> {
        self.target.names.as_ref().map_or_else(Vec::new, |names| names.questions(&self.names))
    }

    /// Opens a second end of a user agent at this address of the tester. If the port is 0, the system chooses one. The
    /// user agent also receives the messages to this end.
    ///
    /// # Errors
    /// If the system refuses a socket.
    pub fn open_place(
        &mut self,
        agent: TestAgent,
        transport: Transport,
        host: HostAddress,
        port: u16,
    ) -> PurposeOutcome<SocketAddr> {
        let address = EndAddress { transport, local: host, port, tls: None, ..self.target.address.clone() };
        let end = UserAgentEnd::open(&address)
            .map_err(|error| inconclusive!("the tester cannot listen at {}: {error}", host.at(port)))?;
        let local = end.local();
        self.agents[agent as usize].place = Some((end, transport));
        Ok(local)
    }

    /// An address at which the tester can listen. On loopback, no other case uses it.
    pub fn draw_host(&mut self) -> HostAddress {
        let own = self.target.address.local;
        match own.at(0).ip() {
            IpAddr::V4(ip) if ip.is_loopback() => {
                let [_, low, middle, high] =
                    u32::try_from(self.draws.bits() >> 32).unwrap_or(1).to_be_bytes();
                // Other programs are likely to use 127.0.0.0/9, so the address is in 127.128.0.0/9.
                let ip = Ipv4Addr::new(127, low | 0x80, middle, high.clamp(1, 254));
                HostAddress::from(SocketAddr::from((ip, 0)))
            }
            _ => own,
        }
    }
}
