//! Keys of a retrieval, taken from its line one by one: they take no more memory than the line.

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    text: Box<[u8]>,
    at: usize,
}

impl Keys {
    /// The words of a line.
    #[must_use]
    pub fn of(line: &[u8]) -> Keys {
        Keys { text: line.into(), at: 0 }
    }

    fn words(&self) -> impl Iterator<Item = &[u8]> {
        self.text[self.at..].split(|byte| *byte == b' ').filter(|word| !word.is_empty())
    }

    /// True when no word is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words().next().is_none()
    }

    /// Bytes of the longest word that is left.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.words().map(<[u8]>::len).max().unwrap_or(0)
    }

    /// Memory that they take, in bytes.
    #[must_use]
    pub fn bytes_held(&self) -> usize {
        self.text.len()
    }
}

impl Iterator for Keys {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let rest = &self.text[self.at..];
        let from = rest.iter().position(|byte| *byte != b' ')?;
        let bytes = rest[from..].iter().position(|byte| *byte == b' ').unwrap_or(rest.len() - from);
        self.at += from + bytes;
        Some(rest[from..from + bytes].to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_taken_one_by_one() {
        let mut keys = Keys::of(b"get  a bcd ");
        assert_eq!((keys.next(), keys.longest()), (Some(b"get".to_vec()), 3));
        assert_eq!(
            (keys.next(), keys.is_empty(), keys.next()),
            (Some(b"a".to_vec()), false, Some(b"bcd".to_vec()))
        );
        assert!(keys.is_empty() && keys.next().is_none() && keys.longest() == 0 && keys.bytes_held() == 11);
    }
}
