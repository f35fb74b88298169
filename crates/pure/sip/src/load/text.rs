//! Short texts of a message that a call keeps.

/// Bytes in their place up to `N` of them, and on the heap where there are more.
#[derive(Clone, Debug)]
pub enum InlineText<const N: usize> {
    /// In its place.
    Short {
        /// Of the bytes, how many count.
        len: u8,
        /// The bytes.
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
    /// Of a value as it stands in a message. Folds are as spaces, and no end of a line gets into what is written of it.
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

    /// Of whole lines, with their ends.
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

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.as_bytes().is_empty()
    }
}

/// Writes a value with its folds as spaces.
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
