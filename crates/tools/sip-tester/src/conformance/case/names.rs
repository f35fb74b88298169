//! Names of the tester as DNS server, and further addresses where a user agent listens.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use netrig_host::{HostAddress, random, realtime_nanos};
use netrig_sip::header::Transport;
use netrig_sip_net::dns::RecordedQuestion;
use netrig_sip_net::{EndAddress, UserAgentEnd};

use super::super::names::TesterNames;
use super::super::outcome::PurposeEnd;
use super::super::target::TestAgent;
use super::TestCase;

/// Why purposes with names are not carried out.
const NO_NAMES: &str =
    "the tester answers no DNS questions: give --dns-listen ADDRESS:PORT, and let the server ask there";

impl<'a> TestCase<'a> {
    /// The domain that the tester answers for as DNS server.
    ///
    /// # Errors
    /// It is no DNS server.
    pub fn names(&self) -> Result<&'a TesterNames, PurposeEnd> {
        let names = self.target.names.as_deref();
        names.ok_or_else(|| PurposeEnd::Inconclusive(NO_NAMES.to_owned()))
    }

    /// A name of the tester's domain that no other case has. It exists when records are added.
    ///
    /// # Errors
    /// The tester is no DNS server.
    pub fn draw_name(&mut self) -> Result<String, PurposeEnd> {
        let domain = self.names()?.domain();
        // A seed may be used again: a server may still know the names of the run before.
        let fresh = random().map(u64::from_le_bytes).unwrap_or_else(|_| realtime_nanos());
        let name = format!("n{:012x}.{domain}", fresh >> 16);
        self.names.push(name.clone());
        Ok(name)
    }

    /// Adds records in the form of a zone file, in which names are relative to `name`.
    ///
    /// # Errors
    /// The tester is no DNS server.
    pub fn add_records(&self, name: &str, records: &str) -> Result<(), PurposeEnd> {
        let added = self.names()?.add(name, records);
        added.map_err(|error| PurposeEnd::Inconclusive(format!("the records of {name}: {error}")))
    }

    /// Questions for an address belong to the case, too.
    pub fn watch_questions_for(&mut self, address: IpAddr) {
        self.names.push(address.to_string());
    }

    /// The questions that the tester's DNS server got for the names of the case.
    pub fn questions(&self) -> Vec<RecordedQuestion> {
        self.target.names.as_ref().map_or_else(Vec::new, |names| names.questions(&self.names))
    }

    /// Opens another end of a user agent, at this address of the tester; port 0 is one that the system chooses. What arrives there is the
    /// user agent's.
    ///
    /// # Errors
    /// The system refuses a socket.
    pub fn open_place(
        &mut self,
        agent: TestAgent,
        transport: Transport,
        host: HostAddress,
        port: u16,
    ) -> Result<SocketAddr, PurposeEnd> {
        let address = EndAddress { transport, local: host, port, tls: None, ..self.target.address.clone() };
        let end = UserAgentEnd::open(&address).map_err(|error| {
            PurposeEnd::Inconclusive(format!("the tester cannot listen at {}: {error}", host.at(port)))
        })?;
        let local = end.local();
        self.agents[agent as usize].place = Some((end, transport));
        Ok(local)
    }

    /// An address at which the tester can listen and, if it is reached by loopback, no other case does.
    pub fn draw_host(&mut self) -> HostAddress {
        let own = self.target.address.local;
        match own.at(0).ip() {
            IpAddr::V4(ip) if ip.is_loopback() => {
                let [_, low, middle, high] =
                    u32::try_from(self.draws.bits() >> 32).unwrap_or(1).to_be_bytes();
                // 127.0.0.0/9 has the addresses that others are likely to use.
                let ip = Ipv4Addr::new(127, low | 0x80, middle, high.clamp(1, 254));
                HostAddress::from(SocketAddr::from((ip, 0)))
            }
            _ => own,
        }
    }
}
