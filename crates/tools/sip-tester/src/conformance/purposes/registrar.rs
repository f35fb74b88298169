//! Bindings of a registrar (RFC 3261 section 10.3).

use netrig_core::Duration;
use netrig_sip::header::{CSeq, NameAddr};
use netrig_sip::{Method, Name, Request, Response, SipUri, Uri};

use super::super::case::TestCase;
use super::super::messages::{ensure_code, ensure_success, line_of};
use super::super::outcome::{
    PurposeOutcome, as_inconclusive, ensure, ensured, failure, inconclusive, require, required,
};
use super::super::purpose::purposes;
use super::super::target::{FIRST, SECOND};
use super::general::SubjectRequest;
use super::malformed::refuses_with_field;

purposes! {
    Registrar "REG";
    "bindings" {
        "BIND-01" Must "RFC 3261 section 10.3" "A correct registration is answered 200." => takes_a_registration, in basic;
        "BIND-02" Must "RFC 3261 section 10.3" "The 200 lists the new binding in Contact." => lists_the_binding, in basic;
        "BIND-03" Must "RFC 3261 section 10.3" "Each Contact of the 200 has an expires parameter." => tells_expirations, in basic;
        "BIND-04" Must "RFC 3261 section 10.3" "A second contact is added, and the 200 lists both." => adds_a_contact, needs [SeveralContacts];
        "BIND-05" Must "RFC 3261 section 10.3" "Several contacts of one REGISTER are all bound." => binds_several, needs [SeveralContacts];
        "BIND-06" Must "RFC 3261 section 10.3" "A contact that is registered again is refreshed, not bound twice." => refreshes, in basic;
        "BIND-07" Must "RFC 3261 section 19.1.4" "Contacts that differ only in escapes and in the case of host and scheme are the same." => compares_contacts;
        "BIND-08" Must "RFC 3261 section 19.1.4" "Contacts that differ in the case of the user are different." => |case| two_bindings(case, "<sip:alice@host.example.invalid>", "<sip:Alice@host.example.invalid>"), needs [SeveralContacts];
        "BIND-09" Must "RFC 3261 section 19.1.4" "Contacts that differ in the transport parameter are different." => |case| two_bindings(case, "<sip:alice@host.example.invalid>", "<sip:alice@host.example.invalid;transport=tcp>"), needs [SeveralContacts];
        "BIND-10" Must "RFC 3261 section 10.3" "A REGISTER without Contact changes nothing, and its 200 lists the bindings." => answers_a_query, in basic;
        "BIND-11" Must "RFC 3261 section 10.3" "Bindings of one address of record are not those of another." => keeps_users_apart;
        "BIND-12" Must "RFC 3261 section 10.3" "An address of record in another domain than the Request-URI is refused with 404 or 403." => refuses_foreign_domains;
        "BIND-13" Should "RFC 3261 section 10.3" "The 200 has a Date." => tells_the_date;
    }
    "removal" {
        "REMOVE-01" Must "RFC 3261 section 10.2.2" "A contact with expires=0 is removed." => removes_by_parameter, in basic;
        "REMOVE-02" Must "RFC 3261 section 10.2.2" "A contact in a REGISTER with Expires: 0 is removed." => removes_by_field;
        "REMOVE-03" Must "RFC 3261 section 10.2.2" "Removing one contact leaves the others." => removes_one, needs [SeveralContacts];
        "REMOVE-04" Must "RFC 3261 section 10.2.2" "Contact: * with Expires: 0 removes all bindings." => removes_all;
        "REMOVE-05" Must "RFC 3261 section 10.3" "Contact: * with an expiration above zero is refused with 400." => refuses_star_with_time;
        "REMOVE-06" Must "RFC 3261 section 10.3" "Contact: * beside another contact is refused with 400." => refuses_star_with_others;
        "REMOVE-07" Must "RFC 3261 section 10.3" "A refused Contact: * removes nothing." => keeps_after_star;
        "REMOVE-08" Must "RFC 3261 section 10.2.2" "Removing a contact that is not bound is no error." => removes_nothing;
    }
    "expiration" {
        "EXPIRE-01" Must "RFC 3261 section 10.3" "The expires parameter of a contact takes precedence over the Expires header field." => parameter_before_field;
        "EXPIRE-02" Must "RFC 3261 section 10.3" "A contact without an expires parameter expires after the time in Expires." => takes_expires;
        "EXPIRE-03" Must "RFC 3261 section 10.3" "Without any expiration, the registrar chooses one." => chooses_an_expiration;
        "EXPIRE-04" Should "RFC 3261 section 10.3" "An expiration that breaks the grammar counts as 3600." => takes_garbled_expirations;
        "EXPIRE-05" Must "RFC 3261 section 10.3" "A 423 contains the least expiration in Min-Expires." => tells_the_least, needs [MinExpires];
        "EXPIRE-06" Must "RFC 3261 section 10.3" "An expiration of one hour is not refused as too short." => takes_an_hour;
        "EXPIRE-07" Must "RFC 3261 section 10.3" "A binding ends when it expires." => ends_bindings;
        "EXPIRE-08" Must "RFC 3261 section 10.3" "The expiration in the 200 of a query is the remaining time." => counts_down;
        "EXPIRE-09" Must "RFC 3261 section 20.19" "The largest expiration, 2**32-1 s, is no error." => takes_the_largest;
    }
    "order" {
        "ORDER-01" Must "RFC 3261 section 10.3" "A REGISTER with the same Call-ID and a lower CSeq fails." => refuses_old_requests;
        "ORDER-02" Must "RFC 3261 section 10.3" "A REGISTER with the same Call-ID and a lower CSeq changes no binding." => keeps_after_old_requests;
        "ORDER-03" Must "RFC 3261 section 10.3" "A REGISTER with another Call-ID changes a binding regardless of its CSeq." => takes_other_call_ids;
        "ORDER-04" Must "RFC 3261 section 10.3" "If one of several contacts cannot be bound, none is bound." => binds_all_or_none, needs [SeveralContacts];
    }
    "contacts" {
        "CONTACT-01" Must "RFC 3261 section 7.3.1" "Contacts in one header field, separated by commas, are read as several." => reads_lists, needs [SeveralContacts];
        "CONTACT-02" Must "RFC 3261 section 20.10" "A display name with a comma and escapes is read." => reads_display_names;
        "CONTACT-03" Should "RFC 3261 section 21.4.1" "A Contact that breaks the grammar is not accepted." => |case| refuses_with_field(case, SUBJECT, "Contact", Some("<sip:alice@host.example.invalid"));
    }
}

