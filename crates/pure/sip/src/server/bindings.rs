//! Where users are: the location service of RFC 3261 section 10.

use std::collections::{BTreeMap, BTreeSet};

use netrig_core::{Duration, Instant};

use super::transport_of;
use crate::grammar::unescaped;
use crate::header::{NameAddr, Transport};
use crate::{SipUri, Uri};

/// The most bindings of one address-of-record.
pub const MOST_BINDINGS: usize = 16;

/// The longest that is kept for one of them, bytes: its URI with all parameters, the proxies on the way, the Call-ID.
pub const LONGEST_BINDING: usize = 4096;

/// Bytes that all bindings may take for each user that there may be. Ordinary ones take about 700.
const BYTES_PER_USER: usize = 1024;

/// Bytes that bindings may take beside that, so that a few users may have all of theirs.
const BYTES_BESIDE: usize = 1 << 20;

/// Bytes that a binding takes beside its texts: its structures, and its places in the tables. Texts count four times: they are
/// kept in parts, with the room that each of them has to grow.
const OVERHEAD: usize = 320;
const TEXT_FACTOR: usize = 4;

/// One address of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Where; its header field's parameters are those that were registered, without `expires`.
    pub contact: NameAddr,
    /// Until when.
    pub until: Instant,
    /// Of the registration that last touched it.
    pub call_id: String,
    /// Of the registration that last touched it.
    pub sequence: u32,
    /// Proxies on the way to it, the first one first (RFC 3327).
    pub path: Vec<NameAddr>,
}

/// What a registration asks for one address.
#[derive(Clone, Debug)]
pub(super) struct BindingChange {
    pub(super) contact: NameAddr,
    pub(super) span: Duration,
}

/// Whose registration it is.
#[derive(Clone, Debug)]
pub(super) struct RegistrationOrigin {
    pub(super) call_id: String,
    pub(super) sequence: u32,
    pub(super) path: Vec<NameAddr>,
}

/// Why no change was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BindingConflict {
    /// A later registration was here before.
    OutOfOrder,
    /// There is no more room.
    Full,
    /// It is longer than is kept.
    TooLong,
}

/// The bindings of all users, at most so many users as it is told.
#[derive(Debug)]
pub struct Bindings {
    most: usize,
    users: BTreeMap<String, Vec<Binding>>,
    /// Bytes that they take, and that they may take.
    kept: usize,
    most_kept: usize,
    due: BTreeSet<(Instant, String)>,
    /// How many bindings lead to a host and port, as a contact or on the path to it.
    places: BTreeMap<String, usize>,
    /// In how many other partitions bindings lead to it.
    other_places: BTreeMap<String, usize>,
    /// What other partitions have not been told of `places`.
    untold: Vec<TargetChange>,
    is_partition: bool,
}

/// A place, a host and port, to which the bindings of a partition have begun or ceased to lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetChange {
    /// `host:port`.
    pub target: String,
    /// They have begun to.
    pub is_added: bool,
}

impl Binding {
    /// `q`, in thousandths; 1 where none stands, by choice: RFC 3261 has no default for that of `Contact`.
    pub fn preference(&self) -> u32 {
        let q = self.contact.parameters.value("q").unwrap_or("1");
        let (whole, part) = q.split_once('.').unwrap_or((q, ""));
        let part: u32 = format!("{part:0<3.3}").parse().unwrap_or(0);
        (whole.parse::<u32>().unwrap_or(0).min(1) * 1000 + part).min(1000)
    }

    /// Seconds that it has left, at most as many as can be written: 2³² less one (RFC 3261 section 20.19).
    pub fn left(&self, now: Instant) -> u64 {
        (self.until - now).as_nanos().div_ceil(1_000_000_000).min(u32::MAX.into())
    }
}

/// An address-of-record in its canonical form: "all URI parameters MUST be removed (including the user-param), and any
/// escaped characters MUST be converted to their unescaped form" (RFC 3261 section 10.3). `None` if it is no SIP URI.
pub(super) fn record_of(uri: &Uri) -> Option<String> {
    let SipUri { user, host, .. } = uri.as_sip()?;
    let user = user.as_deref().map(unescaped).unwrap_or_default();
    Some(format!("{user}@{}", host.to_string().to_ascii_lowercase()))
}

