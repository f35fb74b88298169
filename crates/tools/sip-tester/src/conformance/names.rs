//! The tester as DNS server of the server under test (RFC 3263). Its names resolve to user agents of test cases.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use netrig_core::Seeds;
use netrig_host::StoppableThread;
use netrig_host::socket::SocketError;
use netrig_sip::header::Transport;
use netrig_sip::location::ZoneError;
use netrig_sip_net::ListeningPoint;
use netrig_sip_net::dns::{LiveZone, NameServer, NameServerOrder, RecordedQuestion};

/// How long an answer may be cached, s: longer than any test case.
const TTL: u32 = 120;

/// A domain, and the DNS server that answers for it until it is dropped.
pub struct TesterNames {
    domain: String,
    zone: Arc<LiveZone>,
    address: SocketAddr,
    _thread: StoppableThread<()>,
}

impl fmt::Debug for TesterNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, address, .. } = self;
        f.debug_struct("TesterNames")
            .field("domain", domain)
            .field("address", address)
            .finish_non_exhaustive()
    }
}

impl TesterNames {
    /// Answers questions over UDP and TCP at `listen`. Only names of `domain` have records. The host under test, `server`, gets
    /// untruncated answers over UDP.
    ///
    /// # Errors
    /// If the system refuses a socket.
    pub fn open(listen: SocketAddr, domain: &str, server: IpAddr) -> Result<Self, SocketError> {
        let at = |transport| ListeningPoint { transport, address: listen };
        let zone = Arc::new(LiveZone::recording());
        let names = NameServer::open(NameServerOrder {
            listen: vec![at(Transport::Udp), at(Transport::Tcp)],
            zone: Arc::clone(&zone),
            proven: vec![server],
            delay: None,
            loss: 0.0,
            slots: NameServerOrder::SLOTS,
            seeds: Seeds::new(0),
        })?;
        let address = names.listens().first().map_or(listen, |point| point.address);
        // If the thread ends, questions are no longer answered, and the purposes report that no question arrived.
        let thread = StoppableThread::start("dns", move |stop| drop(names.serve(None, stop)))
            .map_err(|source| SocketError::Refused { what: "start a thread", address, source })?;
        let domain = domain.trim_end_matches('.').to_ascii_lowercase();
        Ok(Self { domain, zone, address, _thread: thread })
    }

    /// The domain in lower case, without a final dot.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// The UDP address of the DNS server.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds records whose names are relative to `name`.
    ///
    /// # Errors
    /// If a line is not a record.
    pub fn add(&self, name: &str, records: &str) -> Result<(), ZoneError> {
        self.zone.add(&format!("$TTL {TTL}\n$ORIGIN {name}.\n{records}"))
    }

    /// The questions for these names and names below them, in order.
    pub fn questions(&self, names: &[String]) -> Vec<RecordedQuestion> {
        self.zone.recorded(|question| {
            let asked = question.name.trim_end_matches('.').to_ascii_lowercase();
            let is_of = |name: &String| {
                asked.strip_suffix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            };
            names.iter().any(is_of)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use netrig_sip::location::{Kind, Question, Records};
    use netrig_sip_net::dns::message::{Reading, query, read};

    use super::*;

    #[test]
    fn the_names_of_a_tester_are_answered_and_questions_for_them_are_told() {
        let names = TesterNames::open(([127, 0, 0, 1], 0).into(), "Conform.test.", [127, 0, 0, 1].into());
        let names = names.unwrap();
        assert_eq!(names.domain(), "conform.test");
        names.add("a.conform.test", "_sip._udp SRV 0 0 5070 host\nhost A 192.0.2.1\n").unwrap();
        assert!(names.add("a.conform.test", "host MX 10 a\n").is_err());
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let ask = |kind, name: &str| {
            let question = Question { kind, name: name.to_owned() };
            socket.send_to(&query(7, &question).unwrap(), names.address()).unwrap();
            let mut buffer = [0; 512];
            let count = socket.recv(&mut buffer).unwrap();
            read(&buffer[..count], 7, &question)
        };
        let found = ask(Kind::A, "HOST.a.Conform.test");
        assert_eq!(found, Reading::Records(Records::Addresses(vec![[192, 0, 2, 1].into()]), TTL));
        assert!(matches!(ask(Kind::Srv, "_sip._udp.a.conform.test"), Reading::Records(Records::Srv(_), _)));
        assert!(matches!(ask(Kind::Naptr, "a.conform.test"), Reading::Nothing(_)));
        assert!(matches!(ask(Kind::A, "aa.conform.test"), Reading::Nothing(_)));
        let asked = names.questions(&["a.conform.test".to_owned()]);
        let questions: Vec<_> =
            asked.iter().map(|asked| (asked.question.kind.name(), asked.records, asked.transport)).collect();
        let udp = Transport::Udp;
        assert_eq!(questions, [("A", Some(1), udp), ("SRV", Some(1), udp), ("NAPTR", Some(0), udp)]);
        assert_eq!(names.questions(&["aa.conform.test".to_owned()])[0].records, None);
    }
}