/// A REGISTER, to which the registrar responds with a 2xx.
pub(super) const SUBJECT: SubjectRequest =
    SubjectRequest { make: plain, takes: |response| response.status.is_success() };

/// A REGISTER of the first user's own contact.
pub(super) fn plain(case: &mut TestCase<'_>) -> PurposeOutcome<Request> {
    let contact = NameAddr::new(Uri::Sip(case.contact(FIRST)?)).to_string();
    let mut request = case.register_request(FIRST, &[contact])?;
    request.headers.set(Name::Expires, 600);
    Ok(request)
}

/// A contact of the first user at its own address, at a port that depends on `number` and at which the tester does not
/// listen.
pub(super) fn contact(case: &mut TestCase<'_>, number: u16) -> PurposeOutcome<SipUri> {
    Ok(case.contact(FIRST)?.with_port(40_100 + number))
}

fn text(uri: SipUri) -> String {
    NameAddr::new(Uri::Sip(uri)).to_string()
}

/// The 200 to a REGISTER with these Contact values for 600 s, after all bindings were removed.
fn first_registration(case: &mut TestCase<'_>, contacts: &[String]) -> PurposeOutcome<Response> {
    case.clear_bindings(FIRST)?;
    registered(case, contacts, Some("600")).map_err(as_inconclusive)
}

