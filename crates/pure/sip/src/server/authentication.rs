//! Authentication of requests by challenges (RFC 3261 section 22, RFC 7616).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use hmac::{Hmac, KeyInit, Mac};
use netrig_core::text::push_hex;
use netrig_core::{Duration, Instant, Stream};
use sha2::Sha256;

use super::Partition;
use crate::digest::{Algorithm, DigestChallenge, DigestCredentials, Hash, Quality, Secret, is_same_proof};
use crate::{Method, Name, Request};

/// Lifetime of a nonce.
pub const NONCE_LIFE: Duration = Duration::from_secs(300);

/// Most nonces whose counts are kept. A forgotten nonce is stale.
const MOST_NONCES: usize = 100_000;

/// Size of the window of accepted counts below the highest one, because requests may overtake each other.
const WINDOW: u32 = 64;

/// Makes challenges and checks credentials. A nonce contains its creation time and a signature with the server's key,
/// so an unused nonce takes no memory. The counts of used nonces are kept, so that no count is accepted twice.
#[derive(Debug)]
pub struct Authenticator {
    realm: String,
    algorithm: Algorithm,
    key: [u8; 32],
    /// Makes the nonces of partitions different.
    partition: Partition,
    /// Number of nonces made so far, which makes each nonce unique.
    made: u64,
    used: UsedNonces,
}

/// The counts of nonces in use. All partitions of a server share them, so that only one partition accepts a count. Only
/// requests with a right password wait for the lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct UsedNonces(Arc<Mutex<NonceTable>>);

#[derive(Debug, Default)]
struct NonceTable {
    used: BTreeMap<Nonce, NonceWindow>,
    /// All nonces up to this one are stale.
    floor: Option<Nonce>,
}

/// Creation time and serial number of a nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Nonce {
    nanos: u64,
    serial: u64,
}

/// The used counts of a nonce: the highest, and a bit for each of the next lower ones.
#[derive(Clone, Copy, Debug, Default)]
struct NonceWindow {
    highest: u32,
    below: u64,
}

/// The result of the check of a request's credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialsVerdict {
    /// The request is from this user.
    Proven(String),
    /// The request must be challenged: the credentials are missing, wrong or stale.
    Challenge {
        /// The password is right, but the nonce or its count cannot be accepted.
        stale: bool,
    },
}

impl NonceWindow {
    /// Marks a count as used. Returns whether it was unused.
    fn take(&mut self, count: u32) -> bool {
        if count > self.highest {
            let by = count - self.highest;
            // The previous highest count moves into the window.
            self.below = if by < WINDOW { self.below << by } else { 0 };
            if self.highest > 0 && by <= WINDOW {
                self.below |= 1 << (by - 1);
            }
            self.highest = count;
            return true;
        }
        let below = self.highest - count;
        if below == 0 || below > WINDOW || self.below & 1 << (below - 1) != 0 {
            return false;
        }
        self.below |= 1 << (below - 1);
        true
    }
}

impl Authenticator {
    /// An authenticator for `realm`, with a key drawn from `random`.
    pub fn new(realm: &str, algorithm: Algorithm, random: &mut Stream) -> Self {
        let mut key = [0; 32];
        for eight in key.chunks_exact_mut(8) {
            eight.copy_from_slice(&random.bits().to_le_bytes());
        }
        Self {
            realm: realm.to_owned(),
            algorithm,
            key,
            partition: Partition::default(),
            made: 0,
            used: UsedNonces::default(),
        }
    }

    /// The authenticator of a partition, which shares the used nonces with the others.
    #[must_use]
    pub(super) fn of_partition(self, partition: Partition, used: UsedNonces) -> Self {
        Self { partition, used, ..self }
    }

    /// The realm of the passwords.
    pub fn realm(&self) -> &str {
        &self.realm
    }

    /// The hash function of passwords.
    pub const fn hash(&self) -> Hash {
        self.algorithm.hash
    }

