//! The rules that hold for each server, as purposes of each role.

use super::{general, malformed};

/// The purposes that hold for each server, as those of a role: with a prefix of ids, and what the server is asked.
macro_rules! rules_of_each_server {
    ($role:ident $prefix:literal, $subject:expr) => {
        use $crate::conformance::purpose::purposes;
        use $crate::conformance::{PurposeOutcome, TestCase};

        purposes! {
            $role $prefix;
            "messages" {
                "MSG-01" Must "RFC 3261 section 8.2.6.2" "A response has the Via values of the request in their order." => copies_vias, in basic;
                "MSG-02" Must "RFC 3261 section 8.2.6.2" "A response has From, Call-ID and CSeq of the request." => copies_from_call_id_and_cseq, in basic;
                "MSG-03" Must "RFC 3261 section 8.2.6.2" "A response has To of the request, and a tag in it." => adds_a_tag, in basic;
                "MSG-04" Must "RFC 3261 section 7" "A response keeps to the grammar and to the rules of its header fields." => writes_right_messages, in basic;
                "MSG-05" Must "RFC 3261 section 7.3.1" "Names of header fields are read in any case." => takes_names_in_any_case;
                "MSG-06" Must "RFC 3261 section 7.3.3" "Compact names of header fields are read." => takes_compact_names;
                "MSG-07" Must "RFC 3261 section 7.3.1" "Header fields over several lines are read." => takes_folded_lines;
                "MSG-08" Must "RFC 3261 section 25.1" "White space around separators is read." => takes_white_space;
                "MSG-09" Must "RFC 3261 section 8.2.2" "Header fields that are not known are ignored." => ignores_unknown_fields;
                "MSG-10" Must "RFC 3261 section 7.3.1" "Parameters that are not known are ignored." => ignores_unknown_parameters;
                "MSG-11" Must "RFC 3261 section 7.5" "Empty lines before a request are skipped." => skips_empty_lines, over Connections;
            }
            "transport" {
                "WAY-01" Must "RFC 3261 section 18.2.2" "Without rport a response goes to the port of Via's sent-by." => answers_to_sent_by, over Datagrams, in basic;
                "WAY-02" Must "RFC 3581 section 4" "With rport a response goes to the port that the request came from." => answers_to_rport, over Datagrams;
                "WAY-03" Must "RFC 3581 section 4" "With rport the response tells port and address that the request came from." => fills_in_rport, over Datagrams;
                "WAY-04" Must "RFC 3261 section 18.2.1" "received tells the address that a request came from where its Via names a host." => adds_received, over Datagrams;
                "WAY-05" Must "RFC 3261 section 17.2.2" "A request that is sent again gets the same response." => answers_again_alike, over Datagrams;
                "WAY-06" Must "RFC 3261 section 18.3" "What stands behind the body in a datagram is ignored." => ignores_what_follows_the_body, over Datagrams;
                "WAY-07" Must "RFC 3261 section 18.3" "Two requests in one segment are both answered." => reads_two_messages_at_once, over Connections;
                "WAY-08" Must "RFC 3261 section 18.3" "A request in several segments is answered." => reads_a_message_in_pieces, over Connections;
                "WAY-09" Must "RFC 3261 section 18.2.2" "A response comes on the connection that the request came on." => answers_on_the_connection, over Connections;
                "WAY-10" Must "RFC 3261 section 7.5" "Empty lines between requests do not end a connection." => keeps_a_connection_with_empty_lines, over Connections;
                "WAY-11" Should "RFC 3261 section 18.3" "A datagram that ends before its body is not taken." => refuses_too_short_a_body, over Datagrams;
                "WAY-12" Must "RFC 3261 section 7" "Bytes that are no message do no harm." => survives_garbage;
            }
        }

        bound! { $subject; general:
            copies_vias copies_from_call_id_and_cseq adds_a_tag writes_right_messages takes_names_in_any_case takes_compact_names
            takes_folded_lines takes_white_space ignores_unknown_fields ignores_unknown_parameters skips_empty_lines answers_to_sent_by
            answers_to_rport fills_in_rport adds_received answers_again_alike ignores_what_follows_the_body reads_two_messages_at_once
            reads_a_message_in_pieces answers_on_the_connection keeps_a_connection_with_empty_lines
        }
        bound! { $subject; malformed: refuses_too_short_a_body survives_garbage }
    };
}