/// The 2xx to a REGISTER with these Contact values.
fn registered(
    case: &mut TestCase<'_>,
    contacts: &[String],
    expires: Option<&str>,
) -> PurposeOutcome<Response> {
    let response = answered(case, contacts, expires)?;
    ensure_success(&response, "the REGISTER")?;
    Ok(response)
}

fn answered(case: &mut TestCase<'_>, contacts: &[String], expires: Option<&str>) -> PurposeOutcome<Response> {
    let mut request = case.register_request(FIRST, contacts)?;
    if let Some(expires) = expires {
        request.headers.set(Name::Expires, expires);
    }
    Ok(case.ask(&request)?.response)
}

/// The current bindings, by a REGISTER without Contact.
pub(super) fn bindings(case: &mut TestCase<'_>) -> PurposeOutcome<Vec<NameAddr>> {
    let response = registered(case, &[], None)?;
    listed(&response)
}

fn listed(response: &Response) -> PurposeOutcome<Vec<NameAddr>> {
    let contacts = response.headers.addresses(&Name::Contact);
    contacts.map_err(|error| failure!("Contact of the 200 breaks the grammar: {error}"))
}

pub(super) fn has(bindings: &[NameAddr], uri: &SipUri) -> bool {
    bindings.iter().any(|binding| binding.uri.is_equivalent(&Uri::Sip(uri.clone())))
}