    fn signed(&self, nonce: Nonce) -> String {
        let mut text = String::with_capacity(64);
        push_hex(&nonce.nanos.to_be_bytes(), &mut text);
        push_hex(&nonce.serial.to_be_bytes(), &mut text);
        // HMAC accepts a key of any length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.key) else { return text };
        mac.update(text.as_bytes());
        push_hex(&mac.finalize().into_bytes()[..16], &mut text);
        text
    }

    fn read(&self, text: &str) -> Option<Nonce> {
        let number = |from: usize| u64::from_str_radix(text.get(from..from + 16)?, 16).ok();
        let nonce = Nonce { nanos: number(0)?, serial: number(16)? };
        is_same_proof(&self.signed(nonce), text).then_some(nonce)
    }

    /// A new challenge.
    pub fn challenge(&mut self, now: Instant, stale: bool) -> DigestChallenge {
        self.made += 1;
        DigestChallenge {
            realm: self.realm.clone(),
            nonce: self.signed(Nonce { nanos: now.as_nanos(), serial: self.partition.serial(self.made) }),
            opaque: None,
            algorithm: self.algorithm,
            qualities: vec![Quality::Auth],
            stale,
            userhash: false,
        }
    }

    /// Checks the credentials of a request in the field `name`, `Authorization` or `Proxy-Authorization`. `secret` returns the
    /// secret of a user.
    pub fn check(
        &mut self,
        now: Instant,
        request: &Request,
        name: &Name,
        secret: impl Fn(&str) -> Option<Secret>,
    ) -> CredentialsVerdict {
        let again = CredentialsVerdict::Challenge { stale: false };
        let answers = request.headers.credentials(name).unwrap_or_default();
        let mut answers = answers.iter().filter_map(|credentials| DigestCredentials::read(credentials).ok());
        let Some(answer) = answers.find(|answer| answer.realm == self.realm) else { return again };
        let Some(secret) = secret(&answer.username) else { return again };
        let Some(nonce) = self.read(&answer.nonce) else { return again };
        if !answer.proves(&request.method, &request.body, &secret) || !is_of(&answer, request) {
            return again;
        }
        if self.used.is_fresh(now, nonce, answer.protection.map(|protection| protection.count)) {
            CredentialsVerdict::Proven(answer.username)
        } else {
            // "stale: A case-insensitive flag indicating that the previous request from the client was rejected because the
            // nonce value was stale" (RFC 7616 section 3.3): the client need not ask its user again.
            CredentialsVerdict::Challenge { stale: true }
        }
    }
}

impl UsedNonces {
    /// Marks a count of a nonce as used. Returns whether nonce and count are fresh.
    fn is_fresh(&self, now: Instant, nonce: Nonce, count: Option<u32>) -> bool {
        let made = Instant::from_nanos(nonce.nanos);
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let NonceTable { used, floor } = &mut *table;
        if made > now || now - made > NONCE_LIFE || floor.is_some_and(|floor| nonce <= floor) {
            return false;
        }
        // "The nc parameter value is the hexadecimal count of the number of requests (including the current request) that the
        // client has sent with the nonce value in this request". Without a count, a nonce is valid once.
        let fresh = used.entry(nonce).or_default().take(count.unwrap_or(1));
        let oldest = now.as_nanos().saturating_sub(NONCE_LIFE.as_nanos());
        while let Some((&first, _)) = used.first_key_value() {
            if first.nanos >= oldest && used.len() <= MOST_NONCES {
                break;
            }
            used.remove(&first);
            *floor = (*floor).max(Some(first));
        }
        fresh
    }
}

/// Whether the credentials are for this request. Proxies change the Request-URI, so a URI of the same host is accepted: it still
/// proves that the client meant this domain.
fn is_of(answer: &DigestCredentials, request: &Request) -> bool {
    let Ok(uri) = answer.uri.parse::<crate::Uri>() else { return false };
    match (uri.as_sip(), request.uri.as_sip()) {
        (Some(a), Some(b)) => a.host.is_equivalent(&b.host) || request.method != Method::Register,
        _ => uri == request.uri,
    }
}

