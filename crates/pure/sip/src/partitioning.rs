//! Selection of the partition of a server's state that handles a message.
//!
//! All messages of a call have its Call-ID, so the calls of a user agent are partitioned by Call-ID. All other servers are
//! partitioned by user: a REGISTER belongs to the user of its `To`, any other request to the user of its Request-URI. The
//! messages of a server transaction have one Request-URI. A later request of a dialog has the URI of a contact and may belong to
//! another partition, because a proxy keeps no dialogs. A response belongs to the partition that sent the request: the branch of
//! the topmost `Via` names it.

use std::hash::{DefaultHasher, Hasher as _};
use std::net::SocketAddr;
use std::num::NonZeroU8;

use netrig_core::Seeds;

use crate::Method;
use crate::header::Transport;
use crate::load::Scan;
use crate::load::scan::{Address, Field, Start, user_of_uri};
use crate::server::{Partition, PartitionShare, Role, RoleError, Server, ServerOrder, UsedNonces};

/// The part of a message that selects its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartitionKey {
    CallId,
    User,
}

/// How the state of a server is partitioned.
#[derive(Clone, Debug)]
pub struct Partitioning {
    key: PartitionKey,
    count: u32,
    /// Keyed with a secret, so that peers cannot choose their partition.
    hasher: DefaultHasher,
}

impl Partitioning {
    /// Partitions the state of a server of this role.
    pub fn new(role: &Role, count: NonZeroU8, seeds: &Seeds) -> Self {
        let key = if matches!(role, Role::UserAgent(_)) { PartitionKey::CallId } else { PartitionKey::User };
        let mut random = seeds.stream("sip/serve/partitions");
        let mut hasher = DefaultHasher::new();
        [random.bits(), random.bits()].into_iter().for_each(|secret| hasher.write_u64(secret));
        Self { key, count: u32::from(count.get()), hasher }
    }

    /// One server per partition, by index. Each gets its share of the limits of `order`.
    ///
    /// # Errors
    /// As [`ServerOrder::server`].
    pub fn servers(
        &self,
        order: &ServerOrder,
        listens: &[(Transport, SocketAddr)],
    ) -> Result<Vec<Box<dyn Server>>, RoleError> {
        let nonces = UsedNonces::default();
        let server = |index| {
            let owns = |user: &str| self.index_of(user.as_bytes()) == index;
            let partition = Partition { index, count: self.count };
            order.server_of(listens, &PartitionShare { partition, owns: &owns, nonces: nonces.clone() })
        };
        (0..self.count).map(server).collect()
    }

    /// Number of partitions, at least 1.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The index of the partition that handles a message. `None` if any partition may, or if the message cannot be read.
    pub fn partition_of(&self, message: &[u8]) -> Option<u32> {
        let scan = Scan::of(message);
        match (self.key, scan.start?) {
            (PartitionKey::CallId, _) => scan.call_id.map(|call_id| self.index_of(call_id)),
            (PartitionKey::User, Start::Status(_)) => Partition::from_branch(scan.branch?, self.count),
            (PartitionKey::User, Start::Request { method, uri }) => {
                let is_registration = method == Method::Register.as_str().as_bytes();
                let uri = if is_registration { Address::of(scan.to?).uri } else { uri };
                let user = user_of_uri(uri);
                // A strict router appends the Request-URI to the routes and replaces it by the URI of this proxy (RFC
                // 3261 section 16.4).
                let last = || scan.all(Field::Route).flat_map(Address::all).last();
                match last().filter(|_| user.is_empty() && !is_registration) {
                    Some(route) => Some(self.index_of(&user_of_uri(route.uri))),
                    None => Some(self.index_of(&user)),
                }
            }
        }
    }

