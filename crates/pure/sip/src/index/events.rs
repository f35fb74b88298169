//! Counts of abnormal events that are not failures.

use netrig_core::counts;
use schemars::JsonSchema;
use serde::Serialize;

use crate::record::{Record, Side};

/// Declares counts of events. A row has the key in the report of a load, the event in singular and plural, and its
/// count in a record. A report omits the counts after `absent if zero` if they are zero.
macro_rules! events {
    (
        $(#[$about:meta])*
        pub struct $table:ident {
            $($(#[doc = $doc:literal])+ $event:ident, $one:literal, $many:literal: |$record:ident| $of:expr;)+
            absent if zero:
            $($(#[doc = $rare_doc:literal])+ $rare:ident, $rare_one:literal, $rare_many:literal:
                |$rare_record:ident| $rare_of:expr;)+
        }
    ) => {
        counts! {
            $(#[$about])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
            pub struct $table {
                $($(#[doc = $doc])+ pub $event: u64,)+
                $(
                    $(#[doc = $rare_doc])+
                    #[serde(skip_serializing_if = "is_zero")]
                    #[schemars(with = "Option<u64>")]
                    pub $rare: u64,
                )+
            }
        }

        impl $table {
            pub(super) fn record(&mut self, record: &Record) {
                let of = |count: fn(&Record) -> u64| count(record);
                $(self.$event += of(|$record| u64::from($of));)+
                $(self.$rare += of(|$rare_record| u64::from($rare_of));)+
            }

            /// Each event in singular and plural, with its count.
            pub const fn events(&self) -> [(&'static str, &'static str, u64); [$($one,)+ $($rare_one),+].len()] {
                [$(($one, $many, self.$event),)+ $(($rare_one, $rare_many, self.$rare)),+]
            }
        }
    };
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

events! {
    /// Messages that were sent or received again, and session refreshes.
    pub struct Repetitions {
        /// Requests retransmitted because no response arrived in time.
        requests_again, "request sent again", "requests sent again": |record| record.counts.requests_again;
        /// Final responses retransmitted by the tester's callee because no ACK arrived in time.
        responses_again, "response sent again", "responses sent again": |record| record.counts.responses_again;
        /// ACKs retransmitted because a final response was received again.
        acknowledgements_again, "ACK sent again", "ACKs sent again":
            |record| record.counts.acknowledgements_again;
        /// Requests that the tester's callee received again.
        received_again, "request received again", "requests received again":
            |record| if record.side == Side::Callee { record.counts.repeated } else { 0 };
        absent if zero:
        /// Responses that callers received again, without those that were acknowledged again; absent if there were none.
        responses_received_again, "response received again", "responses received again":
            |record| if record.side == Side::Callee { 0 } else { record.counts.repeated };
        /// INVITEs within a dialog that crossed one of the peer (491) and were repeated later (RFC 3261 section 14.1); absent if there
        /// were none.
        pending_again, "re-INVITE sent again after 491", "re-INVITEs sent again after 491":
            |record| record.counts.pending;
        /// Requests of the tester to refresh a session (RFC 4028); absent if there were none.
        refreshes_sent, "session refreshed by the tester", "sessions refreshed by the tester":
            |record| record.counts.refreshes_sent;
        /// Requests of the peer that refreshed a session and that the tester answered with 2xx; absent if there were none.
        refreshes_answered, "refresh of the other side answered", "refreshes of the other side answered":
            |record| record.counts.refreshes_answered;
    }
}

events! {
    /// Other events that a load tolerates.
    pub struct ToleratedEvents {
        /// Provisional responses that arrived out of order, which is tolerated.
        reordered, "response out of order", "responses out of order": |record| record.counts.reordered;
        /// Challenges that were answered.
        challenges, "challenge answered", "challenges answered": |record| record.counts.challenges;
        /// Further dialogs of forked calls, which were acknowledged and ended.
        surplus, "surplus dialog ended", "surplus dialogs ended": |record| record.counts.surplus;
        /// Changes to the next server.
        failed_over, "server given up for the next", "servers given up for the next":
            |record| record.counts.failed_over;
        absent if zero:
        /// Contacts of 3xx that were tried; absent if there were none.
        redirects_followed, "contact of a 3xx asked", "contacts of 3xx asked": |record| record.counts.redirected;
        /// Requests that were repeated after the time of a `Retry-After`; absent if there were none.
        retried, "attempt repeated after Retry-After", "attempts repeated after Retry-After":
            |record| record.counts.retried;
    }
}
