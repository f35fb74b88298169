//! The destination of requests within a dialog, from its route set.

use super::scan::{Address, is_loose};
use super::text::put_unfolded;

/// Destination of the requests of a dialog.
pub(super) struct DialogRoute<'a> {
    /// The Request-URI of the requests.
    pub(super) target: &'a [u8],
    /// The URI of the next hop.
    pub(super) next: &'a [u8],
}

/// Writes the `Route` lines of a dialog with this route set and remote target.
///
/// "If the route set is not empty, and its first URI does not contain the lr parameter, the UAC MUST place the first URI from
/// the route set into the Request-URI", and "The UAC MUST then place the remote target URI into the Route header field as the
/// last value." (RFC 3261 section 12.2.1.1)
pub(super) fn put_routes<'a>(
    mut routes: impl Iterator<Item = &'a [u8]>,
    contact: &'a [u8],
    lines: &mut Vec<u8>,
) -> DialogRoute<'a> {
    let mut put = |parts: [&[u8]; 3]| {
        lines.extend_from_slice(b"Route: ");
        parts.into_iter().for_each(|part| put_unfolded(part, lines));
        lines.extend_from_slice(b"\r\n");
    };
    let Some(first) = routes.next() else { return DialogRoute { target: contact, next: contact } };
    let router = Address::of(first).uri;
    if is_loose(router) {
        std::iter::once(first).chain(routes).for_each(|route| put([b"", route, b""]));
        return DialogRoute { target: contact, next: router };
    }
    routes.for_each(|route| put([b"", route, b""]));
    put([b"<", contact, b">"]);
    DialogRoute { target: router, next: router }
}

/// The `transport` parameter of a URI (RFC 3261 section 19.1.1).
pub(super) fn transport_of(uri: &[u8]) -> Option<&[u8]> {
    uri.split(|byte| matches!(byte, b';' | b'?' | b'>')).skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_at_checked(10)?;
        name.eq_ignore_ascii_case(b"transport=").then_some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strict_router_finds_itself_in_the_request_uri() {
        for (routes, target, next, lines) in [
            (&[][..], "sip:bob@b", "sip:bob@b", ""),
            (
                &["<sip:p;lr>", "<sip:q>"][..],
                "sip:bob@b",
                "sip:p;lr",
                "Route: <sip:p;lr>\r\nRoute: <sip:q>\r\n",
            ),
            (&["<sip:p>", "<sip:q;lr>"][..], "sip:p", "sip:p", "Route: <sip:q;lr>\r\nRoute: <sip:bob@b>\r\n"),
        ] {
            let mut written = Vec::new();
            let route = put_routes(routes.iter().map(|route| route.as_bytes()), b"sip:bob@b", &mut written);
            assert_eq!((route.target, route.next), (target.as_bytes(), next.as_bytes()));
            assert_eq!(String::from_utf8(written).unwrap(), lines);
        }
    }
}