    fn index_of(&self, key: &[u8]) -> u32 {
        let mut hasher = self.hasher.clone();
        hasher.write(key);
        // Below `count`.
        (hasher.finish() % u64::from(self.count)) as u32
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use netrig_core::{Instant, Seeds};
    use proptest::prelude::*;

    use super::*;
    use crate::digest::{Algorithm, DigestChallenge, DigestSession};
    use crate::header::Credentials;
    use crate::server::{AnsweringPolicy, Destination, Source, User};
    use crate::transaction::Timing;
    use crate::{Host, Message, Name, Request, Status, Uri};

    fn partitioned(role: &Role, count: u8) -> Partitioning {
        Partitioning::new(role, NonZeroU8::new(count).unwrap(), &Seeds::new(1))
    }

    fn message(start: &str, to: &str, call_id: &str, branch: &str) -> Vec<u8> {
        format!(
            "{start}\r\nVia: SIP/2.0/UDP a;branch={branch}\r\nTo: {to}\r\ni: {call_id}\r\nCSeq: 1 INVITE\r\n\r\n"
        )
        .into_bytes()
    }

    #[test]
    fn messages_of_a_call_concern_one_partition_of_a_user_agent() {
        let role = Role::UserAgent(AnsweringPolicy::new("192.0.2.1:6000".parse().unwrap()));
        let partitioning = partitioned(&role, 8);
        let mut indices = BTreeSet::new();
        for call in 0..64 {
            let call_id = format!("call{call}@a");
            let of =
                |start: &str, to: &str| partitioning.partition_of(&message(start, to, &call_id, "z9hG4bK1"));
            let index = of("INVITE sip:b@c SIP/2.0", "<sip:b@c>");
            assert_eq!(of("BYE sip:x@y SIP/2.0", "<sip:b@c>;tag=1"), index);
            assert_eq!(of("SIP/2.0 200 OK", "<sip:b@c>;tag=1"), index);
            indices.extend(index);
        }
        assert_eq!(indices, (0..8).collect(), "calls are spread over all partitions");
        assert_eq!(partitioning.partition_of(b"\r\n\r\n"), None);
        assert_eq!(partitioning.partition_of(b"INVITE sip:b@c SIP/2.0\r\n\r\n"), None);
    }

    #[test]
    fn registrations_of_a_user_and_requests_for_the_user_concern_one_partition_of_a_proxy() {
        let partitioning = partitioned(&Role::Proxy { record_route: true }, 5);
        let of = |start: &str, to: &str| partitioning.partition_of(&message(start, to, "c", "z9hG4bK1"));
        let registered =
            of("REGISTER sip:biloxi.com SIP/2.0", "\"Bob\" <sip:bob%6f;a=b@biloxi.com;x=y>;tag=1");
        assert!(registered.is_some());
        for uri in
            ["sip:bobo;a=b@10.0.0.1:5070;lr", "sips:bob%6F;a=b:secret@biloxi.com", "SIP:%62obo;a=b@h?X=y"]
        {
            for method in ["INVITE", "ACK", "CANCEL", "OPTIONS"] {
                assert_eq!(
                    of(&format!("{method} {uri} SIP/2.0"), "<sip:other@biloxi.com>"),
                    registered,
                    "{uri}"
                );
            }
        }
        let others: BTreeSet<_> =
            (0..50).map(|user| of(&format!("INVITE sip:u{user}@biloxi.com SIP/2.0"), "<sip:z@z>")).collect();
        assert_eq!(others.len(), 5, "users are spread over all partitions");
    }

    /// RFC 3261 section 16.4.
    #[test]
    fn a_request_of_a_strict_router_concerns_the_user_of_its_last_route() {
        let partitioning = partitioned(&Role::StatelessProxy, 7);
        let routed = |user: &str| {
            let text = format!(
                "BYE sip:192.0.2.1:5060;lr SIP/2.0\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\nRoute: <sip:192.0.2.7>, <sip:z@192.0.2.8>\r\n\
                 Route: \"B\" <sip:{user}@biloxi.com>\r\n\r\n"
            );
            partitioning.partition_of(text.as_bytes())
        };
        for user in (0..20).map(|user| format!("u{user}")) {
            let request = message(&format!("BYE sip:{user}@a SIP/2.0"), "<sip:z@z>", "c", "z9hG4bK1");
            assert_eq!(routed(&user), partitioning.partition_of(&request));
        }
    }

    #[test]
    fn a_response_concerns_the_partition_that_has_sent_the_request() {
        let partitioning = partitioned(&Role::Proxy { record_route: false }, 3);
        for index in 0..3 {
            let partition = Partition { index, count: 3 };
            for drawn in [0, 1, 2, 4711, u64::MAX - 1, u64::MAX] {
                let response =
                    message("SIP/2.0 180 Ringing", "<sip:b@c>", "c", &partition.branch(drawn, "way"));
                assert_eq!(partitioning.partition_of(&response), Some(index));
            }
        }
        assert_eq!(Partition::default().branch(u64::MAX, "w"), "z9hG4bKffffffffffffffff.w");
        assert_eq!(partitioning.partition_of(&message("SIP/2.0 200 OK", "<sip:b@c>", "c", "z9hG4bKx")), None);
    }

    proptest! {
        /// The registrar keeps bindings by the user part as the strict model reads it.
        #[test]
        fn the_user_is_that_of_the_strict_model(text in "sips?:([a-z0-9%4;?/&=+$,.]{1,12}(:[a-z]{0,3})?@)?[a-z]{1,5}(:[0-9]{1,4})?(;[a-z]=[a-z])?(\\?[a-z]=[a-z])?") {
            if let Ok(uri) = text.parse::<Uri>() {
                prop_assert_eq!(crate::server::user_of(&uri).into_bytes(), user_of_uri(text.as_bytes()).into_owned());
            }
        }
    }

    /// The credentials of one request are sent again with other users in the Request-URI, which other partitions
    /// handle.
    #[test]
    fn credentials_are_taken_once_in_all_partitions_together() {
        let alice = User { name: "alice".into(), password: "zanzibar".into(), contact: None };
        let callees = (0..16).map(|user| User {
            name: format!("u{user}"),
            contact: Some("sip:x@192.0.2.9".into()),
            ..alice.clone()
        });
        let order = ServerOrder {
            role: Role::Proxy { record_route: false },
            domains: vec![Host::Name("biloxi.com".into())],
            users: Some(callees.chain([alice.clone()]).collect()),
            contact: None,
            digest: Some(Algorithm::MD5),
            realm: None,
            most_transactions: 1000,
            most_users: 1000,
            timing: Timing::default(),
            seeds: Seeds::new(1),
        };
        let listens = [(Transport::Udp, "192.0.2.1:5060".parse().unwrap())];
        let partitioning = partitioned(&order.role, 4);
        let mut servers = partitioning.servers(&order, &listens).unwrap();
        let from = Source { transport: Transport::Udp, address: "192.0.2.2:5060".parse().unwrap() };
        let request = |user: usize, number: usize, authorization: Option<&Credentials>| {
            let mut request =
                Request::new(Method::Invite, format!("sip:u{user}@biloxi.com").parse().unwrap());
            for (name, value) in [
                (Name::Via, format!("SIP/2.0/UDP 192.0.2.2:5060;branch=z9hG4bK{user}x{number}")),
                (Name::From, "<sip:alice@biloxi.com>;tag=1".to_owned()),
                (Name::To, format!("<sip:u{user}@biloxi.com>")),
                (Name::CallId, format!("c{user}x{number}")),
                (Name::CSeq, format!("{number} INVITE")),
                (Name::MaxForwards, "70".to_owned()),
            ] {
                request.headers.push(name, value);
            }
            authorization
                .into_iter()
                .for_each(|own| request.headers.push(Name::ProxyAuthorization, own.clone()));
            Message::from(request)
        };
        let mut ask = |message: Message| {
            let server = &mut servers[partitioning.partition_of(&message.to_bytes()).unwrap() as usize];
            server.handle(Instant::ZERO, message, from);
            let sent: Vec<(Destination, Message)> = std::iter::from_fn(|| server.poll_transmit()).collect();
            let is_forwarded = sent.iter().any(|(_, message)| message.as_request().is_some());
            (is_forwarded, sent)
        };
        let (_, challenged) = ask(request(0, 1, None));
        let refusal = challenged.iter().find_map(|(_, message)| message.as_response()).unwrap();
        assert_eq!(refusal.status, Status::PROXY_AUTHENTICATION_REQUIRED);
        let challenge = refusal.headers.challenges(&Name::ProxyAuthenticate).unwrap();
        let mut session =
            DigestSession::new(DigestChallenge::read(&challenge[0]).unwrap(), "alice", "zanzibar");
        let answer = session.answer(&Method::Invite, "sip:u0@biloxi.com", b"", "0a4f113b").write();
        let taken = (0..16).filter(|user| ask(request(*user, 2, Some(&answer))).0).count();
        assert_eq!(taken, 1);
    }
}