/// The purposes that hold for each server that answers requests itself, and does not forward them: a proxy reads what it needs only (RFC
/// 3261 section 16.3).
macro_rules! rules_of_each_recipient {
    ($role:ident $prefix:literal, $subject:expr) => {
        use $crate::conformance::purpose::purposes;
        use $crate::conformance::{PurposeOutcome, TestCase};

        purposes! {
            $role $prefix;
            "malformed" {
                "BAD-01" Should "RFC 3261 section 8.1.1" "A request without Call-ID is not taken." => refuses_without_call_id;
                "BAD-02" Should "RFC 3261 section 8.1.1" "A request without CSeq is not taken." => refuses_without_cseq;
                "BAD-03" Should "RFC 3261 section 8.1.1" "A request without To is not taken." => refuses_without_to;
                "BAD-04" Should "RFC 3261 section 8.1.1" "A request without From is not taken." => refuses_without_from;
                "BAD-05" Should "RFC 4475 section 3.1.2.17" "A request whose CSeq has another method is not taken." => refuses_another_method;
                "BAD-06" Should "RFC 3261 section 20.16" "A request whose CSeq is no number is not taken." => refuses_a_garbled_cseq;
                "BAD-07" Should "RFC 4475 section 3.1.2.6" "A To with an open quotation is not taken." => refuses_an_open_quotation;
                "BAD-08" Should "RFC 3261 section 21.5.6" "A request of SIP/7.0 is refused with 505." => refuses_another_version;
                "BAD-09" Must "RFC 3261 section 8.2.1" "A method that is not known is refused with 405 or 501." => refuses_an_unknown_method;
                "BAD-10" Must "RFC 3261 section 8.2.2.3" "A request that requires an unknown extension is refused with 420, which names it in Unsupported." => refuses_unknown_extensions;
            }
        }

        bound! { $subject; malformed:
            refuses_without_call_id refuses_without_cseq refuses_without_to refuses_without_from refuses_another_method
            refuses_a_garbled_cseq refuses_an_open_quotation refuses_another_version refuses_an_unknown_method
        }
        bound! { $subject; general: refuses_unknown_extensions }
    };
}

/// Procedures that ask what the subject says.
macro_rules! bound {
    ($subject:expr; $module:ident: $($name:ident)+) => {
        $(fn $name(case: &mut TestCase<'_>) -> PurposeOutcome {
            super::general::requires_an_answer(case, $subject)?;
            super::$module::$name(case, $subject)
        })+
    };
}

pub mod registrar {
    use crate::conformance::purposes::registrar::SUBJECT;
    rules_of_each_server! { Registrar "REG", SUBJECT }
}

pub mod registrar_itself {
    use crate::conformance::purposes::registrar::SUBJECT;
    rules_of_each_recipient! { Registrar "REG", SUBJECT }
}

pub mod proxy {
    use crate::conformance::purposes::proxy::SUBJECT;
    rules_of_each_server! { Proxy "PRX", SUBJECT }
}

pub mod redirect {
    use crate::conformance::purposes::redirect::SUBJECT;
    rules_of_each_server! { Redirect "RED", SUBJECT }
}

pub mod uas {
    use crate::conformance::purposes::uas::SUBJECT;
    rules_of_each_server! { Uas "UAS", SUBJECT }
}

pub mod uas_itself {
    use crate::conformance::purposes::uas::SUBJECT;
    rules_of_each_recipient! { Uas "UAS", SUBJECT }
}