/// Required option tags of a request that are unknown here.
pub(super) fn unknown_options(request: &Request, name: &Name, known: &[&str]) -> Vec<String> {
    let needed: BTreeSet<String> = request.headers.tokens(name).unwrap_or_default().into_iter().collect();
    needed.into_iter().filter(|tag| !known.iter().any(|own| own.eq_ignore_ascii_case(tag))).collect()
}

#[cfg(test)]
mod tests {
    use netrig_core::Seeds;

    use super::*;
    use crate::digest::DigestSession;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    struct Client(DigestSession);

    impl Client {
        fn new(server: &mut Authenticator, now: Instant, password: &str) -> Self {
            Self(DigestSession::new(server.challenge(now, false), "bob", password))
        }

        fn register(&mut self) -> Request {
            let mut request = Request::new(Method::Register, "sip:biloxi.com".parse().unwrap());
            let answer = self.0.answer(&Method::Register, "sip:biloxi.com", b"", "0a4f113b");
            request.headers.push(Name::Authorization, answer.write());
            request
        }
    }

    fn server() -> Authenticator {
        Authenticator::new("biloxi.com", Algorithm::SHA_256, &mut Seeds::new(1).stream("nonces"))
    }

    fn check(server: &mut Authenticator, now: Instant, request: &Request) -> CredentialsVerdict {
        let secret =
            |user: &str| (user == "bob").then(|| Secret::new(Hash::Sha256, user, "biloxi.com", "zanzibar"));
        server.check(now, request, &Name::Authorization, secret)
    }

    #[test]
    fn a_nonce_lives_for_a_time_and_each_count_once() {
        let mut server = server();
        let mut client = Client::new(&mut server, at(10), "zanzibar");
        let requests: Vec<Request> = (0..100).map(|_| client.register()).collect();
        let proven = CredentialsVerdict::Proven("bob".into());
        let stale = CredentialsVerdict::Challenge { stale: true };
        // The second request overtakes the first.
        for place in [1, 0, 2, 90, 60] {
            assert_eq!(check(&mut server, at(11), &requests[place]), proven, "{place}");
            assert_eq!(check(&mut server, at(11), &requests[place]), stale, "{place} again");
        }
        assert_eq!(check(&mut server, at(11), &requests[3]), stale, "below the window");
        assert_eq!(check(&mut server, at(311), &requests[91]), stale, "too old");
        assert_eq!(check(&mut server, at(9), &requests[92]), stale, "not made yet");
    }

    #[test]
    fn who_does_not_know_is_challenged() {
        let mut server = server();
        let again = CredentialsVerdict::Challenge { stale: false };
        let wrong = Client::new(&mut server, at(0), "tanzania").register();
        assert_eq!(check(&mut server, at(0), &wrong), again);
        let mut stranger = self::server();
        stranger.key = [7; 32];
        let foreign = Client::new(&mut stranger, at(0), "zanzibar").register();
        assert_eq!(check(&mut server, at(0), &foreign), again);
        let mut bare = wrong;
        bare.headers.remove(&Name::Authorization);
        assert_eq!(check(&mut server, at(0), &bare), again);
    }

    #[test]
    fn counts_are_kept_of_so_many_nonces() {
        let mut server = server();
        let mut first = Client::new(&mut server, at(0), "zanzibar");
        assert_eq!(check(&mut server, at(0), &first.register()), CredentialsVerdict::Proven("bob".into()));
        for _ in 0..MOST_NONCES {
            let nonce = Nonce { nanos: at(1).as_nanos(), serial: server.made };
            server.made += 1;
            assert!(server.used.is_fresh(at(1), nonce, Some(1)));
        }
        assert_eq!(server.used.0.lock().unwrap().used.len(), MOST_NONCES);
        assert_eq!(
            check(&mut server, at(1), &first.register()),
            CredentialsVerdict::Challenge { stale: true }
        );
    }
}