fn shown(bindings: &[NameAddr]) -> String {
    if bindings.is_empty() {
        return "none".to_owned();
    }
    bindings.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn expiration(binding: &NameAddr) -> Option<u32> {
    binding.parameters.value("expires")?.parse().ok()
}

fn takes_a_registration(case: &mut TestCase<'_>) -> PurposeOutcome {
    let request = plain(case)?;
    let response = case.ask(&request)?.response;
    ensure_code(&response, 200, "the REGISTER")
}

fn lists_the_binding(case: &mut TestCase<'_>) -> PurposeOutcome {
    let uri = contact(case, 1)?;
    let response = first_registration(case, &[text(uri.clone())])?;
    let bindings = listed(&response)?;
    ensured!(has(&bindings, &uri), "the 200 to a REGISTER of {uri} has Contact: {}", shown(&bindings))
}

fn tells_expirations(case: &mut TestCase<'_>) -> PurposeOutcome {
    let uri = contact(case, 1)?;
    let response = first_registration(case, &[text(uri)])?;
    let bindings = listed(&response)?;
    require!(!bindings.is_empty(), "the 200 has no Contact");
    for binding in &bindings {
        ensure!(
            expiration(binding).is_some_and(|left| left > 0),
            "Contact {binding} of the 200 has no expiration"
        );
    }
    Ok(())
}

fn adds_a_contact(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (first, second) = (contact(case, 1)?, contact(case, 2)?);
    first_registration(case, &[text(first.clone())])?;
    let response = registered(case, &[text(second.clone())], Some("600"))?;
    let bindings = listed(&response)?;
    ensure!(has(&bindings, &second), "the 200 does not list the second contact, but {}", shown(&bindings));
    ensured!(
        has(&bindings, &first),
        "the 200 to a second contact no longer lists the first, but {}",
        shown(&bindings)
    )
}

fn binds_several(case: &mut TestCase<'_>) -> PurposeOutcome {
    let uris = [contact(case, 1)?, contact(case, 2)?, contact(case, 3)?];
    case.clear_bindings(FIRST)?;
    registered(case, &uris.clone().map(text), Some("600"))?;
    let bindings = bindings(case)?;
    ensured!(
        uris.iter().all(|uri| has(&bindings, uri)) && bindings.len() == 3,
        "after a REGISTER with three contacts, the bindings are {}",
        shown(&bindings)
    )
}

fn refreshes(case: &mut TestCase<'_>) -> PurposeOutcome {
    let uri = contact(case, 1)?;
    first_registration(case, &[text(uri.clone())])?;
    let response = registered(case, &[text(uri)], Some("600"))?;
    let bindings = listed(&response)?;
    ensured!(
        bindings.len() == 1,
        "after a contact was registered twice, the bindings are {}",
        shown(&bindings)
    )
}

fn compares_contacts(case: &mut TestCase<'_>) -> PurposeOutcome {
    let port = contact(case, 1)?.port.unwrap_or(5060);
    let first = format!("<sip:alice@Host.Example.Invalid:{port};transport=udp>");
    let again = format!("<SIP:%61lice@host.example.INVALID:{port};Transport=UDP>");
    first_registration(case, &[first])?;
    registered(case, &[again], Some("600"))?;
    let bindings = bindings(case)?;
    ensured!(
        bindings.len() == 1,
        "after one contact was registered in two spellings, the bindings are {}",
        shown(&bindings)
    )
}

fn two_bindings(case: &mut TestCase<'_>, first: &str, second: &str) -> PurposeOutcome {
    first_registration(case, &[first.to_owned()])?;
    registered(case, &[second.to_owned()], Some("600"))?;
    let bindings = bindings(case)?;
    ensured!(
        bindings.len() == 2,
        "after {first} and {second} were registered, the bindings are {}",
        shown(&bindings)
    )
}

fn answers_a_query(case: &mut TestCase<'_>) -> PurposeOutcome {
    let uri = contact(case, 1)?;
    first_registration(case, &[text(uri.clone())])?;
    for _ in 0..2 {
        let bindings = bindings(case)?;
        ensure!(
            has(&bindings, &uri) && bindings.len() == 1,
            "with {uri} registered, a REGISTER without Contact is answered with {}",
            shown(&bindings)
        );
    }
    Ok(())
}

fn keeps_users_apart(case: &mut TestCase<'_>) -> PurposeOutcome {
    let uri = contact(case, 1)?;
    case.clear_bindings(SECOND)?;
    first_registration(case, &[text(uri.clone())])?;
    let request = case.register_request(SECOND, &[])?;
    let response = case.ask_of(SECOND, &request)?.response;
    let bindings = listed(&response)?;
    ensured!(!has(&bindings, &uri), "a contact of one user is listed for another: {}", shown(&bindings))
}

fn refuses_foreign_domains(case: &mut TestCase<'_>) -> PurposeOutcome {
    let mut request = plain(case)?;
    let user = case.address_of_record(FIRST).user.unwrap_or_default();
    let foreign: Uri = format!("sip:{user}@foreign.example.invalid")
        .parse()
        .map_err(|error| inconclusive!("no address of record of another domain: {error}"))?;
    request.headers.set(Name::To, NameAddr::new(foreign));
    let response = case.ask(&request)?.response;
    // A server that checks the authorization first answers 403.
    ensured!(
        [403, 404].contains(&response.status.code()),
        "a REGISTER whose To has another domain was answered {}",
        line_of(&response)
    )
}

fn tells_the_date(case: &mut TestCase<'_>) -> PurposeOutcome {
    let request = plain(case)?;
    let response = case.ask(&request)?.response;
    ensured!(response.headers.get(&Name::Date).is_some(), "the 200 has no Date")
}

fn removes_by_parameter(case: &mut TestCase<'_>) -> PurposeOutcome {
    let uri = contact(case, 1)?;
    first_registration(case, &[text(uri.clone())])?;
    registered(case, &[format!("{};expires=0", text(uri.clone()))], None)?;
    is_gone(case, &uri)
}

fn removes_by_field(case: &mut TestCase<'_>) -> PurposeOutcome {
    let uri = contact(case, 1)?;
    first_registration(case, &[text(uri.clone())])?;
    registered(case, &[text(uri.clone())], Some("0"))?;
    is_gone(case, &uri)
}

fn is_gone(case: &mut TestCase<'_>, uri: &SipUri) -> PurposeOutcome {
    let bindings = bindings(case)?;
    ensured!(!has(&bindings, uri), "a removed contact is still bound: {}", shown(&bindings))
}

fn removes_one(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (first, second) = (contact(case, 1)?, contact(case, 2)?);
    first_registration(case, &[text(first.clone()), text(second.clone())])?;
    registered(case, &[format!("{};expires=0", text(first.clone()))], None)?;
    is_gone(case, &first)?;
    let bindings = bindings(case)?;
    ensured!(
        has(&bindings, &second),
        "when one contact was removed, the other was removed too: {}",
        shown(&bindings)
    )
}

fn removes_all(case: &mut TestCase<'_>) -> PurposeOutcome {
    let uri = contact(case, 1)?;
    first_registration(case, &[text(uri)])?;
    registered(case, &["*".to_owned()], Some("0"))?;
    let bindings = bindings(case)?;
    ensured!(bindings.is_empty(), "after Contact: * with Expires: 0, the bindings are {}", shown(&bindings))
}

fn refuses_star_with_time(case: &mut TestCase<'_>) -> PurposeOutcome {
    let response = answered(case, &["*".to_owned()], Some("60"))?;
    ensure_code(&response, 400, "Contact: * with Expires: 60")
}

fn refuses_star_with_others(case: &mut TestCase<'_>) -> PurposeOutcome {
    let other = text(contact(case, 1)?);
    let response = answered(case, &["*".to_owned(), other], Some("0"))?;
    ensure_code(&response, 400, "Contact: * beside another contact")
}

fn keeps_after_star(case: &mut TestCase<'_>) -> PurposeOutcome {
    let uri = contact(case, 1)?;
    first_registration(case, &[text(uri.clone())])?;
    let response = answered(case, &["*".to_owned()], Some("60"))?;
    require!(!response.status.is_success(), "Contact: * with Expires: 60 was not refused");
    let bindings = bindings(case)?;
    ensured!(has(&bindings, &uri), "a refused Contact: * removed the binding")
}

fn removes_nothing(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (first, other) = (contact(case, 1)?, contact(case, 2)?);
    first_registration(case, &[text(first.clone())])?;
    registered(case, &[format!("{};expires=0", text(other))], None)?;
    let bindings = bindings(case)?;
    ensured!(has(&bindings, &first), "removing another contact removed this one")
}

fn parameter_before_field(case: &mut TestCase<'_>) -> PurposeOutcome {
    let uri = contact(case, 1)?;
    case.clear_bindings(FIRST)?;
    let ask = |case: &mut TestCase<'_>, seconds: u32| {
        answered(case, &[format!("{};expires={seconds}", text(uri.clone()))], Some("2000"))
    };
    follows_the_request(case, &uri, &ask, "beside Expires: 2000 a contact with expires=")
}