impl Bindings {
    /// Of at most `most` users.
    pub const fn new(most: usize) -> Self {
        let most_kept = most.saturating_mul(BYTES_PER_USER).saturating_add(BYTES_BESIDE);
        Self {
            most,
            users: BTreeMap::new(),
            kept: 0,
            most_kept,
            due: BTreeSet::new(),
            places: BTreeMap::new(),
            other_places: BTreeMap::new(),
            untold: Vec::new(),
            is_partition: false,
        }
    }

    /// Those of one of several partitions, which tell each other of places.
    #[must_use]
    pub(super) fn of_partition(self) -> Self {
        Self { is_partition: true, ..self }
    }

    /// Changes of which other partitions have not been told.
    pub(super) fn take_target_changes(&mut self) -> Vec<TargetChange> {
        std::mem::take(&mut self.untold)
    }

    /// Another partition has told of a change.
    pub(super) fn handle_target_change(&mut self, change: &TargetChange) {
        count_place(&mut self.other_places, &change.target, change.is_added);
    }

    /// Gives the user of a URI an address that does not end, beside those that are registered. Whether there is room for it,
    /// and the URI is one of SIP.
    pub fn place(&mut self, uri: &Uri, contact: NameAddr) -> bool {
        let Some(record) = record_of(uri) else { return false };
        let origin = RegistrationOrigin { call_id: String::new(), sequence: 0, path: Vec::new() };
        let change = BindingChange { contact, span: Instant::NEVER - Instant::ZERO };
        self.change(Instant::ZERO, &record, &origin, &[change]).is_ok()
    }

    /// How many users have one.
    pub fn len(&self) -> usize {
        self.users.len()
    }

    /// Bytes that all bindings take, an estimate from above.
    pub const fn kept(&self) -> usize {
        self.kept
    }

    /// Bytes that all bindings may take: 1 KiB for each user that there may be, and 1 MiB.
    pub const fn most_kept(&self) -> usize {
        self.most_kept
    }

    /// Whether nobody is here.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// Whether a user has a contact at the host and port of a URI, or a path over them.
    pub(super) fn lead_to(&self, uri: &SipUri) -> bool {
        let place = place_of(uri);
        self.places.contains_key(&place) || self.other_places.contains_key(&place)
    }

    /// The bindings of a URI's user at `now`, the preferred first.
    pub fn of(&self, now: Instant, uri: &Uri) -> Vec<Binding> {
        record_of(uri).map(|record| self.of_record(now, &record)).unwrap_or_default()
    }

    pub(super) fn of_record(&self, now: Instant, record: &str) -> Vec<Binding> {
        let all = self.users.get(record).map_or(&[][..], Vec::as_slice);
        let mut found: Vec<Binding> = all.iter().filter(|binding| binding.until > now).cloned().collect();
        found.sort_by_key(|binding| std::cmp::Reverse(binding.preference()));
        found
    }

    /// Changes all or nothing: "a particular REGISTER request is either processed completely or not at all".
    pub(super) fn change(
        &mut self,
        now: Instant,
        record: &str,
        origin: &RegistrationOrigin,
        changes: &[BindingChange],
    ) -> Result<(), BindingConflict> {
        let mut all = self.of_record(now, record);
        let path: usize = origin.path.iter().map(|proxy| proxy.to_string().len()).sum();
        let longest = changes.iter().map(|change| change.contact.to_string().len()).max();
        if record.len() + origin.call_id.len() + path + longest.unwrap_or(0) > LONGEST_BINDING {
            return Err(BindingConflict::TooLong);
        }
        let place_of = |all: &[Binding], contact: &NameAddr| {
            all.iter().position(|own| own.contact.uri.is_equivalent(&contact.uri))
        };
        // Against what was there before: a request that names one address twice is in order with itself.
        for place in changes.iter().filter_map(|change| place_of(&all, &change.contact)) {
            in_order(&all[place], origin)?;
        }
        for BindingChange { contact, span } in changes {
            let place = place_of(&all, contact);
            if span.is_zero() {
                place.map(|place| all.remove(place));
                continue;
            }
            let RegistrationOrigin { call_id, sequence, path } = origin.clone();
            let binding = Binding { contact: contact.clone(), until: now + *span, call_id, sequence, path };
            match place {
                Some(place) => all[place] = binding,
                None => all.push(binding),
            }
        }
        let is_new = !all.is_empty() && !self.users.contains_key(record);
        let before = self.users.get(record).map_or(0, |all| room(record, all));
        let kept = self.kept - before + room(record, &all);
        // Who asks for less room than it had is never refused.
        let is_too_much = kept > self.most_kept && kept > self.kept;
        if all.len() > MOST_BINDINGS || is_too_much || is_new && self.users.len() >= self.most {
            return Err(BindingConflict::Full);
        }
        self.put(record, all);
        Ok(())
    }

