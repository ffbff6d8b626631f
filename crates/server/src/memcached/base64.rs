//! Base64, in which meta commands say keys of any bytes.

/// Decodes base64 with its padding; `None` when it is none.
#[must_use]
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let digit = |byte: u8| {
        let place = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        Some(u32::from(place))
    };
    let body = text.strip_suffix(b"==").or_else(|| text.strip_suffix(b"=")).unwrap_or(text);
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for group in body.chunks(4) {
        if group.len() == 1 {
            return None;
        }
        let mut bits = 0;
        for byte in group {
            bits = bits << 6 | digit(*byte)?;
        }
        bits <<= 6 * (4 - group.len());
        bytes.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_decoded_or_refused() {
        for (text, bytes) in
            [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYmFy", "foobar")]
        {
            assert_eq!(decode(text.as_bytes()).unwrap(), bytes.as_bytes());
        }
        for wrong in ["Z", "Zg=", "Zg=a", "====", "Z===", "Zm9v!A=="] {
            assert!(decode(wrong.as_bytes()).is_none(), "{wrong}");
        }
    }
}