/// The longest requested expiration, s.
const LONGEST_ASKED: u32 = 700;

/// The granted expiration is at most the requested one, and decreases with it. If a registrar grants the same time for
/// both requests, it ignores the requested time. In messages, `what` precedes the requested seconds.
fn follows_the_request(
    case: &mut TestCase<'_>,
    uri: &SipUri,
    ask: &dyn Fn(&mut TestCase<'_>, u32) -> PurposeOutcome<Response>,
    what: &str,
) -> PurposeOutcome {
    let response = ask(case, LONGEST_ASKED)?;
    ensure_success(&response, "the REGISTER")?;
    let first = granted(&response, uri)?;
    let less = (first / 2).clamp(1, LONGEST_ASKED / 2);
    case.clear_bindings(FIRST)?;
    let response = ask(case, less)?;
    let is_too_brief = response.status.code() == 423;
    ensure!(response.status.is_success() || is_too_brief, "the REGISTER was answered {}", line_of(&response));
    let second = if is_too_brief { None } else { Some(granted(&response, uri)?) };
    ensure!(second != Some(first) || first <= less, "{what}{LONGEST_ASKED} got {first} s, as did {less}");
    ensure!(first <= LONGEST_ASKED, "{what}{LONGEST_ASKED} got {first} s");
    require!(!is_too_brief, "{what}{less} was answered 423");
    required!(second <= Some(less), "{what}{less} got {} s, the registrar's least", second.unwrap_or(0))
}

/// The expiration of a contact in a 200.
fn granted(response: &Response, uri: &SipUri) -> PurposeOutcome<u32> {
    let bindings = listed(response)?;
    let uri = Uri::Sip(uri.clone());
    let binding = bindings.iter().find(|binding| binding.uri.is_equivalent(&uri));
    let granted = binding.and_then(expiration);
    granted.ok_or_else(|| failure!("the 200 has no expiration for {uri}: {}", shown(&bindings)))
}

fn takes_expires(case: &mut TestCase<'_>) -> PurposeOutcome {
    let uri = contact(case, 1)?;
    case.clear_bindings(FIRST)?;
    let ask = |case: &mut TestCase<'_>, seconds: u32| {
        answered(case, &[text(uri.clone())], Some(&seconds.to_string()))
    };
    follows_the_request(case, &uri, &ask, "a contact in a REGISTER with Expires: ")
}

