//! A cache of DNS responses by their TTL.

use std::collections::HashMap;

use netrig_core::{Duration, Instant};
use netrig_sip::location::{Question, Records};

/// Maximum number of cached responses. If the cache is full, expired responses are removed; if it is still full, all
/// responses.
const MOST: usize = 4096;

/// Responses by their questions, including negative responses (RFC 2308).
#[derive(Debug, Default)]
pub(super) struct Cache(HashMap<Question, (Option<Records>, Instant)>);

impl Cache {
    /// Caches a response for `ttl` seconds. A response with a TTL of 0 is not cached.
    pub fn put(&mut self, now: Instant, question: Question, records: Option<Records>, ttl: u32) {
        if ttl == 0 {
            return;
        }
        if self.0.len() >= MOST {
            self.0.retain(|_, (_, until)| *until > now);
        }
        if self.0.len() >= MOST {
            self.0.clear();
        }
        self.0.insert(question, (records, now + Duration::from_secs(ttl.into())));
    }

    /// The cached response to a question; `Some(None)` if it is negative.
    pub fn get(&self, now: Instant, question: &Question) -> Option<&Option<Records>> {
        self.0.get(question).filter(|(_, until)| *until > now).map(|(records, _)| records)
    }
}

#[cfg(test)]
mod tests {
    use netrig_sip::location::Kind;

    use super::*;

    #[test]
    fn what_may_be_kept_is_and_no_longer() {
        let mut cache = Cache::default();
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let question = |name: &str| Question { kind: Kind::A, name: name.to_owned() };
        let records = Records::Addresses(vec![[192, 0, 2, 1].into()]);
        cache.put(at(0), question("a"), Some(records.clone()), 1);
        cache.put(at(0), question("b"), None, 1);
        cache.put(at(0), question("c"), None, 0);
        assert_eq!(cache.get(at(999), &question("a")), Some(&Some(records)));
        assert_eq!(cache.get(at(999), &question("b")), Some(&None));
        assert_eq!(cache.get(at(1000), &question("a")), None);
        assert_eq!(cache.get(at(0), &question("c")), None);
        for number in 0..3 * MOST {
            cache.put(at(0), question(&number.to_string()), None, 60);
        }
        assert!(cache.0.len() <= MOST);
    }
}
