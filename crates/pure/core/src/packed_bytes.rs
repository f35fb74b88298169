//! Byte strings in one buffer.

/// Byte strings in one buffer, each with a value. After [`clear`](Self::clear) it keeps its memory for new strings.
#[derive(Clone, Debug)]
pub struct PackedBytes<T> {
    bytes: Vec<u8>,
    /// Each value with the end of its string.
    entries: Vec<(T, usize)>,
}

impl<T> Default for PackedBytes<T> {
    fn default() -> Self {
        Self { bytes: Vec::new(), entries: Vec::new() }
    }
}

impl<T> PackedBytes<T> {
    /// Appends the string that `write` writes at the end of the buffer.
    pub fn push_with(&mut self, value: T, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.entries.push((value, self.bytes.len()));
    }

    /// Appends a string.
    pub fn push(&mut self, value: T, bytes: &[u8]) {
        self.push_with(value, |buffer| buffer.extend_from_slice(bytes));
    }

    /// The values with their strings, in the order of insertion.
    pub fn iter(&self) -> impl Iterator<Item = (&T, &[u8])> {
        let starts = std::iter::once(0).chain(self.entries.iter().map(|(_, end)| *end));
        starts.zip(&self.entries).map(|(start, (value, end))| (value, &self.bytes[start..*end]))
    }

    /// The last value with its string.
    pub fn last_mut(&mut self) -> Option<(&mut T, &mut [u8])> {
        let start = self.entries.len().checked_sub(2).map_or(0, |before| self.entries[before].1);
        let (value, _) = self.entries.last_mut()?;
        Some((value, &mut self.bytes[start..]))
    }

    /// Number of strings.
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no strings.
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Total length of the strings, bytes.
    pub const fn bytes_len(&self) -> usize {
        self.bytes.len()
    }

    /// Memory of its strings and values, bytes.
    pub const fn size(&self) -> usize {
        self.bytes.len() + self.entries.len() * size_of::<(T, usize)>()
    }

    /// Removes all strings.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_stay_apart_however_long_they_are() {
        let mut packed = PackedBytes::default();
        assert!(packed.last_mut().is_none() && packed.iter().next().is_none());
        packed.push('a', b"one");
        packed.push('b', b"");
        packed.push_with('c', |buffer| buffer.extend_from_slice(b"three"));
        let (value, bytes) = packed.last_mut().expect("three strings");
        (*value, bytes[0]) = ('d', b'T');
        let all: Vec<_> = packed.iter().map(|(value, bytes)| (*value, bytes)).collect();
        assert_eq!(all, [('a', &b"one"[..]), ('b', b""), ('d', b"Three")]);
        assert_eq!((packed.len(), packed.bytes_len()), (3, 8));
        packed.clear();
        packed.push('e', b"5");
        assert_eq!(packed.iter().collect::<Vec<_>>(), [(&'e', &b"5"[..])]);
    }
}
