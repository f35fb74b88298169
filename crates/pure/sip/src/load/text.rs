//! Short texts of messages that a call keeps.

/// Bytes that are stored inline up to a length of `N`, and on the heap beyond it.
#[derive(Clone, Debug)]
pub enum InlineText<const N: usize> {
    /// Inline.
    Short {
        /// Number of valid bytes.
        len: u8,
        /// The bytes, padded with zeros.
        bytes: [u8; N],
    },
    /// On the heap.
    Long(Box<[u8]>),
}

impl<const N: usize> Default for InlineText<N> {
    fn default() -> Self {
        Self::Short { len: 0, bytes: [0; N] }
    }
}

impl<const N: usize> InlineText<N> {
    /// Takes a value of a header field. Line ends become spaces, so that no written message gets an extra line.
    pub fn of(value: &[u8]) -> Self {
        const { assert!(N < 256, "the length is one byte") };
        let clean = |byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte };
        if value.len() > N {
            return Self::Long(value.iter().map(clean).collect());
        }
        let mut bytes = [0; N];
        bytes.iter_mut().zip(value).for_each(|(own, byte)| *own = clean(byte));
        Self::Short { len: value.len() as u8, bytes }
    }

    /// Takes whole lines with their ends.
    pub fn of_lines(lines: &[u8]) -> Self {
        if lines.len() > N {
            return Self::Long(lines.into());
        }
        let mut bytes = [0; N];
        bytes[..lines.len()].copy_from_slice(lines);
        Self::Short { len: lines.len() as u8, bytes }
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Short { len, bytes } => &bytes[..usize::from(*len)],
            Self::Long(bytes) => bytes,
        }
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.as_bytes().is_empty()
    }
}

/// Writes a value with its line ends as spaces.
pub(super) fn put_unfolded(value: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(value);
    if memchr::memchr2(b'\r', b'\n', value).is_some() {
        out[start..].iter_mut().filter(|byte| matches!(byte, b'\r' | b'\n')).for_each(|byte| *byte = b' ');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_kept_too() {
        for text in [&b""[..], b"abc", b"abcdefgh", b"abcdefghi"] {
            assert_eq!(InlineText::<8>::of(text).as_bytes(), text);
            assert_eq!(InlineText::<8>::of_lines(text).as_bytes(), text);
        }
        assert_eq!(InlineText::<8>::of(b"a\r\n\tb").as_bytes(), b"a  \tb");
        assert_eq!(InlineText::<2>::of(b"a\r\n\tb").as_bytes(), b"a  \tb");
        assert!(InlineText::<2>::default().is_empty());
        let mut out = b"\n".to_vec();
        put_unfolded(b"a\nb", &mut out);
        assert_eq!(out, b"\na b");
    }
}
