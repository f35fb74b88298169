//! Session descriptions of a load: offers, answers and directions (RFC 3264).

use super::template::Hole;
use crate::sdp::MediaDirection;

/// The session as it was last described by a callee.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DescribedSession {
    /// Number of changes.
    pub(super) changes: u8,
    /// Direction of the media, seen from this side.
    pub(super) direction: MediaDirection,
}

fn lines(description: &[u8]) -> impl Iterator<Item = &[u8]> {
    description.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

fn direction_of_line(line: &[u8]) -> Option<MediaDirection> {
    MediaDirection::named(std::str::from_utf8(line.strip_prefix(b"a=")?.trim_ascii_end()).ok()?)
}

/// The last direction in a description, which is that of its last stream.
pub(super) fn direction_of(description: &[u8]) -> MediaDirection {
    lines(description).filter_map(direction_of_line).last().unwrap_or_default()
}

fn streams(description: &[u8]) -> usize {
    lines(description).filter(|line| line.starts_with(b"m=")).count()
}

/// The rule that an answer to `offer` breaks. The media of the offer have this `direction`.
pub(super) fn broken_answer(offer: &[u8], direction: MediaDirection, answer: &[u8]) -> Option<&'static str> {
    if answer.is_empty() {
        // "the answer MUST be in a reliable non-failure message from UAS back to UAC which is correlated to that INVITE."
        return Some("RFC 3261 section 13.2.1");
    }
    if streams(answer) != streams(offer) {
        // "The answer MUST contain exactly the same number of "m=" lines as the offer" (RFC 3264 section 6).
        return Some("RFC 3264 section 6");
    }
    // "If a stream is offered as sendonly, the corresponding stream MUST be marked as recvonly or inactive in the
    // answer." The same holds for recvonly, and an inactive stream stays inactive.
    let said = direction_of(answer);
    let is_allowed = direction == MediaDirection::SendRecv
        || said == direction.reversed()
        || said == MediaDirection::Inactive;
    (!is_allowed).then_some("RFC 3264 section 6.1")
}

/// The description with one direction for all media and a hole for its version: "the version in the origin field MUST
/// increment by one from the previous SDP" (RFC 3264 section 8).
pub(super) fn changed(description: &[u8], direction: MediaDirection) -> Vec<u8> {
    let mut out = Vec::with_capacity(description.len() + 32);
    let mut is_in_stream = false;
    let said = format!("a={}\r\n", direction.name());
    for line in lines(description) {
        if direction_of_line(line).is_some() {
            continue;
        }
        if line.starts_with(b"m=") && std::mem::replace(&mut is_in_stream, true) {
            out.extend_from_slice(said.as_bytes());
        }
        let mut words = line.splitn(4, |byte| *byte == b' ');
        match [(); 4].map(|()| words.next()) {
            [Some(user), Some(session), Some(_), Some(rest)] if user.starts_with(b"o=") => {
                let version = Hole::Body.name().as_bytes();
                out.extend_from_slice(&[user, session, version, rest].join(&b" "[..]));
            }
            _ => out.extend_from_slice(line),
        }
        out.push(b'\n');
    }
    if is_in_stream {
        out.extend_from_slice(said.as_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFER: &[u8] = b"v=0\r\no=- 7 1 IN IP4 192.0.2.1\r\ns=-\r\nm=audio 1 RTP/AVP 0\r\na=sendrecv\r\n\
        m=video 2 RTP/AVP 34\r\n";

    #[test]
    fn a_changed_description_has_another_version_and_one_direction() {
        let text = String::from_utf8(changed(OFFER, MediaDirection::SendOnly)).unwrap_or_default();
        let version = Hole::Body.name();
        assert_eq!(
            text,
            format!(
                "v=0\r\no=- 7 {version} IN IP4 192.0.2.1\r\ns=-\r\nm=audio 1 RTP/AVP 0\r\na=sendonly\r\n\
                 m=video 2 RTP/AVP 34\r\na=sendonly\r\n"
            )
        );
        assert_eq!(changed(b"", MediaDirection::SendRecv), b"");
    }

    #[test]
    fn answers_are_held_to_their_offers() {
        let on_hold = [OFFER, b"a=recvonly\r\n"].concat();
        for (direction, answer, rule) in [
            (MediaDirection::SendRecv, OFFER, None),
            (MediaDirection::SendRecv, b"", Some("RFC 3261 section 13.2.1")),
            (MediaDirection::SendRecv, b"v=0\r\nm=audio 1 RTP/AVP 0\r\n", Some("RFC 3264 section 6")),
            (MediaDirection::SendOnly, OFFER, Some("RFC 3264 section 6.1")),
            (MediaDirection::SendOnly, &on_hold, None),
            (MediaDirection::RecvOnly, &on_hold, Some("RFC 3264 section 6.1")),
            (MediaDirection::Inactive, &on_hold, Some("RFC 3264 section 6.1")),
            (MediaDirection::Inactive, &changed(OFFER, MediaDirection::Inactive), None),
        ] {
            assert_eq!(broken_answer(OFFER, direction, answer), rule);
        }
    }
}