    /// `Contact: *`: all are removed, or none.
    pub(super) fn remove_all(
        &mut self,
        now: Instant,
        record: &str,
        origin: &RegistrationOrigin,
    ) -> Result<(), BindingConflict> {
        self.of_record(now, record).iter().try_for_each(|binding| in_order(binding, origin))?;
        self.put(record, Vec::new());
        Ok(())
    }

    fn put(&mut self, record: &str, all: Vec<Binding>) {
        let first = |all: &[Binding]| all.iter().map(|binding| binding.until).min();
        let due = first(&all);
        self.kept += room(record, &all);
        for place in places_of(&all) {
            self.count(place, true);
        }
        let before = if all.is_empty() {
            self.users.remove(record)
        } else {
            self.users.insert(record.to_owned(), all)
        };
        self.kept -= before.as_deref().map_or(0, |all| room(record, all));
        for place in places_of(before.as_deref().unwrap_or_default()) {
            self.count(place, false);
        }
        if let Some(at) = before.as_deref().and_then(first) {
            self.due.remove(&(at, record.to_owned()));
        }
        self.due.extend(due.map(|at| (at, record.to_owned())));
    }

    /// One more or one fewer binding leads to a place.
    fn count(&mut self, place: String, is_added: bool) {
        let is_change = count_place(&mut self.places, &place, is_added);
        if is_change && self.is_partition {
            self.untold.push(TargetChange { target: place, is_added });
        }
    }

    /// Forgets what has ended.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((at, record)) = self.due.first().cloned() {
            if at > now {
                return;
            }
            let left = self.of_record(now, &record);
            self.put(&record, left);
        }
    }

    /// When the next one ends.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }
}

/// Counts one more or one fewer. Returns whether it is the first or the last.
fn count_place(places: &mut BTreeMap<String, usize>, place: &str, is_added: bool) -> bool {
    if is_added {
        let count = places.entry(place.to_owned()).or_default();
        *count += 1;
        return *count == 1;
    }
    let left = places.get_mut(place).map(|count| {
        *count -= 1;
        *count
    });
    left == Some(0) && places.remove(place).is_some()
}

/// The host and port that a URI leads to.
fn place_of(uri: &SipUri) -> String {
    let default = transport_of(uri).unwrap_or(Transport::Udp).default_port();
    format!("{}:{}", uri.target(), uri.port.unwrap_or(default)).to_ascii_lowercase()
}

fn places_of(all: &[Binding]) -> impl Iterator<Item = String> {
    let addresses = all.iter().flat_map(|binding| std::iter::once(&binding.contact).chain(&binding.path));
    addresses.filter_map(|address| address.uri.as_sip()).map(place_of)
}

/// Bytes that the bindings of one user take, an estimate from above.
fn room(record: &str, all: &[Binding]) -> usize {
    let of = |binding: &Binding| {
        let path: usize = binding.path.iter().map(|proxy| proxy.to_string().len() + OVERHEAD).sum();
        OVERHEAD
            + TEXT_FACTOR * (binding.contact.to_string().len() + binding.call_id.len())
            + TEXT_FACTOR * path
    };
    if all.is_empty() { 0 } else { 2 * record.len() + all.iter().map(of).sum::<usize>() }
}

/// "If they are the same, the registrar compares the CSeq value. If the value is higher than that of the existing binding, it
/// MUST update or remove the binding as above. If not, the update MUST be aborted and the request fails."
fn in_order(binding: &Binding, origin: &RegistrationOrigin) -> Result<(), BindingConflict> {
    let late = binding.call_id == origin.call_id && origin.sequence <= binding.sequence;
    if late { Err(BindingConflict::OutOfOrder) } else { Ok(()) }
}
