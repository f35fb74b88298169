//! The bindings of users: the location service of RFC 3261 section 10.

use std::collections::{BTreeMap, BTreeSet};

use netrig_core::{Duration, Instant};

use super::transport_of;
use crate::grammar::unescaped;
use crate::header::{NameAddr, Transport};
use crate::{SipUri, Uri};

/// Most bindings of one address-of-record.
pub const MOST_BINDINGS: usize = 16;

/// Longest text of a binding, bytes: the address-of-record, the contact with all parameters, the path, the Call-ID.
pub const LONGEST_BINDING: usize = 4096;

/// Limit for the memory of all bindings, bytes per permitted user. An ordinary binding takes about 700 bytes.
const BYTES_PER_USER: usize = 1024;

/// Additional memory of all bindings, bytes, so that a few users may have [`MOST_BINDINGS`].
const BYTES_BESIDE: usize = 1 << 20;

/// Memory of a binding without its texts, bytes: structures and entries of tables. Texts count four times, because they are
/// kept in parts with spare capacity.
const OVERHEAD: usize = 320;
const TEXT_FACTOR: usize = 4;

/// A binding of an address-of-record to a contact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The contact with its header field parameters, except `expires`.
    pub contact: NameAddr,
    /// End of the binding.
    pub until: Instant,
    /// `Call-ID` of the last registration.
    pub call_id: String,
    /// `CSeq` number of the last registration.
    pub sequence: u32,
    /// Proxies on the path to the contact, nearest first (RFC 3327).
    pub path: Vec<NameAddr>,
}

/// The change of one binding that a registration requests.
#[derive(Clone, Debug)]
pub(super) struct BindingChange {
    pub(super) contact: NameAddr,
    pub(super) span: Duration,
}

/// The identity of a registration.
#[derive(Clone, Debug)]
pub(super) struct RegistrationOrigin {
    pub(super) call_id: String,
    pub(super) sequence: u32,
    pub(super) path: Vec<NameAddr>,
}

/// The reason why a registration was refused. It has changed no binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BindingConflict {
    /// A later registration was received before.
    OutOfOrder,
    /// A limit is reached.
    Full,
    /// A binding exceeds [`LONGEST_BINDING`].
    TooLong,
}

/// The bindings of all users, with a limit for the number of users.
#[derive(Debug)]
pub struct Bindings {
    most: usize,
    users: BTreeMap<String, Vec<Binding>>,
    /// Estimated memory of all bindings, bytes.
    kept: usize,
    /// Limit for the memory of all bindings, bytes: 1 KiB per permitted user, plus 1 MiB.
    most_kept: usize,
    due: BTreeSet<(Instant, String)>,
    /// Number of bindings that lead to each target, as a contact or on its path.
    targets: BTreeMap<String, usize>,
    /// Number of other partitions with bindings to a target.
    other_targets: BTreeMap<String, usize>,
    /// Changes of `targets` for other partitions.
    target_changes: Vec<TargetChange>,
    is_partition: bool,
}

/// A target was added to, or removed from, the bindings of a partition. A target is a host and port to which a binding leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetChange {
    /// `host:port`.
    pub target: String,
    /// The target was added.
    pub is_added: bool,
}

impl Binding {
    /// `q`, in thousandths. The default is 1, by choice: RFC 3261 has no default for `q` of `Contact`.
    pub fn preference(&self) -> u32 {
        let q = self.contact.parameters.value("q").unwrap_or("1");
        let (whole, part) = q.split_once('.').unwrap_or((q, ""));
        let part: u32 = format!("{part:0<3.3}").parse().unwrap_or(0);
        (whole.parse::<u32>().unwrap_or(0).min(1) * 1000 + part).min(1000)
    }

    /// Remaining seconds, at most 2³² - 1, the largest value of the grammar (RFC 3261 section 20.19).
    pub fn left(&self, now: Instant) -> u64 {
        (self.until - now).as_nanos().div_ceil(1_000_000_000).min(u32::MAX.into())
    }
}

/// An address-of-record in its canonical form: "all URI parameters MUST be removed (including the user-param), and any
/// escaped characters MUST be converted to their unescaped form" (RFC 3261 section 10.3). `None` if it is not a SIP URI.
pub(super) fn record_of(uri: &Uri) -> Option<String> {
    let SipUri { user, host, .. } = uri.as_sip()?;
    let user = user.as_deref().map(unescaped).unwrap_or_default();
    Some(format!("{user}@{}", host.to_string().to_ascii_lowercase()))
}

impl Bindings {
    /// No bindings, for at most `most` users.
    pub const fn new(most: usize) -> Self {
        let most_kept = most.saturating_mul(BYTES_PER_USER).saturating_add(BYTES_BESIDE);
        Self {
            most,
            users: BTreeMap::new(),
            kept: 0,
            most_kept,
            due: BTreeSet::new(),
            targets: BTreeMap::new(),
            other_targets: BTreeMap::new(),
            target_changes: Vec::new(),
            is_partition: false,
        }
    }