fn chooses_an_expiration(case: &mut TestCase<'_>) -> PurposeOutcome {
    let uri = contact(case, 1)?;
    case.clear_bindings(FIRST)?;
    let response = registered(case, &[text(uri.clone())], None)?;
    let granted = granted(&response, &uri)?;
    ensured!(granted > 0, "without an expiration, the contact got {granted} s")
}

fn takes_garbled_expirations(case: &mut TestCase<'_>) -> PurposeOutcome {
    let uri = contact(case, 1)?;
    case.clear_bindings(FIRST)?;
    let response = answered(case, &[format!("{};expires=soon", text(uri.clone()))], None)?;
    ensure_success(&response, "expires=soon")?;
    let granted = granted(&response, &uri)?;
    ensured!(granted <= 3600, "expires=soon got {granted} s")
}

fn tells_the_least(case: &mut TestCase<'_>) -> PurposeOutcome {
    let uri = contact(case, 1)?;
    let response = answered(case, &[format!("{};expires=1", text(uri))], None)?;
    require!(response.status.code() == 423, "expires=1 was answered {}", line_of(&response));
    let least = response.headers.number(&Name::MinExpires).ok().flatten();
    ensured!(
        least.is_some_and(|least| least > 1),
        "the 423 has Min-Expires: {:?}",
        response.headers.get(&Name::MinExpires)
    )
}

fn takes_an_hour(case: &mut TestCase<'_>) -> PurposeOutcome {
    let uri = contact(case, 1)?;
    let response = answered(case, &[format!("{};expires=3600", text(uri))], None)?;
    ensure!(response.status.code() != 423, "expires=3600 was answered {}", line_of(&response));
    ensure_success(&response, "expires=3600")
}

fn ends_bindings(case: &mut TestCase<'_>) -> PurposeOutcome {
    /// The longest wait, s.
    const LONGEST: u32 = 5;
    let uri = contact(case, 1)?;
    case.clear_bindings(FIRST)?;
    let response = answered(case, &[format!("{};expires=2", text(uri.clone()))], None)?;
    require!(response.status.is_success(), "expires=2 was answered {}", line_of(&response));
    let granted = granted(&response, &uri)?;
    require!(granted <= LONGEST, "expires=2 got {granted} s, which is too long to wait for");
    // Expirations are rounded to whole seconds, so one of the two additional seconds is for the rounding.
    case.pause(Duration::from_secs(u64::from(granted) + 2))?;
    let bindings = bindings(case)?;
    ensured!(!has(&bindings, &uri), "2 s after its end, a binding is still listed: {}", shown(&bindings))
}

fn counts_down(case: &mut TestCase<'_>) -> PurposeOutcome {
    let uri = contact(case, 1)?;
    let response = first_registration(case, &[text(uri.clone())])?;
    let before = granted(&response, &uri)?;
    case.pause(Duration::from_millis(2100))?;
    let response = registered(case, &[], None)?;
    let after = granted(&response, &uri)?;
    ensured!(
        after < before && after + 4 >= before,
        "2.1 s after {before} s were granted, {after} s are reported as left"
    )
}

fn takes_the_largest(case: &mut TestCase<'_>) -> PurposeOutcome {
    let uri = contact(case, 1)?;
    case.clear_bindings(FIRST)?;
    let response = registered(case, &[text(uri.clone())], Some("4294967295"))?;
    let granted = granted(&response, &uri)?;
    ensured!(granted > 0, "an expiration of 4294967295 s got {granted} s")
}

