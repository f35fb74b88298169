//! The rules for each server, as purposes of each role.

/// Declares a module for each role with the purposes for every server. Arguments: the module, the module whose
/// `SUBJECT` request is used, the role, and the prefix of ids.
macro_rules! rules_of_each_server {
    ($($module:ident of $server:ident: $role:ident $prefix:literal;)+) => {$(pub mod $module {
        use super::super::{general, malformed, $server};
        use crate::conformance::purpose::purposes;

        purposes! {
            $role $prefix of $server::SUBJECT;
            "messages" {
                "MSG-01" Must "RFC 3261 section 8.2.6.2" "A response has the Via values of the request in their order." => general::copies_vias, in basic;
                "MSG-02" Must "RFC 3261 section 8.2.6.2" "A response has the From, Call-ID and CSeq of the request." => general::copies_from_call_id_and_cseq, in basic;
                "MSG-03" Must "RFC 3261 section 8.2.6.2" "A response has the To of the request, with a tag." => general::adds_a_tag, in basic;
                "MSG-04" Must "RFC 3261 section 7" "A response follows the grammar and the rules of its header fields." => general::writes_right_messages, in basic;
                "MSG-05" Must "RFC 3261 section 7.3.1" "Names of header fields are accepted in any case." => general::takes_names_in_any_case;
                "MSG-06" Must "RFC 3261 section 7.3.3" "Compact names of header fields are accepted." => general::takes_compact_names;
                "MSG-07" Must "RFC 3261 section 7.3.1" "Header fields over several lines are accepted." => general::takes_folded_lines;
                "MSG-08" Must "RFC 3261 section 25.1" "White space around separators is accepted." => general::takes_white_space;
                "MSG-09" Must "RFC 3261 section 8.2.2" "Unknown header fields are ignored." => general::ignores_unknown_fields;
                "MSG-10" Must "RFC 3261 section 7.3.1" "Unknown parameters are ignored." => general::ignores_unknown_parameters;
                "MSG-11" Must "RFC 3261 section 7.5" "Empty lines before a request are skipped." => |case, subject| general::takes_changed(case, subject, |text| "\r\n\r\n".to_owned() + &text), over Connections;
            }
            "transport" {
                "WAY-01" Must "RFC 3261 section 18.2.2" "Without rport, a response goes to the port of Via's sent-by." => general::answers_to_sent_by, over Datagrams, in basic;
                "WAY-02" Must "RFC 3581 section 4" "With rport, a response goes to the source port of the request." => general::answers_to_rport, over Datagrams;
                "WAY-03" Must "RFC 3581 section 4" "With rport, the response contains the source port and address of the request." => general::fills_in_rport, over Datagrams;
                "WAY-04" Must "RFC 3261 section 18.2.1" "If the Via of a request has a host name, received contains the source address." => general::adds_received, over Datagrams;
                "WAY-05" Must "RFC 3261 section 17.2.2" "A retransmitted request gets the same response." => general::answers_again_alike, over Datagrams;
                "WAY-06" Must "RFC 3261 section 18.3" "Bytes after the body in a datagram are ignored." => |case, subject| general::takes_changed(case, subject, |text| text + "INVITE sip:nobody@example.invalid SIP/2.0\r\n\r\n"), over Datagrams;
                "WAY-07" Must "RFC 3261 section 18.3" "Two requests in one segment are both answered." => general::reads_two_messages_at_once, over Connections;
                "WAY-08" Must "RFC 3261 section 18.3" "A request in several segments is answered." => general::reads_a_message_in_pieces, over Connections;
                "WAY-09" Must "RFC 3261 section 18.2.2" "A response is sent on the connection of the request." => general::answers_on_the_connection, over Connections;
                "WAY-10" Must "RFC 3261 section 7.5" "Empty lines between requests do not end a connection." => general::keeps_a_connection_with_empty_lines, over Connections;
                "WAY-11" Should "RFC 3261 section 18.3" "A datagram that ends before the end of its body is not accepted." => |case, subject| malformed::refuses_with_field(case, subject, "Content-Length", Some("9999")), over Datagrams;
                "WAY-12" Must "RFC 3261 section 7" "Bytes that are not a message do no harm." => malformed::survives_garbage;
            }
        }
    })+};
}

/// Declares a module for each role with the purposes for servers that answer requests themselves. A proxy is excluded,
/// because it checks only the fields that it needs (RFC 3261 section 16.3).
macro_rules! rules_of_each_recipient {
    ($($module:ident of $server:ident: $role:ident $prefix:literal;)+) => {$(pub mod $module {
        use super::super::{general, malformed, $server};
        use crate::conformance::purpose::purposes;

        purposes! {
            $role $prefix of $server::SUBJECT;
            "malformed" {
                "BAD-01" Should "RFC 3261 section 8.1.1" "A request without Call-ID is not accepted." => |case, subject| malformed::refuses_with_field(case, subject, "Call-ID", None);
                "BAD-02" Should "RFC 3261 section 8.1.1" "A request without CSeq is not accepted." => |case, subject| malformed::refuses_with_field(case, subject, "CSeq", None);
                "BAD-03" Should "RFC 3261 section 8.1.1" "A request without To is not accepted." => |case, subject| malformed::refuses_with_field(case, subject, "To", None);
                "BAD-04" Should "RFC 3261 section 8.1.1" "A request without From is not accepted." => |case, subject| malformed::refuses_with_field(case, subject, "From", None);
                "BAD-05" Should "RFC 4475 section 3.1.2.17" "A request whose CSeq has another method is not accepted." => |case, subject| malformed::refuses_with_field(case, subject, "CSeq", Some("1 NETRIG"));
                "BAD-06" Should "RFC 3261 section 20.16" "A request whose CSeq is not a number is not accepted." => malformed::refuses_a_garbled_cseq;
                "BAD-07" Should "RFC 4475 section 3.1.2.6" "A To with an open quotation is not accepted." => malformed::refuses_an_open_quotation;
                "BAD-08" Should "RFC 3261 section 21.5.6" "A request with SIP/7.0 is refused with 505." => |case, subject| malformed::refuses_with(case, subject, &[505], |text| text.replacen(" SIP/2.0\r\n", " SIP/7.0\r\n", 1));
                "BAD-09" Must "RFC 3261 section 8.2.1" "An unknown method is refused with 405 or 501." => malformed::refuses_an_unknown_method;
                "BAD-10" Must "RFC 3261 section 8.2.2.3" "A request that requires an unknown extension is refused with 420, which names it in Unsupported." => general::refuses_unknown_extensions;
            }
        }
    })+};
}

rules_of_each_server! {
    registrar of registrar: Registrar "REG";
    proxy of proxy: Proxy "PRX";
    redirect of redirect: Redirect "RED";
    uas of uas: Uas "UAS";
}

rules_of_each_recipient! {
    registrar_itself of registrar: Registrar "REG";
    uas_itself of uas: Uas "UAS";
}
