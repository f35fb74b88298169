//! Bytes as text within a page (RFC 4648 section 4).

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// `bytes` in base 64, padded.
pub(crate) fn encoded(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let at = |place: usize| u32::from(three.get(place).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            // One byte takes two characters, two take three.
            let character = ALPHABET[(bits >> (18 - 6 * place) & 0x3F) as usize];
            text.push(if place <= three.len() { char::from(character) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    /// RFC 4648 section 10.
    #[test]
    fn the_vectors_of_the_rfc() {
        let vectors = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"];
        for (length, expected) in vectors.iter().enumerate() {
            assert_eq!(super::encoded(&b"foobar"[..length]), *expected);
        }
    }
}
