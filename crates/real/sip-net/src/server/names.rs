//! A table of host names and addresses.

use std::collections::BTreeMap;

use netrig_core::Stream;
use netrig_sip::SipUri;
use netrig_sip::location::{Abilities, Hop, Kind, LocationError, Locator, Records};

use netrig_host::HostAddress;

/// Host names with their addresses, as in `/etc/hosts`. The DNS is not used.
#[derive(Clone, Debug, Default)]
pub struct Names(BTreeMap<String, Vec<HostAddress>>);

/// Why a URI cannot be located.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// A name that is not in the table.
    #[error("no address of `{0}` is known: the table has none, and no DNS is asked")]
    Unknown(String),
    /// The name has only addresses of an IP version that the server does not listen on.
    #[error("no address of `{0}` is of an IP version that is listened at")]
    Version(String),
    /// The URI cannot be reached over the transports and IP versions of the listening addresses.
    #[error(transparent)]
    Location(#[from] LocationError),
}

impl Names {
    /// Adds an address to a name.
    pub fn add(&mut self, name: &str, address: HostAddress) {
        self.0.entry(canonical(name)).or_default().push(address);
    }

    /// Locates a URI (RFC 3263). Returns the first hop to try.
    ///
    /// # Errors
    /// If the name is unknown, or the URI cannot be reached.
    pub fn locate(&self, uri: &SipUri, abilities: Abilities, random: Stream) -> Result<Hop, NameError> {
        let mut locator = Locator::new(uri, abilities, random)?;
        let mut unknown = None;
        let mut asked = uri.host.to_string();
        let mut known: Vec<HostAddress> = Vec::new();
        while let Some(question) = locator.poll_question() {
            // A table has no NAPTR and SRV records. Without them, a name is a host (RFC 3263 section 4.2).
            let records = match question.kind {
                kind @ (Kind::Naptr | Kind::Srv) => Records::none_of(kind),
                Kind::A | Kind::Aaaa => {
                    let found = self.0.get(&canonical(&question.name));
                    known.extend(found.into_iter().flatten());
                    asked.clone_from(&question.name);
                    if found.is_none() {
                        unknown = Some(question.name.clone());
                    }
                    Records::Addresses(found.into_iter().flatten().map(|address| address.ip()).collect())
                }
            };
            locator.handle_answer(&question, records);
        }
        let hop = locator.next_hop();
        let hop = hop.ok_or_else(|| unknown.map_or(NameError::Version(asked), NameError::Unknown))?;
        // A DNS record has no interface of a link-local address; the table has it.
        let host = known.into_iter().find(|host| host.ip() == hop.address.ip());
        Ok(Hop { address: host.map_or(hop.address, |host| host.at(hop.address.port())), ..hop })
    }
}

/// Host names are compared without case.
fn canonical(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use netrig_core::Seeds;
    use netrig_sip::header::Transport;

    use super::*;

    fn located(uri: &str) -> Result<String, String> {
        let mut names = Names::default();
        names.add("Proxy.example.com", "192.0.2.7".parse().unwrap());
        names.add("six.example.com", "2001:db8::1".parse().unwrap());
        let abilities =
            Abilities { transports: vec![Transport::Udp, Transport::Tcp], families: vec![Kind::A] };
        let uri: netrig_sip::Uri = uri.parse().unwrap();
        let hop = names.locate(uri.as_sip().unwrap(), abilities, Seeds::new(1).stream("names"));
        hop.map(|hop| format!("{}:{}", hop.transport.name(), hop.address)).map_err(|error| error.to_string())
    }

    #[test]
    fn an_address_of_a_link_in_the_table_keeps_its_interface() {
        let mut names = Names::default();
        let link: HostAddress = "fe80::2%lo".parse().unwrap();
        names.add("near.example.com", link);
        let abilities = Abilities { transports: vec![Transport::Udp], families: vec![Kind::Aaaa] };
        let uri: netrig_sip::Uri = "sip:near.example.com:5070".parse().unwrap();
        let hop = names.locate(uri.as_sip().unwrap(), abilities, Seeds::new(1).stream("names")).unwrap();
        assert_eq!(hop.address, link.at(5070));
    }

    #[test]
    fn names_of_the_table_are_found_and_others_are_said() {
        assert_eq!(located("sip:a@proxy.example.com").unwrap(), "UDP:192.0.2.7:5060");
        assert_eq!(located("sip:a@proxy.example.com.:5070;transport=tcp").unwrap(), "TCP:192.0.2.7:5070");
        assert_eq!(located("sip:a@x;maddr=proxy.example.com").unwrap(), "UDP:192.0.2.7:5060");
        assert_eq!(located("sip:192.0.2.9").unwrap(), "UDP:192.0.2.9:5060");
        assert!(located("sip:a@other").unwrap_err().starts_with("no address of `other` is known"));
        assert!(
            located("sip:six.example.com").unwrap_err().starts_with("no address of `six.example.com` is of")
        );
        assert!(located("sip:192.0.2.9;transport=tls").unwrap_err().contains("`TLS` cannot be used"));
    }
}