/// Registers this contact as the only binding, with this Call-ID and the CSeq number 100.
fn previously_registered(case: &mut TestCase<'_>, call_id: &str, uri: &SipUri) -> PurposeOutcome {
    case.clear_bindings(FIRST)?;
    let response = numbered(case, call_id, 100, &[text(uri.clone())]).map_err(as_inconclusive)?;
    ensure_success(&response, "the previous REGISTER").map_err(as_inconclusive)
}

/// Sends a REGISTER with this Call-ID and CSeq number. Returns its final response.
fn numbered(
    case: &mut TestCase<'_>,
    call_id: &str,
    number: u32,
    contacts: &[String],
) -> PurposeOutcome<Response> {
    let mut request = case.register_request(FIRST, contacts)?;
    request.headers.set(Name::CallId, call_id);
    request.headers.set(Name::CSeq, CSeq { number, method: Method::Register });
    request.headers.set(Name::Expires, 600);
    Ok(case.ask(&request)?.response)
}

fn refuses_old_requests(case: &mut TestCase<'_>) -> PurposeOutcome {
    let response = old_request(case)?;
    ensured!(
        !response.status.is_success(),
        "a REGISTER with a lower CSeq than the last one of its Call-ID was answered {}",
        line_of(&response)
    )
}

/// Sends a REGISTER that would remove the binding, with the same Call-ID but a lower CSeq number. Returns its final
/// response.
fn old_request(case: &mut TestCase<'_>) -> PurposeOutcome<Response> {
    let (uri, call_id) = (contact(case, 1)?, case.token());
    previously_registered(case, &call_id, &uri)?;

    numbered(case, &call_id, 50, &[format!("{};expires=0", text(uri))])
}

fn keeps_after_old_requests(case: &mut TestCase<'_>) -> PurposeOutcome {
    old_request(case)?;
    let uri = contact(case, 1)?;
    let bindings = bindings(case)?;
    ensured!(has(&bindings, &uri), "a REGISTER with a lower CSeq removed the binding")
}

fn takes_other_call_ids(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (uri, first, second) = (contact(case, 1)?, case.token(), case.token());
    previously_registered(case, &first, &uri)?;

    let response = numbered(case, &second, 1, &[format!("{};expires=0", text(uri.clone()))])?;
    ensure_success(&response, "a REGISTER with another Call-ID")?;
    is_gone(case, &uri)
}

fn binds_all_or_none(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (uri, other, call_id) = (contact(case, 1)?, contact(case, 2)?, case.token());
    previously_registered(case, &call_id, &uri)?;

    // An old request cannot update the first contact, so the second must not be added.
    numbered(case, &call_id, 50, &[text(uri), text(other.clone())])?;
    let bindings = bindings(case)?;
    ensured!(
        !has(&bindings, &other),
        "a REGISTER with one contact that could not be updated bound the other one"
    )
}

fn reads_lists(case: &mut TestCase<'_>) -> PurposeOutcome {
    let (first, second) = (contact(case, 1)?, contact(case, 2)?);
    case.clear_bindings(FIRST)?;
    registered(case, &[format!("{}, {}", text(first.clone()), text(second.clone()))], Some("600"))?;
    let bindings = bindings(case)?;
    ensured!(
        has(&bindings, &first) && has(&bindings, &second),
        "with two contacts in one header field, the bindings are {}",
        shown(&bindings)
    )
}

fn reads_display_names(case: &mut TestCase<'_>) -> PurposeOutcome {
    let uri = contact(case, 1)?;
    case.clear_bindings(FIRST)?;
    registered(case, &[format!("\"A, \\\"B\\\" <sip:x@y>\" {}", text(uri.clone()))], Some("600"))?;
    let bindings = bindings(case)?;
    ensured!(
        has(&bindings, &uri) && bindings.len() == 1,
        "with one contact with a display name, the bindings are {}",
        shown(&bindings)
    )
}
