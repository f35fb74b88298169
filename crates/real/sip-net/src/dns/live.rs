//! A zone to which records can be added while a server answers from it, and a record of the queries.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use netrig_sip::header::Transport;
use netrig_sip::location::{Question, Records, Zone, ZoneAnswer, ZoneError};

use netrig_host::realtime_nanos;

/// Maximum number of recorded queries. Further queries are answered, but not recorded.
const MOST_RECORDED: usize = 1 << 16;

/// A query that arrived at a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedQuestion {
    /// When the server read the query, ns since 1970.
    pub at_ns: u64,
    /// The host that sent the query.
    pub from: IpAddr,
    /// UDP or TCP.
    pub transport: Transport,
    /// The question. Its name has the same upper and lower case letters as in the query.
    pub question: Question,
    /// Number of records in the answer; `None` if the name does not exist.
    pub records: Option<usize>,
}

/// A zone that is shared by a server and by code that adds records.
#[derive(Debug)]
pub struct LiveZone {
    zone: Mutex<Zone>,
    /// `None` if queries are not recorded.
    recorded: Option<Mutex<Vec<RecordedQuestion>>>,
}

impl From<Zone> for LiveZone {
    /// A zone whose queries are not recorded.
    fn from(zone: Zone) -> Self {
        Self { zone: Mutex::new(zone), recorded: None }
    }
}

impl LiveZone {
    /// An empty zone whose server records the queries for NAPTR, SRV, A and AAAA records.
    pub fn recording() -> Self {
        Self { recorded: Some(Mutex::default()), ..Self::from(Zone::default()) }
    }

    /// Adds records in the form of [`Zone::parse`]. The next query finds them.
    ///
    /// # Errors
    /// If a line cannot be parsed. The lines before it are added.
    pub fn add(&self, records: &str) -> Result<(), ZoneError> {
        self.with(|zone| zone.extend(records))
    }

    /// The recorded queries that `is_wanted` selects, in the order of arrival.
    pub fn recorded(&self, is_wanted: impl Fn(&Question) -> bool) -> Vec<RecordedQuestion> {
        let Some(recorded) = &self.recorded else { return Vec::new() };
        let recorded = recorded.lock().unwrap_or_else(PoisonError::into_inner);
        recorded.iter().filter(|question| is_wanted(&question.question)).cloned().collect()
    }

    /// Whether [`record`](Self::record) has an effect.
    pub(super) const fn is_recording(&self) -> bool {
        self.recorded.is_some()
    }

    /// Records a query that is answered now.
    pub(super) fn record(&self, question: Question, from: IpAddr, transport: Transport) {
        let Some(recorded) = &self.recorded else { return };
        let records = self.with(|zone| match zone.answer(&question) {
            ZoneAnswer::Records(Records::Naptr(all), _) => Some(all.len()),
            ZoneAnswer::Records(Records::Srv(all), _) => Some(all.len()),
            ZoneAnswer::Records(Records::Addresses(all), _) => Some(all.len()),
            ZoneAnswer::NoRecords => Some(0),
            ZoneAnswer::NoSuchName => None,
        });
        let mut recorded = recorded.lock().unwrap_or_else(PoisonError::into_inner);
        if recorded.len() < MOST_RECORDED {
            recorded.push(RecordedQuestion { at_ns: realtime_nanos(), from, transport, question, records });
        }
    }

    /// Reads or changes the zone.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Zone) -> T) -> T {
        act(&mut self.zone.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