    /// The bindings of one of several partitions, which report changes of targets to each other.
    #[must_use]
    pub(super) fn of_partition(self) -> Self {
        Self { is_partition: true, ..self }
    }

    /// Changes since the last call, for other partitions.
    pub(super) fn take_target_changes(&mut self) -> Vec<TargetChange> {
        std::mem::take(&mut self.target_changes)
    }

    /// Handles a change of another partition.
    pub(super) fn handle_target_change(&mut self, change: &TargetChange) {
        count_target(&mut self.other_targets, &change.target, change.is_added);
    }

    /// Adds a binding without an end for the user of a URI. Returns false if there is no room for it, or if the URI is
    /// not a SIP URI.
    pub fn place(&mut self, uri: &Uri, contact: NameAddr) -> bool {
        let Some(record) = record_of(uri) else { return false };
        let origin = RegistrationOrigin { call_id: String::new(), sequence: 0, path: Vec::new() };
        let change = BindingChange { contact, span: Instant::NEVER - Instant::ZERO };
        self.change(Instant::ZERO, &record, &origin, &[change]).is_ok()
    }

    /// Number of users with a binding.
    pub fn len(&self) -> usize {
        self.users.len()
    }

    /// Upper estimate of the memory of all bindings, bytes.
    pub const fn kept(&self) -> usize {
        self.kept
    }

    /// Limit for the memory of all bindings.
    #[cfg(test)]
    pub(super) const fn most_kept(&self) -> usize {
        self.most_kept
    }

    /// Whether no user has a binding.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// Whether a binding leads to the target of a URI, as a contact or on its path.
    pub(super) fn lead_to(&self, uri: &SipUri) -> bool {
        let target = target_of(uri);
        self.targets.contains_key(&target) || self.other_targets.contains_key(&target)
    }

    /// The bindings of a URI's user at `now`, by preference.
    pub fn of(&self, now: Instant, uri: &Uri) -> Vec<Binding> {
        record_of(uri).map(|record| self.of_record(now, &record)).unwrap_or_default()
    }

    pub(super) fn of_record(&self, now: Instant, record: &str) -> Vec<Binding> {
        let all = self.users.get(record).map_or(&[][..], Vec::as_slice);
        let mut found: Vec<Binding> = all.iter().filter(|binding| binding.until > now).cloned().collect();
        found.sort_by_key(|binding| std::cmp::Reverse(binding.preference()));
        found
    }

    /// Makes all changes or none: "a particular REGISTER request is either processed completely or not at all".
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
        // Each change is compared with the bindings before the request, because the request may name a contact twice.
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
        // A registration that reduces the memory is never refused.
        let is_too_much = kept > self.most_kept && kept > self.kept;
        if all.len() > MOST_BINDINGS || is_too_much || is_new && self.users.len() >= self.most {
            return Err(BindingConflict::Full);
        }
        self.put(record, all);
        Ok(())
    }

    /// Handles `Contact: *`: removes all bindings, or none.
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
        for target in targets_of(&all) {
            self.count(target, true);
        }
        let before = if all.is_empty() {
            self.users.remove(record)
        } else {
            self.users.insert(record.to_owned(), all)
        };
        self.kept -= before.as_deref().map_or(0, |all| room(record, all));
        for target in targets_of(before.as_deref().unwrap_or_default()) {
            self.count(target, false);
        }
        if let Some(at) = before.as_deref().and_then(first) {
            self.due.remove(&(at, record.to_owned()));
        }
        self.due.extend(due.map(|at| (at, record.to_owned())));
    }

    /// Counts one more or one fewer binding to a target.
    fn count(&mut self, target: String, is_added: bool) {
        let is_change = count_target(&mut self.targets, &target, is_added);
        if is_change && self.is_partition {
            self.target_changes.push(TargetChange { target, is_added });
        }
    }

    /// Removes bindings that have ended.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((at, record)) = self.due.first().cloned() {
            if at > now {
                return;
            }
            let left = self.of_record(now, &record);
            self.put(&record, left);
        }
    }

    /// The end of the next binding.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }
}

/// Counts one more or one fewer binding to a target. Returns whether it is the first or was the last one.
fn count_target(targets: &mut BTreeMap<String, usize>, target: &str, is_added: bool) -> bool {
    if is_added {
        let count = targets.entry(target.to_owned()).or_default();
        *count += 1;
        return *count == 1;
    }
    let left = targets.get_mut(target).map(|count| {
        *count -= 1;
        *count
    });
    left == Some(0) && targets.remove(target).is_some()
}

/// The host and port that a URI leads to.
fn target_of(uri: &SipUri) -> String {
    let default = transport_of(uri).unwrap_or(Transport::Udp).default_port();
    format!("{}:{}", uri.target(), uri.port.unwrap_or(default)).to_ascii_lowercase()
}

fn targets_of(all: &[Binding]) -> impl Iterator<Item = String> {
    let addresses = all.iter().flat_map(|binding| std::iter::once(&binding.contact).chain(&binding.path));
    addresses.filter_map(|address| address.uri.as_sip()).map(target_of)
}

/// Upper estimate of the memory of one user's bindings, bytes.
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
